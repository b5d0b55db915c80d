"""Farandole for JAX: ``import farandole.jax as hvd``.

Operations on arrays, and the same operations inside ``jit``, where they are instructions of the compiled program.
"""

from farandole.common.util import require_framework as _require_framework

_require_framework("jax", "0.4.38")

from farandole.common.basics import HorovodBasics as _HorovodBasics
from farandole.common.exceptions import HorovodInternalError
from farandole.common.meetings import barrier, join
from farandole.common.objects import allgather_object, broadcast_object
from farandole.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from farandole.jax.compression import Compression
from farandole.jax.functions import broadcast_parameters
from farandole.jax.ops import (
    allgather,
    allreduce,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from farandole.jax.optimizer import DistributedOptimizer
from farandole.jax.program import finish as _finish

_basics = _HorovodBasics(__file__, "mpi_lib_v2")


def shutdown() -> None:
    """Leaves the job when the programs that this thread has called have run. Allows a later ``init()``."""
    if _basics.is_initialized():
        _finish()
    _basics.shutdown()


init = _basics.init
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

from farandole.jax import elastic  # isort: skip  (it is built on all of the above)
