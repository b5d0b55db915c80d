"""Farandole for TensorFlow: ``import farandole.tensorflow as hvd``, or ``import horovod.tensorflow as hvd``."""

from typing import Any as _Any

from farandole.tensorflow.kernels import tf as _tf  # isort: skip  (first: it reports a missing or too old TensorFlow)

from farandole.common.exceptions import (
    HorovodInternalError,
    MismatchError,
    OperationTimeoutError,
    ShutdownError,
    WorkerLostError,
)
from farandole.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from farandole.common.public_names import show_public_names as _show_public_names
from farandole.tensorflow import gradients as _gradients
from farandole.tensorflow.compression import Compression
from farandole.tensorflow.functions import (
    allgather_object,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from farandole.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from farandole.tensorflow.legacy_optimizer import LegacyOptimizer as _LegacyOptimizer
from farandole.tensorflow.mpi_ops import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    _allreduce,
    allgather,
    alltoall,
    barrier,
    broadcast,
    broadcast_,
    ccl_built,
    check_num_rank_power_of_2,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    grouped_allgather,
    handle_average_backwards_compatibility,
    init,
    is_homogeneous,
    is_initialized,
    join,
    local_rank,
    local_rank_op,
    local_size,
    local_size_op,
    mark_step,
    max_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    process_set_included_op,
    rank,
    rank_op,
    rocm_built,
    shutdown,
    size,
    size_op,
    start_timeline,
    stop_timeline,
)
from farandole.tensorflow.optimizer import DistributedOptimizer
from farandole.tensorflow.reductions import allreduce, grouped_allreduce, grouped_reducescatter, reducescatter
from farandole.tensorflow.sessions import BroadcastGlobalVariablesHook, broadcast_global_variables
from farandole.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape
from farandole.tensorflow.util import _executing_eagerly, refs_to_vars, vars_to_refs

from farandole.tensorflow import elastic  # isort: skip  (it is built on all of the above)

AdaSum = Adasum  # the manual spells it both ways


def __getattr__(name: str) -> _Any:
    """Imports Keras only when ``SyncBatchNormalization`` is used."""
    if name == "SyncBatchNormalization":
        from farandole.tensorflow.sync_batch_norm import SyncBatchNormalization

        return SyncBatchNormalization
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_show_public_names(globals(), modules=["elastic"], lazy=["SyncBatchNormalization"])
