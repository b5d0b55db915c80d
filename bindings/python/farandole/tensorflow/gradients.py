"""Registers the gradients of the operations with TensorFlow."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from farandole.tensorflow.kernels import raw, tf
from farandole.tensorflow.mpi_ops import Average, Sum, size_op


def _attributes(op: Any, *names: str) -> Dict[str, Any]:
    """The attributes of the gradient's operation: those of the node, with ``.gradient`` appended to each name. In a
    graph, the new node has a name of its own."""
    taken = {name: op.get_attr(name) for name in ("process_set_id", "ignore_name_scope", "blocking", *names)}
    name = op.get_attr("tensor_name") if tf.executing_eagerly() else ""
    name = name.decode() if isinstance(name, bytes) else name
    return {**taken, "tensor_name": "\n".join(f"{line}.gradient" for line in name.split("\n")) if name else ""}


def _scales(op: Any) -> Dict[str, Any]:
    return {name: op.get_attr(name) for name in ("prescale_factor", "postscale_factor")}


def _mean(op: Any) -> Dict[str, Any]:
    return {**_attributes(op), "reduce_op": Average, "prescale_factor": 1.0, "postscale_factor": 1.0}


def _suffixed(attributes: Dict[str, Any], suffix: str) -> Dict[str, Any]:
    name = attributes["tensor_name"]
    return {**attributes, "tensor_name": name.split("\n")[0] + suffix if name else ""}


def _as_outputs(op: Any, grads: Sequence[Any]) -> List[Any]:
    """The incoming gradients in the types of their outputs.

    TensorFlow does not convert them. ``output_gradients`` may have another type, and may be mixed with zeros in the
    output's type, which TensorFlow passes for unused outputs.
    """
    return [tf.cast(grad, output.dtype) for grad, output in zip(grads, op.outputs)]


def _as_output(op: Any, grad: Any) -> Any:
    return tf.cast(grad, op.outputs[0].dtype)


@tf.RegisterGradient("HorovodAllreduce")
def _of_allreduce(op: Any, grad: Any) -> Any:
    return raw.horovod_allreduce(_as_output(op, grad), **_attributes(op, "reduce_op"), **_scales(op))


@tf.RegisterGradient("HorovodGroupedAllreduce")
def _of_grouped_allreduce(op: Any, *grads: Any) -> List[Any]:
    return list(raw.horovod_grouped_allreduce(_as_outputs(op, grads), **_attributes(op, "reduce_op"), **_scales(op)))


def _own_rows(grad: Any, counts: Any, op: Any) -> Any:
    """The rows of this rank's input, out of the rows of all ranks; ``counts`` holds the number of rows of each
    rank."""
    place = raw.horovod_rank(process_set_id=op.get_attr("process_set_id"))
    begin = tf.reduce_sum(counts[:place])
    return grad[begin : begin + counts[place]]


@tf.RegisterGradient("HorovodAllgather")
def _of_allgather(op: Any, grad: Any) -> Any:
    mean = raw.horovod_allreduce(_as_output(op, grad), **_mean(op))
    rows = tf.shape(op.inputs[0])[:1]
    counts = raw.horovod_allgather(rows, **_suffixed(_attributes(op), ".rows"))
    return _own_rows(mean, counts, op)


@tf.RegisterGradient("HorovodGroupedAllgather")
def _of_grouped_allgather(op: Any, *grads: Any) -> List[Any]:
    means = raw.horovod_grouped_allreduce(_as_outputs(op, grads), **_mean(op))
    rows = tf.stack([tf.shape(each)[0] for each in op.inputs])[tf.newaxis, :]
    counts = raw.horovod_allgather(rows, **_suffixed(_attributes(op), ".rows"))
    return [_own_rows(mean, counts[:, place], op) for place, mean in enumerate(means)]


@tf.RegisterGradient("HorovodBroadcast")
def _of_broadcast(op: Any, grad: Any) -> Any:
    mean = raw.horovod_allreduce(_as_output(op, grad), **_mean(op))
    is_root = tf.equal(raw.horovod_rank(), op.get_attr("root_rank"))
    return tf.where(is_root, mean, tf.zeros_like(mean))


@tf.RegisterGradient("HorovodAlltoall")
def _of_alltoall(op: Any, grad: Any, _: Any) -> Tuple[Any, None]:
    # The rows that each rank sent are returned to it.
    back, _counts = raw.horovod_alltoall(_as_output(op, grad), splits=op.outputs[1], **_attributes(op))
    return back, None


def _unscattered(op: Any, grad: Any) -> Any:
    """The gradient of a share, multiplied by the factor that the reduction applied to each rank's rows."""
    factor = op.get_attr("prescale_factor") * op.get_attr("postscale_factor")
    if factor != 1.0:
        grad *= tf.cast(factor, grad.dtype)
    if op.get_attr("reduce_op") == Sum:
        grad *= tf.cast(size_op(op.get_attr("process_set_id")), grad.dtype)
    return grad


@tf.RegisterGradient("HorovodReducescatter")
def _of_reducescatter(op: Any, grad: Any) -> Any:
    return raw.horovod_allgather(_unscattered(op, _as_output(op, grad)), **_attributes(op))


@tf.RegisterGradient("HorovodGroupedReducescatter")
def _of_grouped_reducescatter(op: Any, *grads: Any) -> List[Any]:
    own = [_unscattered(op, each) for each in _as_outputs(op, grads)]
    return list(raw.horovod_grouped_allgather(own, **_attributes(op)))


for _type in ("AbsentAllreduce", "Join", "Barrier", "Size", "ProcessSetIncluded", "LocalSize", "Rank", "LocalRank"):
    tf.no_gradient(f"Horovod{_type}")
