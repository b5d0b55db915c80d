# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.
from typing import Any, Dict, List, Optional, Sequence, Union

from farandole.common.exceptions import HorovodInternalError as HorovodInternalError
from farandole.common.exceptions import MismatchError as MismatchError
from farandole.common.exceptions import OperationTimeoutError as OperationTimeoutError
from farandole.common.exceptions import ShutdownError as ShutdownError
from farandole.common.exceptions import WorkerLostError as WorkerLostError
from farandole.common.process_sets import ProcessSet as ProcessSet
from farandole.common.process_sets import global_process_set as global_process_set
from farandole.keras import callbacks as callbacks
from farandole.keras import elastic as elastic
from farandole.tensorflow.compression import Compression as Compression

AdaSum: int
Adasum: int
Average: int
Max: int
Min: int
Product: int
Sum: int

def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = ...,
    device_dense: str = ...,
    device_sparse: str = ...,
    compression: Any = ...,
    sparse_as_dense: bool = ...,
    gradient_predivide_factor: float = ...,
    op: int = ...,
    backward_passes_per_step: int = ...,
    average_aggregated_gradients: bool = ...,
    num_groups: int = ...,
    groups: Any = ...,
    process_set: ProcessSet = ...,
    scale_local_gradients: bool = ...,
) -> Any:
    """Wraps an optimizer so that its gradients are reduced over all ranks before each step.

    :param optimizer: optimizer that computes the update
    :param name: name of the optimizer; by default ``Distributed`` and the name of its class
    :param device_dense: device on which dense tensors are reduced; the framework's choice by default
    :param device_sparse: device on which sparse tensors are gathered; the framework's choice by default
    :param compression: compressor for the gradients: ``Compression.none``, ``.fp16``, ``.bf16``, or another one of ``Compression``
    :param sparse_as_dense: convert sparse gradients to dense ones before they are reduced
    :param gradient_predivide_factor: with ``Average``, divisor that is applied before the gradients are summed; the rest of the division follows after the sum
    :param op: ``Average`` (the default), ``Sum``, or another one that the framework's page lists; with ``Adasum`` each rank takes its own step, and the changes of the parameters are combined
    :param backward_passes_per_step: number of backward passes whose gradients are accumulated before they are reduced
    :param average_aggregated_gradients: divide the accumulated gradients by ``backward_passes_per_step``
    :param num_groups: deprecated: use ``groups``
    :param groups: number of groups into which the gradients are divided, or a list of lists of parameters; each group is reduced as one
    :param process_set: process set that runs the operation; the global set by default
    :param scale_local_gradients: divide gradients of local layers, which are not reduced, by the number of ranks
    :returns: a distributed optimizer, whose class derives from the class of ``optimizer``
    """

def PartialDistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = ...,
    device_dense: str = ...,
    device_sparse: str = ...,
    compression: Any = ...,
    sparse_as_dense: bool = ...,
    gradient_predivide_factor: float = ...,
    op: int = ...,
    backward_passes_per_step: int = ...,
    average_aggregated_gradients: bool = ...,
    groups: Any = ...,
    process_set: ProcessSet = ...,
    local_layers: Any = ...,
    scale_local_gradients: bool = ...,
) -> Any:
    """Wraps an optimizer so that its gradients, other than those of local layers, are reduced over all ranks before each step.

    :param optimizer: optimizer that computes the update
    :param name: name of the optimizer; by default ``Distributed`` and the name of its class
    :param device_dense: device on which dense tensors are reduced; the framework's choice by default
    :param device_sparse: device on which sparse tensors are gathered; the framework's choice by default
    :param compression: compressor for the gradients: ``Compression.none``, ``.fp16``, ``.bf16``, or another one of ``Compression``
    :param sparse_as_dense: convert sparse gradients to dense ones before they are reduced
    :param gradient_predivide_factor: with ``Average``, divisor that is applied before the gradients are summed; the rest of the division follows after the sum
    :param op: ``Average`` (the default), ``Sum``, or another one that the framework's page lists; with ``Adasum`` each rank takes its own step, and the changes of the parameters are combined
    :param backward_passes_per_step: number of backward passes whose gradients are accumulated before they are reduced
    :param average_aggregated_gradients: divide the accumulated gradients by ``backward_passes_per_step``
    :param groups: number of groups into which the gradients are divided, or a list of lists of parameters; each group is reduced as one
    :param process_set: process set that runs the operation; the global set by default
    :param local_layers: a layer, or a list of layers, whose gradients are not reduced
    :param scale_local_gradients: divide gradients of local layers, which are not reduced, by the number of ranks
    :returns: a distributed optimizer, whose class derives from the class of ``optimizer``
    """

def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Adds a set of ranks: all ranks call this, members or not, and it returns when the set can be used.

    ``ValueError`` on all ranks for a set that exists already, for ranks that do not fit the job and for ranks that do
    not agree; nothing changes then and the job goes on. In an elastic job sets go on when members change, so one that
    was added before may have just these ranks now: then it exists already, and the error says its number, the
    lowest if several have shrunk to them.

    :param process_set: a new set, or the list of its global ranks
    :returns: the set, which has its number now
    """

def allgather(value: Any, name: Optional[str] = ...) -> Any:
    """Concatenates the tensors of all ranks, in rank order, along their first dimension, which may differ.

    :param value: this rank's input: a tensor, an array, or a value that can be converted to one
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :returns: a new tensor, the same on every rank
    """

def allgather_object(obj: Any, name: Optional[str] = ..., process_set: ProcessSet = ...) -> List[Any]:
    """Gathers the objects of all ranks on every rank.

    :param obj: any object that can be pickled
    :param name: the same on all ranks
    :param process_set: process set that runs the operation; the global set by default
    :returns: the objects in rank order
    """

def allreduce(
    value: Any,
    name: Optional[str] = ...,
    average: Optional[bool] = ...,
    prescale_factor: float = ...,
    postscale_factor: float = ...,
    op: Optional[int] = ...,
    compression: Any = ...,
) -> Any:
    """Reduces a tensor over all ranks.

    :param value: this rank's input: a tensor, an array, or a value that can be converted to one
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param average: deprecated: use ``op``
    :param prescale_factor: multiplies the tensor before it is reduced
    :param postscale_factor: multiplies the result
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
    :param compression: compressor: ``Compression.none``, ``.fp16``, ``.bf16``, or one with error feedback
    :returns: a new tensor, the same on every rank
    """

def barrier(process_set: ProcessSet = ...) -> None:
    """Waits until all ranks have called it.

    :param process_set: process set that runs the operation; the global set by default
    :returns: None
    """

def broadcast(value: Any, root_rank: int, name: Optional[str] = ...) -> Any:
    """Sends one rank's tensor to all ranks.

    :param value: this rank's input: a tensor, an array, or a value that can be converted to one
    :param root_rank: global rank that sends the tensor
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :returns: a new tensor, the same on every rank
    """

def broadcast_global_variables(root_rank: int) -> Any:
    """Sends one rank's global variables to all ranks, in place; in graphs only.

    :param root_rank: global rank that sends the variables
    :returns: the operation that runs it
    """

def broadcast_object(obj: Any, root_rank: int = ..., name: Optional[str] = ..., process_set: ProcessSet = ...) -> Any:
    """Sends one rank's object to all ranks.

    :param obj: any object that can be pickled; ignored on ranks other than the root
    :param root_rank: global rank that sends the object
    :param name: the same on all ranks
    :param process_set: process set that runs the operation; the global set by default
    :returns: the root's object
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

def join(device: int = ...) -> int:
    """Tells the other ranks that this rank has no more data. Waits until all ranks have joined; until then, this rank contributes zeros to their reductions.

    :param device: device on which a joined rank allocates the zeros that it contributes; -1: the CPU
    :returns: the rank that joined last
    """

def load_model(
    filepath: Any,
    custom_optimizers: Any = ...,
    custom_objects: Optional[Dict[str, Any]] = ...,
    compression: Any = ...,
    legacy_opts: bool = ...,
) -> Any:
    """Loads a saved model, and wraps its optimizer in a distributed one.

    :param filepath: file of the saved model
    :param custom_optimizers: optimizer classes that the framework does not know
    :param custom_objects: other classes and functions that the framework does not know, by name
    :param compression: compressor for the gradients
    :param legacy_opts: whether the model was saved with an optimizer of ``optimizers.legacy``
    :returns: the model
    """

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

def reducescatter(value: Any, name: Optional[str] = ..., op: int = ...) -> Any:
    """Reduces a tensor over all ranks and gives each rank a share of the rows; if they cannot be divided evenly, the first ranks get one row more.

    :param value: this rank's input: a tensor, an array, or a value that can be converted to one
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
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
