"""The choice of the blocks to run, and their budget."""
