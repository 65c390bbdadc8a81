"""Hostile submissions. `python -m tests.attacks` prints the table of attacks and outcomes."""
