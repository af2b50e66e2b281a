"""Occupancy as tables, JSON and pictures."""
