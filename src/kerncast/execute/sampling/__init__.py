"""Which blocks run, and how long."""
