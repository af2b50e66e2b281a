"""Several GPUs for the same launches: who takes part, who is faster and how sure that is, and in which order."""
