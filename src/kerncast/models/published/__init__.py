"""Models that others have published, a file each."""
