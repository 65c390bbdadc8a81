"""Odd submissions. `python -m tests.odd` prints the table of them and of what becomes of each."""
