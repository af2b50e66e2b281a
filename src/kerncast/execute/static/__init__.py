"""VERB count: what a kernel does that cannot be executed, by its text, its arguments and its launch."""

from kerncast.execute.static.counted import NotCountedError, count_by_text

__all__ = ["NotCountedError", "count_by_text"]
