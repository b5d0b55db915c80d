"""Recipes of Lightning, for elastic jobs."""
