"""Faults put in on purpose: after the command is run again, the scores are those of an undisturbed run."""
