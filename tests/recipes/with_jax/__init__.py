"""Recipes of JAX with Optax."""
