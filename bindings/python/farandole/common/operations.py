"""The operation table: what the public functions do and take, the same for every framework.

Names, order and defaults of parameters are in ``signatures``, framework by framework. The operations on tensors get
both from the tables by ``wrappers``. Other functions are written with their signatures, and tests compare these with
the table; ``public`` checks nothing at run time, it attaches the documentation made from this one.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, Callable, Collection, Dict, Mapping, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

# Numbers of the native module.
ALLREDUCE, ALLGATHER, BROADCAST, BARRIER, JOIN, ALLTOALL, REDUCESCATTER = range(7)

PARAMETER_DOCS: Dict[str, str] = {
    "tensor": "this rank's input; must be contiguous",
    "tensors": "this rank's inputs; reduced or gathered as one group",
    "value": "this rank's input: a tensor, an array, or a value that can be converted to one",
    "average": "deprecated: use ``op``",
    "name": "name of the operation, the same on all ranks and not that of a pending operation; without a name, ranks "
    "match calls by their order",
    "op": "``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``",
    "compression": "compressor: ``Compression.none``, ``.fp16``, ``.bf16``, or one with error feedback",
    "prescale_factor": "multiplies the tensor before it is reduced",
    "postscale_factor": "multiplies the result",
    "process_set": "process set that runs the operation; the global set by default",
    "root_rank": "global rank that sends the tensor",
    "splits": "number of rows to send to each rank: a list, or an int32 or int64 tensor on any device; equal parts by "
    "default",
    "device": "device on which a joined rank allocates the zeros that it contributes; -1: the CPU",
    "handle": "handle that an asynchronous function returned",
    "device_dense": "device on which dense tensors are reduced; the framework's choice by default",
    "device_sparse": "device on which sparse tensors are gathered; the framework's choice by default",
    "ignore_name_scope": "leave the enclosing name scope out of the operation's name",
    "priority": "operations of a higher priority are started first by the framework's engine",
    "obj": "any object that can be pickled",
    "session": "ignored; accepted for compatibility",
    "params": "parameters with their names",
    "prefix": "prepended to every name",
    "variables": "variables that are overwritten with the root's values",
    "inplace": "write the results directly into the variables, instead of assigning the operation's outputs",
    "optimizer": "optimizer that computes the update",
    "named_parameters": "``model.named_parameters()``; ranks match gradients by these names",
    "model": "ignored; accepted for compatibility",
    "backward_passes_per_step": "number of backward passes whose gradients are accumulated before they are reduced",
    "average_aggregated_gradients": "divide the accumulated gradients by ``backward_passes_per_step``",
    "gradient_predivide_factor": "with ``Average``, divisor that is applied before the gradients are summed; the rest "
    "of the division follows after the sum",
    "num_groups": "deprecated: use ``groups``",
    "groups": "number of groups into which the gradients are divided, or a list of lists of parameters; each group "
    "is reduced as one",
    "sparse_as_dense": "convert sparse gradients to dense ones before they are reduced",
    "scale_local_gradients": "divide gradients of local layers, which are not reduced, by the number of ranks",
    "local_layers": "a layer, or a list of layers, whose gradients are not reduced",
    "use_locking": "passed to the framework's optimizer",
    "gradtape": "tape that computes the gradients",
    "process_set_id": "id of a process set; 0 is the global set",
    "filepath": "file of the saved model",
    "custom_optimizers": "optimizer classes that the framework does not know",
    "custom_objects": "other classes and functions that the framework does not know, by name",
    "legacy_opts": "whether the model was saved with an optimizer of ``optimizers.legacy``",
}


@dataclass(frozen=True)
class PublicFunction:
    """One public function: its summary, its result, and parameters that differ here from ``PARAMETER_DOCS``."""

    summary: str
    returns: str
    here: Mapping[str, str] = field(default_factory=dict)

    def documentation(self, taken: Collection[str]) -> str:
        """The docstring; ``taken`` names the parameters that an adapter takes."""
        lines = [self.summary, ""] if taken else [self.summary]
        lines += [f":param {name}: {self.here.get(name) or PARAMETER_DOCS[name]}" for name in taken]
        if self.returns:
            lines += [f":returns: {self.returns}"]
        return "\n".join(lines)


_HANDLE = "a handle for poll() and synchronize()"


def _reductions() -> Dict[str, PublicFunction]:
    what = "Reduces a tensor over all ranks"
    group = "Reduces several tensors over all ranks as one"
    return {
        "allreduce": PublicFunction(f"{what}.", "a new tensor, the same on every rank"),
        "allreduce_async": PublicFunction(f"{what}; returns at once.", _HANDLE),
        "allreduce_": PublicFunction(f"{what}, in place.", "the tensor"),
        "allreduce_async_": PublicFunction(f"{what}, in place; returns at once.", _HANDLE),
        "grouped_allreduce": PublicFunction(f"{group}.", "a list of new tensors"),
        "grouped_allreduce_async": PublicFunction(f"{group}; returns at once.", _HANDLE),
        "grouped_allreduce_": PublicFunction(f"{group}, in place.", "a tuple of the tensors"),
        "grouped_allreduce_async_": PublicFunction(f"{group}, in place; returns at once.", _HANDLE),
        "sparse_allreduce_async": PublicFunction(
            "Reduces a sparse tensor over all ranks; returns at once.",
            "a function that waits and returns the sparse tensor",
        ),
    }


def _gathers() -> Dict[str, PublicFunction]:
    what = "Concatenates the tensors of all ranks, in rank order, along their first dimension, which may differ"
    group = "Does so for several tensors as one"
    return {
        "allgather": PublicFunction(f"{what}.", "a new tensor, the same on every rank"),
        "allgather_async": PublicFunction(f"{what}; returns at once.", _HANDLE),
        "grouped_allgather": PublicFunction(f"{what}. {group}.", "a tuple of new tensors"),
        "grouped_allgather_async": PublicFunction(f"{what}. {group}; returns at once.", _HANDLE),
    }


def _broadcasts() -> Dict[str, PublicFunction]:
    what = "Sends one rank's tensor to all ranks"
    return {
        "broadcast": PublicFunction(f"{what}.", "a new tensor, the same on every rank"),
        "broadcast_async": PublicFunction(f"{what}; returns at once.", _HANDLE),
        "broadcast_": PublicFunction(f"{what}, in place.", "the tensor"),
        "broadcast_async_": PublicFunction(f"{what}, in place; returns at once.", _HANDLE),
    }


def _exchanges() -> Dict[str, PublicFunction]:
    what = "Sends rows to every rank and receives rows from every rank, in rank order"
    pair = "the rows received and an int32 tensor that says how many came from each rank"
    return {
        "alltoall": PublicFunction(f"{what}.", f"the rows received; with ``splits``, {pair}"),
        "alltoall_async": PublicFunction(f"{what}; returns at once.", f"{_HANDLE}, which always gives {pair}"),
    }


def _scatters() -> Dict[str, PublicFunction]:
    what = (
        "Reduces a tensor over all ranks and gives each rank a share of the rows; if they cannot be divided evenly, "
        "the first ranks get one row more"
    )
    group = "Does so for several tensors as one"
    return {
        "reducescatter": PublicFunction(f"{what}.", "this rank's share, a new tensor"),
        "reducescatter_async": PublicFunction(f"{what}; returns at once.", _HANDLE),
        "grouped_reducescatter": PublicFunction(f"{what}. {group}.", "a list of this rank's shares, new tensors"),
        "grouped_reducescatter_async": PublicFunction(f"{what}. {group}; returns at once.", _HANDLE),
    }


def _synchronization() -> Dict[str, PublicFunction]:
    return {
        "poll": PublicFunction(
            "Whether an operation has completed, with or without an error. Does not wait.",
            "True if synchronize() would return at once; raises ``ValueError`` for an unknown handle",
        ),
        "synchronize": PublicFunction(
            "Waits until an operation has completed. Ctrl-C interrupts the wait, but not the operation.",
            "the operation's result; None for a handle that is unknown or has been synchronized already; raises "
            "``ValueError`` for a value that is not a handle",
        ),
        "join": PublicFunction(
            "Tells the other ranks that this rank has no more data. Waits until all ranks have joined; until then, "
            "this rank contributes zeros to their reductions.",
            "the rank that joined last",
        ),
        "barrier": PublicFunction("Waits until all ranks have called it.", "None"),
    }


def _topology() -> Dict[str, PublicFunction]:
    now = "when the operation runs, rather than when the graph is built"
    return {
        "size_op": PublicFunction(f"Members of a process set, {now}.", "an int32 tensor"),
        "process_set_included_op": PublicFunction(
            f"Whether this process is in a process set, {now}.", "an int32 tensor: 1 if it is, else 0"
        ),
        "local_size_op": PublicFunction(f"Processes of the job on this host, {now}.", "an int32 tensor"),
        "rank_op": PublicFunction(f"This process's number in the job, {now}.", "an int32 tensor"),
        "local_rank_op": PublicFunction(f"This process's number on its host, {now}.", "an int32 tensor"),
    }


def _objects() -> Dict[str, PublicFunction]:
    root = {"root_rank": "global rank that sends the object", "name": "the same on all ranks"}
    state = {
        "root_rank": "global rank that sends the state",
        "optimizer": "the optimizer of this rank, wrapped or not",
    }
    parameters = {
        "root_rank": "global rank that sends the parameters",
        "params": "a dictionary of parameters by name, or another collection of parameters that the framework offers",
    }
    return {
        "broadcast_object": PublicFunction(
            "Sends one rank's object to all ranks.",
            "the root's object",
            {**root, "obj": "any object that can be pickled; ignored on ranks other than the root"},
        ),
        "broadcast_object_fn": PublicFunction(
            "Makes a function that sends one rank's object to all ranks, for graphs and sessions.",
            "a function of an object that returns the root's object",
            root,
        ),
        "allgather_object": PublicFunction(
            "Gathers the objects of all ranks on every rank.",
            "the objects in rank order",
            {"name": "the same on all ranks"},
        ),
        "broadcast_parameters": PublicFunction("Sends one rank's parameters to all ranks, in place.", "", parameters),
        "broadcast_optimizer_state": PublicFunction(
            "Sends one rank's optimizer state and options to all ranks, in place.\n\nNothing else "
            "changes: if the root's\noptimizer has no state yet, those of all ranks have none afterwards.",
            "",
            state,
        ),
        "broadcast_variables": PublicFunction(
            "Sends one rank's variables to all ranks, in place.\n\nStates of random generators, the ``SeedGenerator`` "
            "of Keras 3, are sent only if\nall variables are such states; else each rank keeps its own.",
            "in a graph, the operation that runs it; else None",
            {"root_rank": "global rank that sends the variables"},
        ),
        "broadcast_global_variables": PublicFunction(
            "Sends one rank's global variables to all ranks, in place; in graphs only.",
            "the operation that runs it",
            {"root_rank": "global rank that sends the variables"},
        ),
    }


def _training() -> Dict[str, PublicFunction]:
    here = {
        "name": "name of the optimizer; by default ``Distributed`` and the name of its class",
        "compression": "compressor for the gradients: ``Compression.none``, ``.fp16``, ``.bf16``, or another one of "
        "``Compression``",
        "op": "``Average`` (the default), ``Sum``, or another one that the framework's page lists; with ``Adasum`` "
        "each rank takes its own step, and the changes of the parameters are combined",
    }
    wrapped = "a distributed optimizer, whose class derives from the class of ``optimizer``"
    return {
        "DistributedOptimizer": PublicFunction(
            "Wraps an optimizer so that its gradients are reduced over all ranks before each step.", wrapped, here
        ),
        "PartialDistributedOptimizer": PublicFunction(
            "Wraps an optimizer so that its gradients, other than those of local layers, are reduced over all ranks "
            "before each step.",
            wrapped,
            here,
        ),
        "DistributedGradientTape": PublicFunction(
            "Wraps a tape so that the gradients that it computes are reduced over all ranks.",
            "a distributed tape, whose class derives from the class of ``gradtape``",
            here,
        ),
        "PartialDistributedGradientTape": PublicFunction(
            "Wraps a tape so that the gradients that it computes, other than those of local layers, are reduced over "
            "all ranks.",
            "a distributed tape, whose class derives from the class of ``gradtape``",
            here,
        ),
        "load_model": PublicFunction(
            "Loads a saved model, and wraps its optimizer in a distributed one.",
            "the model",
            {"compression": "compressor for the gradients"},
        ),
    }


TABLE: Dict[str, PublicFunction] = {
    **_reductions(),
    **_gathers(),
    **_broadcasts(),
    **_exchanges(),
    **_scatters(),
    **_synchronization(),
    **_topology(),
    **_objects(),
    **_training(),
}


def public(function: Function) -> Function:
    """Gives a function of an adapter its documentation from the table."""
    function.__doc__ = TABLE[function.__name__].documentation(inspect.signature(function).parameters)
    return function
