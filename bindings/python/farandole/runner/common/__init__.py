"""Modules that tools import: ``service`` and ``util``."""
