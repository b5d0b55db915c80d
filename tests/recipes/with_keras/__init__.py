"""Recipes of Keras 3."""
