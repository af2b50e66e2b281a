"""How many blocks an SM holds, what limits them, and what would hold one more."""
