"""The study of forecasts for what was left out: its tables, its page and its pictures."""
