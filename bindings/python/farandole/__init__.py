"""Farandole keeps a group of training processes in step.

Importing this package loads nothing heavy: no framework and no native library. Take the door of your framework, for
example ``import farandole.torch as hvd``.
"""

__version__ = "0.1.0"
"""Farandole's own version; ``horovod.__version__`` is the level of the interface."""
