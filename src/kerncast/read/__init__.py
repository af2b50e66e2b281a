"""VERB read: a file becomes evidence."""

from kerncast.read.declared import declared_profile, read_declared

__all__ = ["declared_profile", "read_declared"]
