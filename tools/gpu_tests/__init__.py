"""Runs the tests that need a GPU; ``__main__.py`` is the command ``tools/test gpu``."""
