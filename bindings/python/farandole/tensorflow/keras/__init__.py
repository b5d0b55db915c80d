"""Farandole for ``tf.keras``: ``import farandole.tensorflow.keras as hvd``, or the same below ``horovod``.

Whichever Keras TensorFlow calls so: Keras 3, or Keras 2 (``TF_USE_LEGACY_KERAS=1``, and up to TensorFlow 2.15).
"""

from farandole.tensorflow.kernels import tf as _tf  # isort: skip  (says what is wrong with TensorFlow, if anything)

from farandole._keras.library import keras_of_tensorflow as _keras_of_tensorflow
from farandole._keras.package import functions_for as _functions_for
from farandole.common.basics import HorovodBasics as _HorovodBasics
from farandole.common.exceptions import HorovodInternalError
from farandole.common.meetings import barrier, join
from farandole.common.objects import allgather_object, broadcast_object
from farandole.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

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

_basics = _HorovodBasics(__file__, "mpi_lib_v2")

init = _basics.init
shutdown = _basics.shutdown
is_initialized = _basics.is_initialized
size = _basics.size
max_size = _basics.max_size
local_size = _basics.local_size
cross_size = _basics.cross_size
rank = _basics.rank
local_rank = _basics.local_rank
cross_rank = _basics.cross_rank
is_homogeneous = _basics.is_homogeneous
mpi_threads_supported = _basics.mpi_threads_supported
mpi_enabled = _basics.mpi_enabled
mpi_built = _basics.mpi_built
gloo_enabled = _basics.gloo_enabled
gloo_built = _basics.gloo_built
nccl_built = _basics.nccl_built
ddl_built = _basics.ddl_built
ccl_built = _basics.ccl_built
cuda_built = _basics.cuda_built
rocm_built = _basics.rocm_built
start_timeline = _basics.start_timeline
stop_timeline = _basics.stop_timeline

Average = _basics.Average
Sum = _basics.Sum
Adasum = AdaSum = _basics.Adasum  # the manual spells it both ways
Min = _basics.Min
Max = _basics.Max
Product = _basics.Product

from farandole.tensorflow.keras import callbacks, elastic  # isort: skip  (they are those of the same Keras)
