"""What libclang reads from a source: host code to take out, signatures of kernels, launches."""
