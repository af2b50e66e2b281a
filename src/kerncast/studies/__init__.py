"""VERBS studies: learn from measurements, bound them, and score what comes of it."""
