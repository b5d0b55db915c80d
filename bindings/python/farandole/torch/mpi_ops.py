"""The names that scripts import from ``horovod.torch.mpi_ops``: job, rank and size, and the operations on tensors.

Ranks match operations by name, and operations without a name by the order of calls. The operations are in
``farandole.torch.ops``, one file each.
"""

from __future__ import annotations

from types import FunctionType as _FunctionType
from typing import Any

from farandole.common.barrier_join import (
    barrier,
    join,
)
from farandole.common.calls import handle_average_backwards_compatibility
from farandole.common.handles import (
    poll,
    synchronize,
)
from farandole.common.names import *
from farandole.common.names import basics as _basics
from farandole.torch.compression import Compression
from farandole.torch.graph.node import OFFERED as _OFFERED
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
from farandole.torch.submission import untraced as _untraced

if not _OFFERED:  # each call breaks the graph, and Dynamo does not trace into it
    for _name, _each in list(globals().items()):
        if isinstance(_each, _FunctionType):
            globals()[_name] = _untraced(_each)
