"""Where the tests find what is not theirs."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
