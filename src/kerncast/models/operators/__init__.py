"""VERB models of operators: sizes and a GPU become a time, physics first, with a learned residual."""
