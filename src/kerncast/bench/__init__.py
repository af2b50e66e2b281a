"""VERB bench: run launches on a GPU that is here, and keep every sample."""
