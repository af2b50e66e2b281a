"""A Forecast as text, HTML and pictures."""
