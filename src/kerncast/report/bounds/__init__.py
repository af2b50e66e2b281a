"""Bounds as text and pictures."""
