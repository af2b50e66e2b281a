"""What commands share: their common options, and how they print."""
