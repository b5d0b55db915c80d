"""The data service for TensorFlow on Spark. This package does not import TensorFlow."""
