"""Reading a source with libclang: host code to take out, signatures of kernels, launches."""
