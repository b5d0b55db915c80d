"""Farandole for NumPy arrays: ``import farandole.numpy as hvd``.

The operations of ``farandole.torch`` with the same names, arguments and errors, without gradients, compression and
sparse tensors, for programs that need no framework.
"""

from farandole.common.util import require_framework as _require_framework

_require_framework("numpy", "1.20.0")

from farandole.common.barrier_join import barrier, join
from farandole.common.handles import poll, synchronize
from farandole.common.names import *
from farandole.common.names import basics as _basics
from farandole.common.objects import allgather_object, broadcast_object
from farandole.common.public_names import show_public_names as _show_public_names
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

from farandole.numpy import elastic  # isort: skip  (beside the operations, as in the other bindings)

_show_public_names(globals(), modules=["elastic"])
