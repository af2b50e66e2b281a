"""One streaming multiprocessor: micro-ops of its blocks against its pipes, its caches and its share of memory."""
