"""Helpers of launchers: ``network`` and ``threads``."""
