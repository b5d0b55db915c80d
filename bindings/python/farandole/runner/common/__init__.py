"""Modules that tools import: ``util``."""
