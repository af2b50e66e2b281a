"""Models that carry a measured run over to another GPU."""
