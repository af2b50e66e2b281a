"""Counts of the blocks that ran become a KernelProfile of the launch."""
