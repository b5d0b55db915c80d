"""Farandole keeps a group of training processes in step.

Importing this package loads nothing heavy: no framework and no native library. Take the submission queue of your framework, for
example ``import farandole.torch as hvd``. Lightning knows the strategy's names from then on.
"""

from farandole._imports import install as _install_finder

__version__ = "0.1.0"
"""Farandole's own version; ``horovod.__version__`` is the level of the interface."""

_install_finder()
