"""A profiled launch as text, JSON and CSV."""
