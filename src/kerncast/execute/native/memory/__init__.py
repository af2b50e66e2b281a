"""Code of this CPU for what instructions read and write, and its counters."""
