"""NOUN Launch: a kernel, its grid and its arguments; reads and writes launch files."""
