"""Farandole for ``tf.keras``: ``import farandole.tensorflow.keras as hvd``, or the same below ``horovod``.

Works with the Keras that ``tf.keras`` refers to: Keras 3, or Keras 2 (``TF_USE_LEGACY_KERAS=1``, and up to TensorFlow
2.15).
"""

from farandole.tensorflow.kernels import tf as _tf  # isort: skip  (first: it reports a missing or too old TensorFlow)

from farandole._keras.library import keras_of_tensorflow as _keras_of_tensorflow
from farandole._keras.package import functions_for as _functions_for
from farandole.common.barrier_join import barrier, join
from farandole.common.names import *
from farandole.common.names import basics as _basics
from farandole.common.objects import allgather_object, broadcast_object
from farandole.common.public_names import show_public_names as _show_public_names

_functions = _functions_for(_keras_of_tensorflow())

DistributedOptimizer = _functions.DistributedOptimizer
PartialDistributedOptimizer = _functions.PartialDistributedOptimizer
Compression = _functions.Compression
allreduce = _functions.allreduce
allgather = _functions.allgather
broadcast = _functions.broadcast
reducescatter = _functions.reducescatter
broadcast_global_variables = _functions.broadcast_global_variables
load_model = _functions.load_model


from farandole.tensorflow.keras import callbacks, elastic  # isort: skip  (they are those of the same Keras)

_show_public_names(globals(), modules=["callbacks", "elastic"])
