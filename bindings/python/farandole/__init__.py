"""Farandole runs collective operations across the processes of a distributed training job.

Importing this package loads neither a framework nor the native library. Import the binding of your framework, for
example ``import farandole.torch as hvd``. The import also registers the strategy's names with Lightning.
"""

from farandole._imports import install as _install_finder

__version__ = "0.1.0"
"""Farandole's own version; ``horovod.__version__`` is the level of the interface."""

_install_finder()
