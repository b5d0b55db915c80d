"""Everything that scripts import from ``horovod.torch.mpi_ops``: the job, its place, and the operations on tensors.

Everything is matched across ranks by name, and without one by the order of calls. The operations are in
``farandole.torch.ops``, one file each.
"""

from __future__ import annotations

from typing import Any

from farandole.common.basics import HorovodBasics as _HorovodBasics
from farandole.common.calls import handle_average_backwards_compatibility
from farandole.common.exceptions import HorovodInternalError
from farandole.common.handles import (
    poll,
    synchronize,
)
from farandole.common.meetings import (
    barrier,
    join,
)
from farandole.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from farandole.torch.compression import Compression
from farandole.torch.ops.allgather import (
    HorovodAllgather,
    HorovodGroupedAllgather,
    allgather,
    allgather_async,
    grouped_allgather,
    grouped_allgather_async,
)
from farandole.torch.ops.allreduce import (
    HorovodAllreduce,
    HorovodGroupedAllreduce,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from farandole.torch.ops.alltoall import (
    HorovodAlltoall,
    alltoall,
    alltoall_async,
)
from farandole.torch.ops.broadcast import (
    HorovodBroadcast,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
)
from farandole.torch.ops.reducescatter import (
    HorovodGroupedReducescatter,
    HorovodReducescatter,
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from farandole.torch.ops.sparse import (
    sparse_allreduce_async,
)

_basics = _HorovodBasics(__file__, "mpi_lib_v2")

init = _basics.init
shutdown = _basics.shutdown
is_initialized = _basics.is_initialized
start_timeline = _basics.start_timeline
stop_timeline = _basics.stop_timeline
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

Average = _basics.Average
Sum = _basics.Sum
Adasum = _basics.Adasum
Min = _basics.Min
Max = _basics.Max
Product = _basics.Product
