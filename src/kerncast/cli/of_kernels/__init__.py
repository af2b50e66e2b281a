"""Commands that take a kernel and say something of its time."""
