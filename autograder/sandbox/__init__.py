"""The untrusted side: where learner code runs, and the walls around it."""
