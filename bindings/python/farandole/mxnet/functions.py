"""Objects and parameters of one rank, or objects of each, given to all."""

from __future__ import annotations

import types
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import mxnet as mx
from mxnet.gluon.parameter import DeferredInitializationError, Parameter, ParameterDict

from farandole.common import objects
from farandole.common.operations import public
from farandole.mxnet import mpi_ops
from farandole.mxnet.waiting import mxnet_errors


@public
def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None) -> Any:
    with mxnet_errors():
        return objects.broadcast_object(obj, root_rank, name)


@public
def allgather_object(obj: Any, name: Optional[str] = None) -> List[Any]:
    with mxnet_errors():
        return objects.allgather_object(obj, name)


@public
def broadcast_parameters(
    params: Union[Dict[str, Any], mx.gluon.ParameterDict], root_rank: int = 0, prefix: Optional[str] = None
) -> None:
    if not isinstance(params, (dict, ParameterDict)):
        raise ValueError(f"params must be a dict or a ParameterDict, not {type(params).__name__}")
    if mpi_ops.size() == 1:
        return
    # The root may have loaded parameters that have no shape yet elsewhere: all ranks must broadcast them now.
    known = {key: each.shape for key, each in params.items() if isinstance(each, Parameter) and each._data is not None}
    shapes = broadcast_object(known, root_rank, f"parameter.{prefix or ''}shapes")
    arrays: List[Tuple[str, Sequence[mx.nd.NDArray]]] = []
    for key, parameter in sorted(params.items()):
        name = f"parameter.{prefix or ''}{key}"
        if isinstance(parameter, Parameter):
            if key in shapes and parameter._deferred_init:
                parameter.shape = shapes[key]
                parameter._finish_deferred_init()
            try:
                arrays.append((name, parameter.list_data()))
            except DeferredInitializationError:
                _broadcast_when_initialized(parameter, root_rank, name)
        elif isinstance(parameter, mx.nd.NDArray):
            arrays.append((name, [parameter]))
        else:
            raise ValueError(f"{key} must be a Parameter or an NDArray, not {type(parameter).__name__}")
    _broadcast(arrays, root_rank)


def _broadcast(arrays: Sequence[Tuple[str, Sequence[mx.nd.NDArray]]], root_rank: int) -> None:
    """All are on their way at once. Copies on further devices follow the first."""
    for name, copies in arrays:
        mpi_ops.broadcast_(copies[0], root_rank, name)
    for _, copies in arrays:
        copies[0].wait_to_read()
        for other in copies[1:]:
            copies[0].copyto(other)


def _broadcast_when_initialized(parameter: Parameter, root_rank: int, name: str) -> None:
    """A parameter that has no shape yet gets its memory in the first forward pass, on all ranks."""

    def initialize_and_broadcast(self: Any, data: mx.nd.NDArray, ctx_list: Any) -> None:
        del self._init_impl  # the class's own is back: once is enough
        self._init_impl(data, ctx_list)
        _broadcast([(name, self.list_data())], root_rank)

    parameter._init_impl = types.MethodType(initialize_and_broadcast, parameter)
