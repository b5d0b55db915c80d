"""Reductions as training wants them: of dense and of sparse tensors, alone and in groups, compressed on the way."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager, List, Optional, Sequence, Tuple

from farandole.common.arguments import listed, pack, require_name
from farandole.common.process_sets import ProcessSet
from farandole.common.reduction import require_adasum
from farandole.common.wrappers import public_in
from farandole.tensorflow import mpi_ops
from farandole.tensorflow.arguments import tensor_of, tensors_of
from farandole.tensorflow.compression import Compression
from farandole.tensorflow.groups import by_type, group_name
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.mpi_ops import Adasum, Average, Sum

public = public_in("tensorflow", Compression=Compression)


def on(device: str) -> ContextManager[Any]:
    """Where operations run; nothing is said for an empty text."""
    return tf.device(device) if device else contextlib.nullcontext()


def _check_slices(op: int, prescale_factor: float, postscale_factor: float) -> None:
    if op not in (Average, Sum):
        raise NotImplementedError("tf.IndexedSlices can be reduced with Average and Sum only; use sparse_as_dense")
    if prescale_factor != 1.0 or postscale_factor != 1.0:
        raise NotImplementedError("tf.IndexedSlices cannot be scaled on the way; use sparse_as_dense")


def _reduce_slices(slices: Any, device: str, op: int, name: Optional[str], process_set: ProcessSet) -> Any:
    """The slices of all ranks one after another: their sum. Indices that several ranks have occur several times."""
    named = (None, None) if name is None else (f"{name}.values", f"{name}.indices")
    with on(device):
        values = mpi_ops.allgather(slices.values, named[0], process_set=process_set)
        indices = mpi_ops.allgather(slices.indices, named[1], process_set=process_set)
        if op == Average:
            values = values / mpi_ops.divisor(process_set, values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


def _packed(operation: str, name: Optional[str], compression: Any, tensors: Sequence[Any]) -> List[Tuple[Any, Any]]:
    """What travels for each tensor of a group, and what ``decompress`` needs for it."""
    return [pack(operation, name, compression, each) for each in tensors_of(operation, name, tensors)]


@public
def allreduce(
    tensor,
    average,
    device_dense,
    device_sparse,
    compression,
    op,
    prescale_factor,
    postscale_factor,
    name,
    process_set,
    ignore_name_scope,
):
    op = mpi_ops.handle_average_backwards_compatibility(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        _check_slices(op, prescale_factor, postscale_factor)
        return _reduce_slices(tensor, device_sparse, op, name, process_set)
    if op == Adasum:
        require_adasum(process_set, mpi_ops.size())
    with on(device_dense):
        travels, context = pack("allreduce", name, compression, tensor_of("allreduce", name, tensor))
        how = (op, prescale_factor, postscale_factor, ignore_name_scope, process_set)
        reduced = mpi_ops._allreduce(travels, name, *how)
        return compression.decompress(reduced, context)


@public
def grouped_allreduce(
    tensors,
    average,
    device_dense,
    device_sparse,
    compression,
    op,
    prescale_factor,
    postscale_factor,
    process_set,
    ignore_name_scope,
    name,
):
    require_name("grouped_allreduce", name)
    tensors = listed("grouped_allreduce", name, tensors)
    if not tensors:
        return tensors
    op = mpi_ops.handle_average_backwards_compatibility(op, average, "grouped_allreduce")
    if op == Adasum:
        require_adasum(process_set, mpi_ops.size())
    results: List[Any] = list(tensors)
    dense: List[int] = []
    for place, each in enumerate(results):
        if isinstance(each, tf.IndexedSlices):
            _check_slices(op, prescale_factor, postscale_factor)
            own = None if name is None else f"{name}_{place + 1}of{len(results)}"
            results[place] = _reduce_slices(each, device_sparse, op, own, process_set)
        else:
            dense.append(place)
    with on(device_dense):
        packed = _packed("grouped_allreduce", name, compression, [results[place] for place in dense])
        kinds = by_type([travels for travels, _ in packed])
        how = (op, prescale_factor, postscale_factor, ignore_name_scope, process_set)
        for places in kinds:
            reduced = mpi_ops._grouped_allreduce(
                [packed[at][0] for at in places],
                group_name(name, [dense[at] for at in places], len(kinds) > 1),
                *how,
            )
            for at, each in zip(places, reduced):
                results[dense[at]] = compression.decompress(each, packed[at][1])
    return results


@public
def reducescatter(
    tensor, device_dense, compression, op, name, process_set, ignore_name_scope, prescale_factor, postscale_factor
):
    with on(device_dense):
        travels, context = pack("reducescatter", name, compression, tensor_of("reducescatter", name, tensor))
        how = (op, prescale_factor, postscale_factor, ignore_name_scope, process_set)
        share = mpi_ops._reducescatter(travels, name, *how)
        return compression.decompress(share, context)


@public
def grouped_reducescatter(tensors, device_dense, compression, op, process_set, prescale_factor, postscale_factor, name):
    with on(device_dense):
        packed = _packed("grouped_reducescatter", name, compression, tensors)
        results: List[Any] = [None] * len(packed)
        kinds = by_type([travels for travels, _ in packed])
        how = (op, prescale_factor, postscale_factor, False, process_set)
        for places in kinds:
            shares = mpi_ops._grouped_reducescatter(
                [packed[place][0] for place in places], group_name(name, places, len(kinds) > 1), *how
            )
            for place, share in zip(places, shares):
                results[place] = compression.decompress(share, packed[place][1])
    return results
