"""Which GPU is the best for some launches, as tables, JSON, CSV and pictures."""
