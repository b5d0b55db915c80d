"""Recipes of TensorFlow's training loops."""
