"""Farandole for PyTorch: ``import farandole.torch as hvd``, or ``import horovod.torch as hvd``."""

from farandole.common.util import require_framework as _require_framework

_require_framework("torch", "2.2.0")

from farandole.common.exceptions import (
    HorovodInternalError,
    MismatchError,
    OperationTimeoutError,
    ShutdownError,
    WorkerLostError,
)
from farandole.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from farandole.common.public_names import show_public_names as _show_public_names
from farandole.torch.compression import Compression
from farandole.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from farandole.torch.mpi_ops import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    init,
    is_homogeneous,
    is_initialized,
    join,
    local_rank,
    local_size,
    mark_step,
    max_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    poll,
    rank,
    reducescatter,
    reducescatter_async,
    rocm_built,
    shutdown,
    size,
    sparse_allreduce_async,
    start_timeline,
    stop_timeline,
    synchronize,
)
from farandole.torch.optimizer import DistributedOptimizer
from farandole.torch.sync_batch_norm import SyncBatchNorm

from farandole.torch import elastic  # isort: skip  (it is built on all of the above)

AdaSum = Adasum  # the manual spells it both ways

_show_public_names(globals(), modules=["elastic"])
