"""Modules for tools around elastic jobs: ``constants`` and ``worker``."""
