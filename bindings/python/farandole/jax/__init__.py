"""Farandole for JAX: ``import farandole.jax as hvd``.

Operations on arrays, and the same operations inside ``jit``, where they are instructions of the compiled program.
"""

from farandole.common.util import require_framework as _require_framework

_require_framework("jax", "0.8.1")

from farandole.common.barrier_join import barrier, join
from farandole.common.names import *
from farandole.common.objects import allgather_object, broadcast_object
from farandole.common.public_names import show_public_names as _show_public_names
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

from farandole.jax import elastic  # isort: skip  (it is built on all of the above)

_show_public_names(globals(), modules=["elastic"])
