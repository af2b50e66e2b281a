"""Words and pictures of the study of a published convolution layer."""
