"""VERB report: values become words, tables and pictures."""
