"""Named numbers of a profile: Nsight Compute's metrics and the features that models learn from."""
