# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import mxnet as mx

from farandole.common.exceptions import HorovodInternalError as HorovodInternalError
from farandole.common.exceptions import MismatchError as MismatchError
from farandole.common.exceptions import OperationTimeoutError as OperationTimeoutError
from farandole.common.exceptions import ShutdownError as ShutdownError
from farandole.common.exceptions import WorkerLostError as WorkerLostError
from farandole.common.process_sets import ProcessSet as ProcessSet
from farandole.common.process_sets import global_process_set as global_process_set
from farandole.mxnet.compression import Compression as Compression
from farandole.mxnet.optimizer import DistributedOptimizer as DistributedOptimizer
from farandole.mxnet.trainer import DistributedTrainer as DistributedTrainer

AdaSum: int
Adasum: int
Average: int
Max: int
Min: int
Product: int
Sum: int

def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Adds a set of ranks: all ranks call this, members or not, and it returns when the set can be used.

    ``ValueError`` on all ranks for a set that exists already, for ranks that do not fit the job and for ranks that do
    not agree; nothing changes then and the job goes on. In an elastic job sets go on when members change, so one that
    was added before may have just these ranks now: then it exists already, and the error says its number, the
    lowest if several have shrunk to them.

    :param process_set: a new set, or the list of its global ranks
    :returns: the set, which has its number now
    """

def allgather(
    tensor: mx.nd.NDArray, name: Optional[str] = ..., priority: int = ..., process_set: ProcessSet = ...
) -> mx.nd.NDArray:
    """Concatenates the tensors of all ranks, in rank order, along their first dimension, which may differ.

    :param tensor: this rank's input; must be contiguous
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param priority: operations of a higher priority are started first by the framework's engine
    :param process_set: process set that runs the operation; the global set by default
    :returns: a new tensor, the same on every rank
    """

def allgather_object(obj: Any, name: Optional[str] = ...) -> List[Any]:
    """Gathers the objects of all ranks on every rank.

    :param obj: any object that can be pickled
    :param name: the same on all ranks
    :returns: the objects in rank order
    """

def allreduce(
    tensor: mx.nd.NDArray,
    average: Optional[bool] = ...,
    name: Optional[str] = ...,
    priority: int = ...,
    prescale_factor: float = ...,
    postscale_factor: float = ...,
    process_set: ProcessSet = ...,
    op: Optional[int] = ...,
) -> mx.nd.NDArray:
    """Reduces a tensor over all ranks.

    :param tensor: this rank's input; must be contiguous
    :param average: deprecated: use ``op``
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param priority: operations of a higher priority are started first by the framework's engine
    :param prescale_factor: multiplies the tensor before it is reduced
    :param postscale_factor: multiplies the result
    :param process_set: process set that runs the operation; the global set by default
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
    :returns: a new tensor, the same on every rank
    """

def allreduce_(
    tensor: mx.nd.NDArray,
    average: Optional[bool] = ...,
    name: Optional[str] = ...,
    priority: int = ...,
    prescale_factor: float = ...,
    postscale_factor: float = ...,
    process_set: ProcessSet = ...,
    op: Optional[int] = ...,
) -> mx.nd.NDArray:
    """Reduces a tensor over all ranks, in place.

    :param tensor: this rank's input; must be contiguous
    :param average: deprecated: use ``op``
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param priority: operations of a higher priority are started first by the framework's engine
    :param prescale_factor: multiplies the tensor before it is reduced
    :param postscale_factor: multiplies the result
    :param process_set: process set that runs the operation; the global set by default
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
    :returns: the tensor
    """

def alltoall(
    tensor: mx.nd.NDArray,
    splits: Any = ...,
    name: Optional[str] = ...,
    priority: int = ...,
    process_set: ProcessSet = ...,
) -> Union[mx.nd.NDArray, Tuple[mx.nd.NDArray, mx.nd.NDArray]]:
    """Sends rows to every rank and receives rows from every rank, in rank order.

    :param tensor: this rank's input; must be contiguous
    :param splits: number of rows to send to each rank: a list, or an int32 or int64 tensor on any device; equal parts by default
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param priority: operations of a higher priority are started first by the framework's engine
    :param process_set: process set that runs the operation; the global set by default
    :returns: the rows received; with ``splits``, the rows received and an int32 tensor that says how many came from each rank
    """

def barrier(process_set: ProcessSet = ...) -> None:
    """Waits until all ranks have called it.

    :param process_set: process set that runs the operation; the global set by default
    :returns: None
    """

def broadcast(
    tensor: mx.nd.NDArray, root_rank: int, name: Optional[str] = ..., priority: int = ..., process_set: ProcessSet = ...
) -> mx.nd.NDArray:
    """Sends one rank's tensor to all ranks.

    :param tensor: this rank's input; must be contiguous
    :param root_rank: global rank that sends the tensor
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param priority: operations of a higher priority are started first by the framework's engine
    :param process_set: process set that runs the operation; the global set by default
    :returns: a new tensor, the same on every rank
    """

def broadcast_(
    tensor: mx.nd.NDArray, root_rank: int, name: Optional[str] = ..., priority: int = ..., process_set: ProcessSet = ...
) -> mx.nd.NDArray:
    """Sends one rank's tensor to all ranks, in place.

    :param tensor: this rank's input; must be contiguous
    :param root_rank: global rank that sends the tensor
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param priority: operations of a higher priority are started first by the framework's engine
    :param process_set: process set that runs the operation; the global set by default
    :returns: the tensor
    """

def broadcast_object(obj: Any, root_rank: int = ..., name: Optional[str] = ...) -> Any:
    """Sends one rank's object to all ranks.

    :param obj: any object that can be pickled; ignored on ranks other than the root
    :param root_rank: global rank that sends the object
    :param name: the same on all ranks
    :returns: the root's object
    """

def broadcast_parameters(
    params: Union[Dict[str, Any], mx.gluon.ParameterDict], root_rank: int = ..., prefix: Optional[str] = ...
) -> None:
    """Sends one rank's parameters to all ranks, in place.

    :param params: a dictionary of parameters by name, or another collection of parameters that the framework offers
    :param root_rank: global rank that sends the parameters
    :param prefix: prepended to every name
    """

def ccl_built() -> bool:
    """Whether oneCCL is built in."""

def cross_rank() -> int:
    """This host's number among those that have a process with this one's local rank."""

def cross_size() -> int:
    """Hosts that have a process with this one's local rank."""

def cuda_built() -> bool:
    """Whether this build takes tensors in the memory of CUDA devices."""

def ddl_built() -> bool:
    """Whether IBM DDL is built in."""

def gloo_built() -> bool:
    """Whether processes can be launched without MPI; always so."""

def gloo_enabled() -> bool:
    """Whether processes connect without MPI; always so."""

def grouped_allgather(
    tensors: Sequence[mx.nd.NDArray], name: Optional[str] = ..., priority: int = ..., process_set: ProcessSet = ...
) -> List[mx.nd.NDArray]:
    """Concatenates the tensors of all ranks, in rank order, along their first dimension, which may differ. Does so for several tensors as one.

    :param tensors: this rank's inputs; reduced or gathered as one group
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param priority: operations of a higher priority are started first by the framework's engine
    :param process_set: process set that runs the operation; the global set by default
    :returns: a tuple of new tensors
    """

def grouped_allreduce(
    tensors: Sequence[mx.nd.NDArray],
    average: Optional[bool] = ...,
    name: Optional[str] = ...,
    priority: int = ...,
    prescale_factor: float = ...,
    postscale_factor: float = ...,
    process_set: ProcessSet = ...,
    op: Optional[int] = ...,
) -> List[mx.nd.NDArray]:
    """Reduces several tensors over all ranks as one.

    :param tensors: this rank's inputs; reduced or gathered as one group
    :param average: deprecated: use ``op``
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param priority: operations of a higher priority are started first by the framework's engine
    :param prescale_factor: multiplies the tensor before it is reduced
    :param postscale_factor: multiplies the result
    :param process_set: process set that runs the operation; the global set by default
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
    :returns: a list of new tensors
    """

def grouped_allreduce_(
    tensors: Sequence[mx.nd.NDArray],
    average: Optional[bool] = ...,
    name: Optional[str] = ...,
    priority: int = ...,
    prescale_factor: float = ...,
    postscale_factor: float = ...,
    process_set: ProcessSet = ...,
    op: Optional[int] = ...,
) -> Sequence[mx.nd.NDArray]:
    """Reduces several tensors over all ranks as one, in place.

    :param tensors: this rank's inputs; reduced or gathered as one group
    :param average: deprecated: use ``op``
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param priority: operations of a higher priority are started first by the framework's engine
    :param prescale_factor: multiplies the tensor before it is reduced
    :param postscale_factor: multiplies the result
    :param process_set: process set that runs the operation; the global set by default
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
    :returns: a tuple of the tensors
    """

def grouped_reducescatter(
    tensors: Sequence[mx.nd.NDArray],
    op: int = ...,
    name: Optional[str] = ...,
    priority: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = ...,
    postscale_factor: float = ...,
) -> List[mx.nd.NDArray]:
    """Reduces a tensor over all ranks and gives each rank a share of the rows; if they cannot be divided evenly, the first ranks get one row more. Does so for several tensors as one.

    :param tensors: this rank's inputs; reduced or gathered as one group
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param priority: operations of a higher priority are started first by the framework's engine
    :param process_set: process set that runs the operation; the global set by default
    :param prescale_factor: multiplies the tensor before it is reduced
    :param postscale_factor: multiplies the result
    :returns: a list of this rank's shares, new tensors
    """

def init(
    comm: Optional[Union[Sequence[int], Any]] = ..., process_sets: Optional[Union[str, Sequence[ProcessSet]]] = ...
) -> None:
    """Joins the job that the environment names; a job of one process when it names none.

    ``comm`` may be a list of ranks of MPI's world, which counts only in a job that mpirun started, or a
    communicator of mpi4py, whose processes are then the job. ``process_sets`` lists the sets that are to exist
    besides the global one, the same on all ranks; ``"dynamic"`` allows sets to be added later. With a communicator,
    sets may be made from communicators too: all ranks' are gathered, so that a split registers each of its parts.

    A worker that joins a running elastic job lists the same sets in the same order. A set of ranks then has those
    of its members that are still in the job; a set by rule (``ProcessSet.by_rule``) is evaluated anew.
    """

def is_homogeneous() -> bool:
    """Whether every host has equally many processes."""

def is_initialized() -> bool:
    """Whether ``init()`` has been called, and ``shutdown()`` not since."""

def local_rank() -> int:
    """This process's number on its host, from 0."""

def local_size() -> int:
    """Processes of the job on this host."""

def mark_step() -> None:
    """Records that a training step ends here, for ``farandole report``; every rank marks the same steps.

    Call it once at the end of each step. Without it, the report finds the steps by the names of tensors that recur.
    """

def max_size() -> int:
    """The most processes that the job may come to have: ``FARANDOLE_MAX_NP``, or ``size()`` without it."""

def mpi_built() -> bool:
    """Whether MPI is built in."""

def mpi_enabled() -> bool:
    """Whether MPI can connect the processes of the job, as mpirun started them, or moves their tensors."""

def mpi_threads_supported() -> bool:
    """Whether other threads may call MPI beside Farandole; ``ValueError`` in a job without MPI."""

def nccl_built() -> int:
    """The version code of the NCCL that moves tensors in GPU memory, such as 22809; 0 if this build can use none,
    or finds none.
    """

def rank() -> int:
    """This process's number in the job, from 0."""

def reducescatter(
    tensor: mx.nd.NDArray,
    op: int = ...,
    name: Optional[str] = ...,
    priority: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = ...,
    postscale_factor: float = ...,
) -> mx.nd.NDArray:
    """Reduces a tensor over all ranks and gives each rank a share of the rows; if they cannot be divided evenly, the first ranks get one row more.

    :param tensor: this rank's input; must be contiguous
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param priority: operations of a higher priority are started first by the framework's engine
    :param process_set: process set that runs the operation; the global set by default
    :param prescale_factor: multiplies the tensor before it is reduced
    :param postscale_factor: multiplies the result
    :returns: this rank's share, a new tensor
    """

def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set: all ranks call this, members or not. Operations pending in the set fail, no others do.

    :param process_set: a set that is registered; it is not any more afterwards
    :returns: False for a set that is not registered, and for the global one
    """

def rocm_built() -> bool:
    """Whether ROCm is built in."""

def shutdown() -> None:
    """Leaves the job when programs of JAX and MXNet's engine have run, or at once when the script has failed or the
    caller handles an exception of its own; other operations in flight on any rank fail. Allows a later ``init()``.
    """

def size() -> int:
    """Processes in the job."""

def start_timeline(file_path: str, mark_cycles: bool = ...) -> None:
    """Writes a timeline of all operations to this file from now on, on rank 0 only; all ranks may make the call.

    The file that was written before is completed first, unless it has the same path: then nothing changes.
    Problems with the file are logged. ``mark_cycles`` shows when fused operations start. ``ValueError`` if
    ``HOROVOD_TIMELINE`` was not set before ``init()``; ``DYNAMIC`` writes nothing until this call.
    """

def stop_timeline() -> None:
    """Completes the file of the timeline: it has all operations that ended before the call."""
