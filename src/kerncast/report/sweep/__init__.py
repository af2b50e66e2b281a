"""Sweeps as tables, JSON, CSV, Parquet and pictures."""
