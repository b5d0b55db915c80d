"""What tools around elastic jobs import: ``constants`` and ``worker``."""
