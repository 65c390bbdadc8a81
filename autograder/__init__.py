"""Grades the exercises of the course; learner code runs in a sandbox and only data comes back."""

__version__ = "1.0.0"
