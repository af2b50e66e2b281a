"""Rooflines and bars."""
