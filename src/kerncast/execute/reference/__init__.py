"""The reference engine: plain and slow, what the fast engine is held against."""

from kerncast.execute.reference.batch import ReferenceEngine

__all__ = ["ReferenceEngine"]
