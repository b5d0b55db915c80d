"""Names that every framework's package shares: this process's place, built-in features, reductions, process sets.

Adapters take all of them with a star. The runtime is one for all frameworks of a process, and so is ``basics``.
"""

from __future__ import annotations

from farandole.common.basics import HorovodBasics
from farandole.common.exceptions import (
    HorovodInternalError,
    MismatchError,
    OperationTimeoutError,
    ShutdownError,
    WorkerLostError,
)
from farandole.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

basics = HorovodBasics(__file__, "_native")

init = basics.init
shutdown = basics.shutdown
is_initialized = basics.is_initialized
start_timeline = basics.start_timeline
stop_timeline = basics.stop_timeline
mark_step = basics.mark_step
size = basics.size
max_size = basics.max_size
local_size = basics.local_size
cross_size = basics.cross_size
rank = basics.rank
local_rank = basics.local_rank
cross_rank = basics.cross_rank
is_homogeneous = basics.is_homogeneous
mpi_threads_supported = basics.mpi_threads_supported
mpi_enabled = basics.mpi_enabled
mpi_built = basics.mpi_built
gloo_enabled = basics.gloo_enabled
gloo_built = basics.gloo_built
nccl_built = basics.nccl_built
ddl_built = basics.ddl_built
ccl_built = basics.ccl_built
cuda_built = basics.cuda_built
rocm_built = basics.rocm_built

Average = basics.Average
Sum = basics.Sum
Adasum = AdaSum = basics.Adasum  # the manual spells it both ways
Min = basics.Min
Max = basics.Max
Product = basics.Product

__all__ = [
    "HorovodInternalError",
    "MismatchError",
    "OperationTimeoutError",
    "ShutdownError",
    "WorkerLostError",
    "ProcessSet",
    "add_process_set",
    "global_process_set",
    "remove_process_set",
    "init",
    "shutdown",
    "is_initialized",
    "start_timeline",
    "stop_timeline",
    "mark_step",
    "size",
    "max_size",
    "local_size",
    "cross_size",
    "rank",
    "local_rank",
    "cross_rank",
    "is_homogeneous",
    "mpi_threads_supported",
    "mpi_enabled",
    "mpi_built",
    "gloo_enabled",
    "gloo_built",
    "nccl_built",
    "ddl_built",
    "ccl_built",
    "cuda_built",
    "rocm_built",
    "Average",
    "Sum",
    "Adasum",
    "AdaSum",
    "Min",
    "Max",
    "Product",
]
