"""Further runs, in which neighbouring blocks are recorded for the models."""
