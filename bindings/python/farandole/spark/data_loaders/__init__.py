"""Loaders of batches for training on data that Spark has prepared."""
