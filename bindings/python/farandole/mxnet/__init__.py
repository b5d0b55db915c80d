"""Farandole for MXNet: ``import farandole.mxnet as hvd``, or ``import horovod.mxnet as hvd``."""

from farandole.common.util import require_framework as _require_framework

try:
    _require_framework("mxnet", "1.9.0")
except AttributeError as _problem:  # NumPy has dropped what MXNet uses
    raise ImportError(f"MXNet cannot be imported ({_problem}): it needs pip install 'numpy<1.24'") from _problem

from farandole.common.exceptions import (
    HorovodInternalError,
    MismatchError,
    OperationTimeoutError,
    ShutdownError,
    WorkerLostError,
)
from farandole.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from farandole.common.public_names import show_public_names as _show_public_names
from farandole.mxnet.compression import Compression
from farandole.mxnet.functions import allgather_object, broadcast_object, broadcast_parameters
from farandole.mxnet.mpi_ops import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    allgather,
    allreduce,
    allreduce_,
    alltoall,
    barrier,
    broadcast,
    broadcast_,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    grouped_allgather,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_reducescatter,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mark_step,
    max_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    reducescatter,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from farandole.mxnet.optimizer import DistributedOptimizer
from farandole.mxnet.trainer import DistributedTrainer

AdaSum = Adasum  # the manual spells it both ways

_show_public_names(globals())
