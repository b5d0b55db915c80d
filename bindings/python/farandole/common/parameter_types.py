"""The types of the operations' parameters and results, for annotations and stubs. They are the same for every
framework, except for the type of a tensor.
"""

from __future__ import annotations

from typing import Dict

from farandole.common import signatures

_TENSORS = {"torch": "torch.Tensor", "mxnet": "mx.nd.NDArray"}
"""The type of a tensor in annotations; other packages take any value that their framework converts to a tensor."""

_TYPES = {
    "tensors": "Sequence[{tensor}]",
    "variables": "Sequence[Any]",
    "average": "bool",
    "ignore_name_scope": "bool",
    **dict.fromkeys(("op", "root_rank", "priority", "device", "handle", "process_set_id"), "int"),
    **dict.fromkeys(("prescale_factor", "postscale_factor"), "float"),
    **dict.fromkeys(("name", "device_dense", "device_sparse"), "str"),
    "process_set": "ProcessSet",
    "tensor": "{tensor}",
}
"""Of parameters of operations; others take anything, and those whose default is None take None as well."""

_RESULTS = {
    "grouped_allreduce": "List[{tensor}]",
    "grouped_allreduce_": "Tuple[{tensor}, ...]",
    "grouped_allgather": "Tuple[{tensor}, ...]",
    "alltoall": "Union[{tensor}, Tuple[{tensor}, {tensor}]]",
    "grouped_reducescatter": "List[{tensor}]",
    "poll": "bool",
    "synchronize": "Any",
    "join": "int",
    "barrier": "None",
    "broadcast_object": "Any",
    "allgather_object": "List[Any]",
    "sparse_allreduce_async": "Callable[[], {tensor}]",
}
"""Results of operations. Of those not listed, asynchronous ones return a handle, and the others a tensor."""

_OWN_TYPES: Dict[str, Dict[str, str]] = {
    "torch": {"splits": "Union[torch.Tensor, Sequence[int], None]"},
    "mxnet": {"grouped_allreduce_": "Sequence[{tensor}]", "grouped_allgather": "List[{tensor}]"},
    "tensorflow": {
        "grouped_allgather": "List[Any]",
        "broadcast_": "List[Any]",
        **dict.fromkeys(("alltoall", "join", "barrier"), "Any"),
    },
}
"""Of parameters and results where a package differs."""


def types_of(package: str, name: str) -> Dict[str, str]:
    """The types of an operation's parameters and, as ``return``, of its result, as code writes them."""
    own = _OWN_TYPES.get(package, {})
    result = own.get(name) or _RESULTS.get(name) or ("int" if "_async" in name else "{tensor}")
    types: Dict[str, str] = {}
    for each, default in signatures.row(package, name):
        kind = own.get(each) or _TYPES.get(each, "Any")
        types[each] = f"Optional[{kind}]" if default == "None" and each in _TYPES and each not in own else kind
    types["return"] = result
    return {each: kind.format(tensor=_TENSORS.get(package, "Any")) for each, kind in types.items()}
