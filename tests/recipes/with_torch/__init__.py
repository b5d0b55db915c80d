"""Recipes of training with PyTorch. `training.py` plays one; the other files hold the parts that it composes."""
