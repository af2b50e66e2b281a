"""The fast engine."""
