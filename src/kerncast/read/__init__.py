"""VERB read: a file becomes evidence."""

from kerncast.read.selection import Pattern, Selection, function_name

__all__ = ["Pattern", "Selection", "function_name"]
