"""NOUN KernelProfile: what one launch does, each count with its origin and its range."""
