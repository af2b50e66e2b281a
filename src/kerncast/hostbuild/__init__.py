"""VERB: sources of whole CUDA programs become programs whose host code runs here."""
