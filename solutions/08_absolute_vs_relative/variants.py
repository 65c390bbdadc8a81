"""Right answers."""
