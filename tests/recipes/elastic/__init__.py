"""Recipes that are played by elastic jobs, whose workers are lost, leave and join."""
