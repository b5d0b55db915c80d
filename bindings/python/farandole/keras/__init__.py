"""Farandole for Keras: ``import farandole.keras as hvd``, or ``import horovod.keras as hvd``.

Keras 3 on TensorFlow, PyTorch or JAX; before it, the Keras that TensorFlow 2.15 comes with.
"""

from farandole._keras.library import require_keras as _require_keras

_require_keras()

import keras as _keras

from farandole._keras.package import functions_for as _functions_for
from farandole.common.barrier_join import barrier, join
from farandole.common.names import *
from farandole.common.names import basics as _basics
from farandole.common.objects import allgather_object, broadcast_object
from farandole.common.public_names import show_public_names as _show_public_names

_functions = _functions_for(_keras)

DistributedOptimizer = _functions.DistributedOptimizer
PartialDistributedOptimizer = _functions.PartialDistributedOptimizer
Compression = _functions.Compression
allreduce = _functions.allreduce
allgather = _functions.allgather
broadcast = _functions.broadcast
reducescatter = _functions.reducescatter
broadcast_global_variables = _functions.broadcast_global_variables
load_model = _functions.load_model


from farandole.keras import callbacks, elastic  # isort: skip  (they are those of the same Keras)

_show_public_names(globals(), modules=["callbacks", "elastic"])
