"""Farandole for Keras: ``import farandole.keras as hvd``, or ``import horovod.keras as hvd``.

Keras 3 on TensorFlow, PyTorch or JAX; before it, the Keras that TensorFlow 2.15 comes with.
"""

from farandole.common.util import require_framework as _require_framework

_require_framework("keras", "2.13.0")

import keras as _keras

from farandole._keras.package import functions_for as _functions_for
from farandole.common.basics import HorovodBasics as _HorovodBasics
from farandole.common.exceptions import HorovodInternalError
from farandole.common.meetings import barrier, join
from farandole.common.objects import allgather_object, broadcast_object
from farandole.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

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

from farandole.keras import callbacks, elastic  # isort: skip  (they are those of the same Keras)
