"""ENTRY forecast: evidence and GPUs become forecasts."""
