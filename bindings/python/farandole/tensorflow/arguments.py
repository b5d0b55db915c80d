"""Converts the arguments of the operations to TensorFlow's tensors, and explains arguments that cannot be
converted."""

from __future__ import annotations

from typing import Any, List, Optional

from farandole.common.arguments import (
    head,
    kind,
    listed,
    member_name,
    require_name,
    wrong_dtype,
    wrong_dtype_remedy,
)
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.moved_types import AS_BYTES, COMPLEX, WIDER

_REDUCED = frozenset(
    [tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64, tf.float16, tf.bfloat16, tf.float32, tf.float64]
)
_MOVED = _REDUCED | {tf.bool, *AS_BYTES, *COMPLEX, *WIDER}


def tensor_of(operation: str, name: Optional[str], value: Any, may_be_texts: bool = False) -> Any:
    """Converts a value to a tensor; ``TypeError`` if TensorFlow cannot convert it.

    An element type that the operation does not support raises the same exception as in TensorFlow's own operations:
    ``TypeError`` in a graph, and ``tf.errors.InvalidArgumentError`` outside.
    """
    require_name(operation, name)
    try:
        tensor = tf.convert_to_tensor(value)
    except (TypeError, ValueError):
        if isinstance(value, tf.SparseTensor):
            remedy = "pass tf.sparse.to_dense(tensor), or tf.IndexedSlices to allreduce"
        elif value is None:
            remedy = "leave it out on all ranks, or pass zeros (a variable that was not used has no gradient)"
        else:
            remedy = "convert it with tf.convert_to_tensor()"
        raise TypeError(f"{head(operation, name)} takes a tf.Tensor, not {kind(value)}; {remedy}") from None
    dtype = tensor.dtype.base_dtype
    if dtype not in (_REDUCED if "reduce" in operation else _MOVED) and not (may_be_texts and dtype == tf.string):
        dtype = dtype.name
        problem = str(
            wrong_dtype(operation, name, dtype, wrong_dtype_remedy(operation, dtype, "tf.cast(tensor, tf.{})"))
        )
        raise tf.errors.InvalidArgumentError(None, None, problem) if tf.executing_eagerly() else TypeError(problem)
    return tensor


def tensors_of(operation: str, name: Optional[str], values: Any) -> List[Any]:
    """Converts the members of a group, as ``tensor_of`` does for one tensor."""
    require_name(operation, name)
    members = listed(operation, name, values)
    # A name of several lines holds one name for each member of the group.
    own = None if name is None or "\n" in name else name
    return [tensor_of(operation, member_name(own, index, len(members)), each) for index, each in enumerate(members)]


def splits_of(name: Optional[str], splits: Any) -> Any:
    """The number of rows for each rank, as int32; an empty tensor for equal parts."""
    if splits is None:
        return tf.zeros([0], tf.int32)
    rows = tf.convert_to_tensor(splits)
    if not rows.dtype.is_integer and rows.shape.num_elements() != 0:  # an empty list becomes a tensor of floats
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            f"{head('alltoall', name)} takes splits of int32 or int64, not {rows.dtype.name}; convert them with "
            "tf.cast(splits, tf.int32)",
        )
    if rows.dtype.size <= tf.int32.size:
        return tf.cast(rows, tf.int32)
    problem = f"{head('alltoall', name)} takes splits of at most {tf.int32.max} rows, because the operation's are int32"
    check = tf.debugging.assert_less_equal(rows, tf.constant(tf.int32.max, rows.dtype), message=problem)
    with tf.control_dependencies([] if check is None else [check]):
        return tf.cast(rows, tf.int32)
