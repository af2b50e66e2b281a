"""Tests of the study of what was left out."""
