"""Recipes of Keras 3 and of Keras 2."""
