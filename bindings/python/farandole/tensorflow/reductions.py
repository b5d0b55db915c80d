"""Reductions of dense and of sparse tensors, singly and in groups, with compression."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager, List, Optional

from farandole.common.arguments import listed, pack, require_name
from farandole.common.process_sets import ProcessSet
from farandole.common.reduction import require_adasum
from farandole.common.wrappers import public_in
from farandole.tensorflow import mpi_ops
from farandole.tensorflow.arguments import tensor_of, tensors_of
from farandole.tensorflow.compression import Compression
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.mpi_ops import Adasum, Average, Sum
from farandole.tensorflow.nodes import run, run_group

public = public_in("tensorflow", Compression=Compression)


def on(device: str) -> ContextManager[Any]:
    """Places operations on a device; does nothing for an empty text."""
    return tf.device(device) if device else contextlib.nullcontext()


def _check_slices(op: int, prescale_factor: float, postscale_factor: float) -> None:
    if op not in (Average, Sum):
        raise NotImplementedError("tf.IndexedSlices can be reduced with Average and Sum only; use sparse_as_dense")
    if prescale_factor != 1.0 or postscale_factor != 1.0:
        raise NotImplementedError("tf.IndexedSlices cannot be scaled on the way; use sparse_as_dense")


def _reduce_slices(
    slices: Any, device: str, op: int, name: Optional[str], process_set: ProcessSet, ignore_name_scope: bool
) -> Any:
    """Gathers the slices of all ranks, which represents their sum. An index that several ranks have occurs several
    times."""
    # The indices have the name of a dense reduction, so that a rank without a gradient can be absent from either.
    named = (None, None) if name is None else (f"{name}.values", name)
    options = {"process_set": process_set, "ignore_name_scope": ignore_name_scope}
    with on(device):
        values = mpi_ops.allgather(slices.values, named[0], **options)
        indices = mpi_ops.allgather(slices.indices, named[1], **options)
        if op == Average:
            values = values / mpi_ops.divisor(process_set, values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


def _reduced_group(
    operation: str, name: Optional[str], tensors: Any, compression: Any, *options: Any, **attributes: Any
) -> List[Any]:
    """Reduces a group of dense tensors with compression. ``options`` and ``attributes`` are passed to
    ``run_group``."""
    packed = [pack(operation, name, compression, each) for each in tensors_of(operation, name, tensors)]
    reduced = run_group(operation, name, [travels for travels, _ in packed], *options, **attributes)
    return [compression.decompress(each, context) for each, (_, context) in zip(reduced, packed)]


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
        return _reduce_slices(tensor, device_sparse, op, name, process_set, ignore_name_scope)
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
            results[place] = _reduce_slices(each, device_sparse, op, own, process_set, ignore_name_scope)
        else:
            dense.append(place)
    with on(device_dense):
        given = [results[place] for place in dense]
        how = {"reduce_op": op, "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
        options = (compression, process_set, ignore_name_scope, dense)
        for place, each in zip(dense, _reduced_group("grouped_allreduce", name, given, *options, **how)):
            results[place] = each
    return results


@public
def reducescatter(
    tensor, device_dense, compression, op, name, process_set, ignore_name_scope, prescale_factor, postscale_factor
):
    with on(device_dense):
        travels, context = pack("reducescatter", name, compression, tensor_of("reducescatter", name, tensor))
        how = {"reduce_op": op, "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
        share = run("reducescatter", name, travels, process_set, ignore_name_scope, **how)
        return compression.decompress(share, context)


@public
def grouped_reducescatter(tensors, device_dense, compression, op, process_set, prescale_factor, postscale_factor, name):
    with on(device_dense):
        how = {"reduce_op": op, "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
        return _reduced_group("grouped_reducescatter", name, tensors, compression, process_set, False, **how)
