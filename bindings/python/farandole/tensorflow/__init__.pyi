# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.
from typing import Any, Callable, List, Optional, Sequence, Union

import tensorflow as tf

from farandole.common.exceptions import HorovodInternalError as HorovodInternalError
from farandole.common.exceptions import MismatchError as MismatchError
from farandole.common.exceptions import OperationTimeoutError as OperationTimeoutError
from farandole.common.exceptions import ShutdownError as ShutdownError
from farandole.common.exceptions import WorkerLostError as WorkerLostError
from farandole.common.process_sets import ProcessSet as ProcessSet
from farandole.common.process_sets import global_process_set as global_process_set
from farandole.tensorflow import elastic as elastic
from farandole.tensorflow import keras as keras
from farandole.tensorflow.compression import Compression as Compression
from farandole.tensorflow.gradient_aggregation import LocalGradientAggregationHelper as LocalGradientAggregationHelper
from farandole.tensorflow.sessions import BroadcastGlobalVariablesHook as BroadcastGlobalVariablesHook
from farandole.tensorflow.sync_batch_norm import SyncBatchNormalization as SyncBatchNormalization

AdaSum: int
Adasum: int
Average: int
Max: int
Min: int
Product: int
Sum: int

def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = ...,
    device_sparse: str = ...,
    compression: Any = ...,
    sparse_as_dense: bool = ...,
    op: int = ...,
    gradient_predivide_factor: float = ...,
    num_groups: int = ...,
    groups: Any = ...,
    process_set: ProcessSet = ...,
    scale_local_gradients: bool = ...,
) -> tf.GradientTape:
    """Wraps a tape so that the gradients that it computes are reduced over all ranks.

    :param gradtape: tape that computes the gradients
    :param device_dense: device on which dense tensors are reduced; the framework's choice by default
    :param device_sparse: device on which sparse tensors are gathered; the framework's choice by default
    :param compression: compressor for the gradients: ``Compression.none``, ``.fp16``, ``.bf16``, or another one of ``Compression``
    :param sparse_as_dense: convert sparse gradients to dense ones before they are reduced
    :param op: ``Average`` (the default), ``Sum``, or another one that the framework's page lists; with ``Adasum`` each rank takes its own step, and the changes of the parameters are combined
    :param gradient_predivide_factor: with ``Average``, divisor that is applied before the gradients are summed; the rest of the division follows after the sum
    :param num_groups: deprecated: use ``groups``
    :param groups: number of groups into which the gradients are divided, or a list of lists of parameters; each group is reduced as one
    :param process_set: process set that runs the operation; the global set by default
    :param scale_local_gradients: divide gradients of local layers, which are not reduced, by the number of ranks
    :returns: a distributed tape, whose class derives from the class of ``gradtape``
    """

def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = ...,
    use_locking: bool = ...,
    device_dense: str = ...,
    device_sparse: str = ...,
    compression: Any = ...,
    sparse_as_dense: bool = ...,
    backward_passes_per_step: int = ...,
    op: int = ...,
    gradient_predivide_factor: float = ...,
    average_aggregated_gradients: bool = ...,
    num_groups: int = ...,
    groups: Any = ...,
    process_set: ProcessSet = ...,
    scale_local_gradients: bool = ...,
) -> Any:
    """Wraps an optimizer so that its gradients are reduced over all ranks before each step.

    :param optimizer: optimizer that computes the update
    :param name: name of the optimizer; by default ``Distributed`` and the name of its class
    :param use_locking: passed to the framework's optimizer
    :param device_dense: device on which dense tensors are reduced; the framework's choice by default
    :param device_sparse: device on which sparse tensors are gathered; the framework's choice by default
    :param compression: compressor for the gradients: ``Compression.none``, ``.fp16``, ``.bf16``, or another one of ``Compression``
    :param sparse_as_dense: convert sparse gradients to dense ones before they are reduced
    :param backward_passes_per_step: number of backward passes whose gradients are accumulated before they are reduced
    :param op: ``Average`` (the default), ``Sum``, or another one that the framework's page lists; with ``Adasum`` each rank takes its own step, and the changes of the parameters are combined
    :param gradient_predivide_factor: with ``Average``, divisor that is applied before the gradients are summed; the rest of the division follows after the sum
    :param average_aggregated_gradients: divide the accumulated gradients by ``backward_passes_per_step``
    :param num_groups: deprecated: use ``groups``
    :param groups: number of groups into which the gradients are divided, or a list of lists of parameters; each group is reduced as one
    :param process_set: process set that runs the operation; the global set by default
    :param scale_local_gradients: divide gradients of local layers, which are not reduced, by the number of ranks
    :returns: a distributed optimizer, whose class derives from the class of ``optimizer``
    """

def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = ...,
    device_sparse: str = ...,
    compression: Any = ...,
    sparse_as_dense: bool = ...,
    op: int = ...,
    gradient_predivide_factor: float = ...,
    num_groups: int = ...,
    groups: Any = ...,
    process_set: ProcessSet = ...,
    local_layers: Optional[Any] = ...,
    scale_local_gradients: bool = ...,
) -> tf.GradientTape:
    """Wraps a tape so that the gradients that it computes, other than those of local layers, are reduced over all ranks.

    :param gradtape: tape that computes the gradients
    :param device_dense: device on which dense tensors are reduced; the framework's choice by default
    :param device_sparse: device on which sparse tensors are gathered; the framework's choice by default
    :param compression: compressor for the gradients: ``Compression.none``, ``.fp16``, ``.bf16``, or another one of ``Compression``
    :param sparse_as_dense: convert sparse gradients to dense ones before they are reduced
    :param op: ``Average`` (the default), ``Sum``, or another one that the framework's page lists; with ``Adasum`` each rank takes its own step, and the changes of the parameters are combined
    :param gradient_predivide_factor: with ``Average``, divisor that is applied before the gradients are summed; the rest of the division follows after the sum
    :param num_groups: deprecated: use ``groups``
    :param groups: number of groups into which the gradients are divided, or a list of lists of parameters; each group is reduced as one
    :param process_set: process set that runs the operation; the global set by default
    :param local_layers: a layer, or a list of layers, whose gradients are not reduced
    :param scale_local_gradients: divide gradients of local layers, which are not reduced, by the number of ranks
    :returns: a distributed tape, whose class derives from the class of ``gradtape``
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

def allgather(
    tensor: Any, name: Optional[str] = ..., ignore_name_scope: bool = ..., process_set: ProcessSet = ...
) -> Any:
    """Concatenates the tensors of all ranks, in rank order, along their first dimension, which may differ.

    :param tensor: this rank's input; must be contiguous
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param ignore_name_scope: leave the enclosing name scope out of the operation's name
    :param process_set: process set that runs the operation; the global set by default
    :returns: a new tensor, the same on every rank
    """

def allgather_object(
    obj: Any, session: Any = ..., name: Optional[str] = ..., process_set: ProcessSet = ...
) -> List[Any]:
    """Gathers the objects of all ranks on every rank.

    :param obj: any object that can be pickled
    :param session: ignored; accepted for compatibility
    :param name: the same on all ranks
    :param process_set: process set that runs the operation; the global set by default
    :returns: the objects in rank order
    """

def allreduce(
    tensor: Any,
    average: Optional[bool] = ...,
    device_dense: str = ...,
    device_sparse: str = ...,
    compression: Any = ...,
    op: Optional[int] = ...,
    prescale_factor: float = ...,
    postscale_factor: float = ...,
    name: Optional[str] = ...,
    process_set: ProcessSet = ...,
    ignore_name_scope: bool = ...,
) -> Any:
    """Reduces a tensor over all ranks.

    :param tensor: this rank's input; must be contiguous
    :param average: deprecated: use ``op``
    :param device_dense: device on which dense tensors are reduced; the framework's choice by default
    :param device_sparse: device on which sparse tensors are gathered; the framework's choice by default
    :param compression: compressor: ``Compression.none``, ``.fp16``, ``.bf16``, or one with error feedback
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
    :param prescale_factor: multiplies the tensor before it is reduced
    :param postscale_factor: multiplies the result
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param process_set: process set that runs the operation; the global set by default
    :param ignore_name_scope: leave the enclosing name scope out of the operation's name
    :returns: a new tensor, the same on every rank
    """

def alltoall(
    tensor: Any,
    splits: Any = ...,
    name: Optional[str] = ...,
    ignore_name_scope: bool = ...,
    process_set: ProcessSet = ...,
) -> Any:
    """Sends rows to every rank and receives rows from every rank, in rank order.

    :param tensor: this rank's input; must be contiguous
    :param splits: number of rows to send to each rank: a list, or an int32 or int64 tensor on any device; equal parts by default
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param ignore_name_scope: leave the enclosing name scope out of the operation's name
    :param process_set: process set that runs the operation; the global set by default
    :returns: the rows received; with ``splits``, the rows received and an int32 tensor that says how many came from each rank
    """

def barrier(process_set: ProcessSet = ...) -> Any:
    """Waits until all ranks have called it.

    :param process_set: process set that runs the operation; the global set by default
    :returns: None
    """

def broadcast(
    tensor: Any, root_rank: int, name: Optional[str] = ..., ignore_name_scope: bool = ..., process_set: ProcessSet = ...
) -> Any:
    """Sends one rank's tensor to all ranks.

    :param tensor: this rank's input; must be contiguous
    :param root_rank: global rank that sends the tensor
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param ignore_name_scope: leave the enclosing name scope out of the operation's name
    :param process_set: process set that runs the operation; the global set by default
    :returns: a new tensor, the same on every rank
    """

def broadcast_(
    variables: Sequence[Any], root_rank: int, name: Optional[str] = ..., process_set: ProcessSet = ...
) -> List[Any]:
    """Sends one rank's tensor to all ranks, in place.

    :param variables: variables that are overwritten with the root's values
    :param root_rank: global rank that sends the tensor
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param process_set: process set that runs the operation; the global set by default
    :returns: the tensor
    """

def broadcast_global_variables(root_rank: int) -> Any:
    """Sends one rank's global variables to all ranks, in place; in graphs only.

    :param root_rank: global rank that sends the variables
    :returns: the operation that runs it
    """

def broadcast_object(
    obj: Any, root_rank: int = ..., session: Any = ..., name: Optional[str] = ..., process_set: ProcessSet = ...
) -> Any:
    """Sends one rank's object to all ranks.

    :param obj: any object that can be pickled; ignored on ranks other than the root
    :param root_rank: global rank that sends the object
    :param session: ignored; accepted for compatibility
    :param name: the same on all ranks
    :param process_set: process set that runs the operation; the global set by default
    :returns: the root's object
    """

def broadcast_object_fn(
    root_rank: int = ..., session: Any = ..., name: Optional[str] = ..., process_set: ProcessSet = ...
) -> Callable[[Any], Any]:
    """Makes a function that sends one rank's object to all ranks, for graphs and sessions.

    :param root_rank: global rank that sends the object
    :param session: ignored; accepted for compatibility
    :param name: the same on all ranks
    :param process_set: process set that runs the operation; the global set by default
    :returns: a function of an object that returns the root's object
    """

def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = ..., inplace: bool = ...
) -> Any:
    """Sends one rank's variables to all ranks, in place.

    States of random generators, the ``SeedGenerator`` of Keras 3, are sent only if
    all variables are such states; else each rank keeps its own.

    :param variables: variables that are overwritten with the root's values
    :param root_rank: global rank that sends the variables
    :param process_set: process set that runs the operation; the global set by default
    :param inplace: write the results directly into the variables, instead of assigning the operation's outputs
    :returns: in a graph, the operation that runs it; else None
    """

def ccl_built() -> bool:
    """Whether oneCCL is built in."""

def check_num_rank_power_of_2(num_rank: int) -> bool:
    """Whether a number of ranks is a power of two, as Adasum needs it."""

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
    tensors: Sequence[Any], name: Optional[str] = ..., ignore_name_scope: bool = ..., process_set: ProcessSet = ...
) -> List[Any]:
    """Concatenates the tensors of all ranks, in rank order, along their first dimension, which may differ. Does so for several tensors as one.

    :param tensors: this rank's inputs; reduced or gathered as one group
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param ignore_name_scope: leave the enclosing name scope out of the operation's name
    :param process_set: process set that runs the operation; the global set by default
    :returns: a tuple of new tensors
    """

def grouped_allreduce(
    tensors: Sequence[Any],
    average: Optional[bool] = ...,
    device_dense: str = ...,
    device_sparse: str = ...,
    compression: Any = ...,
    op: Optional[int] = ...,
    prescale_factor: float = ...,
    postscale_factor: float = ...,
    process_set: ProcessSet = ...,
    ignore_name_scope: bool = ...,
    name: Optional[str] = ...,
) -> List[Any]:
    """Reduces several tensors over all ranks as one.

    :param tensors: this rank's inputs; reduced or gathered as one group
    :param average: deprecated: use ``op``
    :param device_dense: device on which dense tensors are reduced; the framework's choice by default
    :param device_sparse: device on which sparse tensors are gathered; the framework's choice by default
    :param compression: compressor: ``Compression.none``, ``.fp16``, ``.bf16``, or one with error feedback
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
    :param prescale_factor: multiplies the tensor before it is reduced
    :param postscale_factor: multiplies the result
    :param process_set: process set that runs the operation; the global set by default
    :param ignore_name_scope: leave the enclosing name scope out of the operation's name
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :returns: a list of new tensors
    """

def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = ...,
    compression: Any = ...,
    op: int = ...,
    process_set: ProcessSet = ...,
    prescale_factor: float = ...,
    postscale_factor: float = ...,
    name: Optional[str] = ...,
) -> List[Any]:
    """Reduces a tensor over all ranks and gives each rank a share of the rows; if they cannot be divided evenly, the first ranks get one row more. Does so for several tensors as one.

    :param tensors: this rank's inputs; reduced or gathered as one group
    :param device_dense: device on which dense tensors are reduced; the framework's choice by default
    :param compression: compressor: ``Compression.none``, ``.fp16``, ``.bf16``, or one with error feedback
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
    :param process_set: process set that runs the operation; the global set by default
    :param prescale_factor: multiplies the tensor before it is reduced
    :param postscale_factor: multiplies the result
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :returns: a list of this rank's shares, new tensors
    """

def handle_average_backwards_compatibility(op: Optional[int], average: Optional[bool], operation: str = ...) -> int:
    """ """

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

def join() -> Any:
    """Tells the other ranks that this rank has no more data. Waits until all ranks have joined; until then, this rank contributes zeros to their reductions.
    :returns: the rank that joined last
    """

def local_rank() -> int:
    """This process's number on its host, from 0."""

def local_rank_op(name: Optional[str] = ...) -> Any:
    """This process's number on its host, when the operation runs, rather than when the graph is built.

    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :returns: an int32 tensor
    """

def local_size() -> int:
    """Processes of the job on this host."""

def local_size_op(name: Optional[str] = ...) -> Any:
    """Processes of the job on this host, when the operation runs, rather than when the graph is built.

    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :returns: an int32 tensor
    """

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

def process_set_included_op(process_set_id: int = ..., name: Optional[str] = ...) -> Any:
    """Whether this process is in a process set, when the operation runs, rather than when the graph is built.

    :param process_set_id: id of a process set; 0 is the global set
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :returns: an int32 tensor: 1 if it is, else 0
    """

def rank() -> int:
    """This process's number in the job, from 0."""

def rank_op(name: Optional[str] = ...) -> Any:
    """This process's number in the job, when the operation runs, rather than when the graph is built.

    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :returns: an int32 tensor
    """

def reducescatter(
    tensor: Any,
    device_dense: str = ...,
    compression: Any = ...,
    op: int = ...,
    name: Optional[str] = ...,
    process_set: ProcessSet = ...,
    ignore_name_scope: bool = ...,
    prescale_factor: float = ...,
    postscale_factor: float = ...,
) -> Any:
    """Reduces a tensor over all ranks and gives each rank a share of the rows; if they cannot be divided evenly, the first ranks get one row more.

    :param tensor: this rank's input; must be contiguous
    :param device_dense: device on which dense tensors are reduced; the framework's choice by default
    :param compression: compressor: ``Compression.none``, ``.fp16``, ``.bf16``, or one with error feedback
    :param op: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :param process_set: process set that runs the operation; the global set by default
    :param ignore_name_scope: leave the enclosing name scope out of the operation's name
    :param prescale_factor: multiplies the tensor before it is reduced
    :param postscale_factor: multiplies the result
    :returns: this rank's share, a new tensor
    """

def refs_to_vars(refs: Any) -> Any:
    """The reverse of ``vars_to_refs``; lists become tuples."""

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

def size_op(process_set_id: int = ..., name: Optional[str] = ...) -> Any:
    """Members of a process set, when the operation runs, rather than when the graph is built.

    :param process_set_id: id of a process set; 0 is the global set
    :param name: name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks match calls by their order
    :returns: an int32 tensor
    """

def start_timeline(file_path: str, mark_cycles: bool = ...) -> None:
    """Writes a timeline of all operations to this file from now on, on rank 0 only; all ranks may make the call.

    The file that was written before is completed first, unless it has the same path: then nothing changes.
    Problems with the file are logged. ``mark_cycles`` shows when fused operations start. ``ValueError`` if
    ``HOROVOD_TIMELINE`` was not set before ``init()``; ``DYNAMIC`` writes nothing until this call.
    """

def stop_timeline() -> None:
    """Completes the file of the timeline: it has all operations that ended before the call."""

def vars_to_refs(vars: Any) -> Any:
    """Variables, in lists or tuples of any depth, as tuples of what can be a key."""
