"""What host code says of launches: which kernels it starts, how wide, and on which arguments."""
