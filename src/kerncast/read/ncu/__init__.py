"""Files of Nsight Compute become a KernelProfile."""
