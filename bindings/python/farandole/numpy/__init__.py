"""Farandole for NumPy arrays: ``import farandole.numpy as hvd``.

The operations of ``farandole.torch`` with the same names, arguments and errors, without gradients, compression and
sparse tensors, for programs that need no framework.
"""

from farandole.common.util import require_framework as _require_framework

_require_framework("numpy", "1.20.0")

from farandole.common.basics import HorovodBasics as _HorovodBasics
from farandole.common.exceptions import HorovodInternalError
from farandole.common.handles import poll, synchronize
from farandole.common.meetings import barrier, join
from farandole.common.objects import allgather_object, broadcast_object
from farandole.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from farandole.numpy.ops import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)

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
AdaSum = Adasum = _basics.Adasum
Min = _basics.Min
Max = _basics.Max
Product = _basics.Product

from farandole.numpy import elastic  # isort: skip  (beside the operations, as in the other doors)
