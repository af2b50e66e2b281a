"""Fuzzers of everything that kerncast reads: ``python -m tests.fuzz --help``. How much they ran is in docs/trust.md."""
