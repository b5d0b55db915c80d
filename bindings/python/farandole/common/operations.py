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
    "tensor": "what this rank contributes; contiguous",
    "tensors": "what this rank contributes; they become ready together",
    "value": "what this rank contributes: a tensor, an array, or what one can be made of",
    "average": "deprecated: use ``op``",
    "name": "the same on all ranks, and not in flight; without one, calls match by their order",
    "op": "``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or, in allreduce, ``Adasum``",
    "compression": "how the tensor travels: ``Compression.none``, ``.fp16``, ``.bf16``, or one with a memory",
    "prescale_factor": "multiplies the tensor before it is reduced",
    "postscale_factor": "multiplies the result",
    "process_set": "who takes part; everybody by default",
    "root_rank": "the global rank whose tensor all receive",
    "splits": "how many rows go to each rank: int32 or int64, on any device, or a list; equally many by default",
    "device": "where a rank that has joined makes the zeros that it contributes; the CPU for -1",
    "handle": "what an asynchronous function returned",
    "device_dense": "the device that a dense tensor is reduced on; the framework's choice by default",
    "device_sparse": "the device that a sparse tensor is gathered on; the framework's choice by default",
    "ignore_name_scope": "names the operation without the scope that it is built in",
    "priority": "operations of a higher priority are started first by the framework's engine",
    "obj": "anything that can be pickled",
    "session": "kept for scripts: objects need no session to travel",
    "params": "parameters with their names",
    "prefix": "put in front of every name",
    "variables": "what all ranks receive in place",
    "inplace": "let the operation write to the variables, rather than assign what it returns",
    "optimizer": "computes the step",
    "named_parameters": "``model.named_parameters()``; the names match gradients across ranks",
    "model": "tells which gradients are sparse",
    "backward_passes_per_step": "passes whose gradients add up before they are reduced",
    "average_aggregated_gradients": "divide what has added up by the number of passes",
    "gradient_predivide_factor": "for ``Average``: part of the division that is done before the sum",
    "num_groups": "deprecated: use ``groups``",
    "groups": "how many groups of gradients, or lists of parameters, are reduced as one",
    "sparse_as_dense": "reduce sparse gradients as dense ones",
    "scale_local_gradients": "divide gradients of local layers, which are not reduced, by the number of ranks",
    "local_layers": "a layer, or a list of layers, whose gradients are not reduced",
    "use_locking": "handed on to the framework's optimizer",
    "gradtape": "computes the gradients",
    "process_set_id": "the number of a process set; 0 is the global one",
    "filepath": "the file of the saved model",
    "custom_optimizers": "optimizer classes that the framework does not know",
    "custom_objects": "other classes and functions that the framework does not know, by name",
    "legacy_opts": "the model was saved with an optimizer of ``optimizers.legacy``",
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
    what = "Gives one rank's tensor to all"
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
        "Reduces a tensor over all ranks and leaves each with its share of the rows; the first ranks take what is left"
    )
    group = "Does so for several tensors as one"
    return {
        "reducescatter": PublicFunction(f"{what}.", "this rank's share, a new tensor"),
        "reducescatter_async": PublicFunction(f"{what}; returns at once.", _HANDLE),
        "grouped_reducescatter": PublicFunction(f"{what}. {group}.", "a list of this rank's shares, new tensors"),
        "grouped_reducescatter_async": PublicFunction(f"{what}. {group}; returns at once.", _HANDLE),
    }


def _meetings() -> Dict[str, PublicFunction]:
    return {
        "poll": PublicFunction(
            "Whether an operation has ended, well or not. Never waits.",
            "True if synchronize() would not wait; ``ValueError`` for an unknown handle",
        ),
        "synchronize": PublicFunction(
            "Waits for an operation; Ctrl-C interrupts the wait, not the operation.",
            "what came out of it; None for a number that no operation has, ``ValueError`` for what is no number",
        ),
        "join": PublicFunction(
            "Says that this rank has no more data; waits until all ranks have said so, and takes part in their "
            "reductions meanwhile.",
            "the rank that joined last",
        ),
        "barrier": PublicFunction("Waits until all ranks have called it.", "None"),
    }


def _places() -> Dict[str, PublicFunction]:
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
    root = {"root_rank": "the global rank whose object all receive", "name": "the same on all ranks"}
    state = {"root_rank": "the global rank whose state all receive", "optimizer": "its state is made if it has none"}
    parameters = {
        "root_rank": "the global rank whose parameters all receive",
        "params": "a dictionary of them by name, or what else lists a model's parameters",
    }
    return {
        "broadcast_object": PublicFunction(
            "Gives one rank's object to all.",
            "the root's object",
            {**root, "obj": "anything that can be pickled; looked at on the root only"},
        ),
        "broadcast_object_fn": PublicFunction(
            "Makes a function that gives one rank's object to all, for graphs and sessions.",
            "a function of an object that returns the root's object",
            root,
        ),
        "allgather_object": PublicFunction(
            "Gives every rank's object to all.", "the objects in rank order", {"name": "the same on all ranks"}
        ),
        "broadcast_parameters": PublicFunction("Gives one rank's parameters to all, in place.", "", parameters),
        "broadcast_optimizer_state": PublicFunction(
            "Gives one rank's optimizer state and options to all, in place.\n\nAn optimizer that has no state yet "
            "takes\none step with zero gradients on the root to create it; parameters and gradients stay as they are.",
            "",
            state,
        ),
        "broadcast_variables": PublicFunction(
            "Gives one rank's variables to all, in place.",
            "in a graph, the operation that does it; else None",
            {"root_rank": "the global rank whose variables all receive"},
        ),
        "broadcast_global_variables": PublicFunction(
            "Gives one rank's global variables to all, in place; in graphs only.",
            "the operation that does it",
            {"root_rank": "the global rank whose variables all receive"},
        ),
    }


def _training() -> Dict[str, PublicFunction]:
    here = {
        "name": "of the optimizer; its class's name after ``Distributed`` by default",
        "compression": "how gradients travel: ``Compression.none``, ``.fp16``, ``.bf16``, or another that it offers",
        "op": "``Average`` (the default), ``Sum`` and what else the framework's page lists; with ``Adasum`` each rank "
        "steps on\n    its own, and what the parameters have changed by is combined",
    }
    wrapped = "an optimizer that is an instance of the given one's class too"
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
            "a tape of a class that derives from the given one's",
            here,
        ),
        "PartialDistributedGradientTape": PublicFunction(
            "Wraps a tape so that the gradients that it computes, other than those of local layers, are reduced over "
            "all ranks.",
            "a tape of a class that derives from the given one's",
            here,
        ),
        "load_model": PublicFunction(
            "Loads a saved model whose optimizer is then a distributed one.",
            "the model",
            {"compression": "how gradients travel"},
        ),
    }


TABLE: Dict[str, PublicFunction] = {
    **_reductions(),
    **_gathers(),
    **_broadcasts(),
    **_exchanges(),
    **_scatters(),
    **_meetings(),
    **_places(),
    **_objects(),
    **_training(),
}


def public(function: Function) -> Function:
    """Gives a function of an adapter its documentation from the table."""
    function.__doc__ = TABLE[function.__name__].documentation(inspect.signature(function).parameters)
    return function
