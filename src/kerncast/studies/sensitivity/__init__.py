"""VERB sensitivity: what hardware and code would change of a launch's time, by simulating it again."""
