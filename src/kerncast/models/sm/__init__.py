"""One streaming multiprocessor, simulated: its blocks' micro-ops against its pipes, its caches and its share of memory."""
