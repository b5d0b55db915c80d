"""Recipes of MXNet Gluon."""
