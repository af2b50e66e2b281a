"""Scores of trained models as text, JSON and pictures."""
