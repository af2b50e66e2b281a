"""Commands that learn from tables of measurements, and publish studies."""
