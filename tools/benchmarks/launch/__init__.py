"""Measures how long the launcher takes, beside other launchers that do the same."""
