"""Known mistakes of topic 08."""
