"""Commands about GPUs, this machine and what it has installed."""
