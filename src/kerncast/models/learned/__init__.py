"""Models that learned from measured launches: arrays and an equation each, read from files."""
