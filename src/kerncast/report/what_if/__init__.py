"""REPORT of what would change a time: words, tables, JSON and pictures."""
