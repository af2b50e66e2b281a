"""VERB: a program runs on a virtual GPU, and what it did becomes a Recording."""
