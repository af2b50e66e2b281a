"""Sweeps: a launch with its settings varied together, forecast point by point."""
