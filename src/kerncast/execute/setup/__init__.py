"""What a launch needs before it runs: memory, arguments, and the check that its PTX can be executed."""
