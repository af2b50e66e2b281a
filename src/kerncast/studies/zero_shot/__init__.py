"""The study of forecasts for kernels, GPUs and sets that were left out: the residual of the simulation, learned."""
