"""Finds the interfaces that the hosts of a job have in common: ``driver_service``."""
