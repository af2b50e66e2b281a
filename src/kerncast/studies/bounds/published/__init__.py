"""Published methods of bounding a time on parts of a GPU: those of G. Warde, 2025, one per file."""
