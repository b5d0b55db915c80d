"""Gradients that only some ranks have, outside of graphs.

There each operation of TensorFlow ends before the next one begins, so ranks have to agree which gradients there are
before the first reduction. In a graph this would be one more operation in each step: there, ranks take part in the
reductions of gradients that they may lack (``GradientReduction._add_absent``).
"""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy

from farandole.common.process_sets import ProcessSet
from farandole.numpy import ops as numpy_ops
from farandole.tensorflow import mpi_ops
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.mpi_ops import Sum

_KINDS = ("dense", "slices with indices of int32", "slices with indices of int64")


def completed(
    gradients: Sequence[Any], variables: Sequence[Any], as_dense: bool, name: str, process_set: ProcessSet
) -> List[Any]:
    """The gradients, and in the place of None one that adds nothing, if another rank has a gradient there.

    Collective. ``ValueError`` on all ranks if a gradient is dense on some and of slices on others.

    :param as_dense: whether slices are made dense before they are reduced
    :param name: of the operation by which ranks agree
    """
    counts = numpy.zeros((len(gradients), len(_KINDS)), numpy.int32)
    for place, each in enumerate(gradients):
        if each is not None:
            counts[place, 0 if as_dense else _kind(each)] = 1
    counts = numpy_ops.allreduce(counts, op=Sum, name=name, process_set=process_set)
    made = list(gradients)
    for place, variable in enumerate(variables):
        kinds = numpy.flatnonzero(counts[place])
        if len(kinds) > 1:
            raise ValueError(_difference(mpi_ops.name_of(variable) or f"source {place}", variable, counts[place]))
        if made[place] is None and len(kinds):
            made[place] = _nothing(tf.convert_to_tensor(variable), kinds[0])
    return made


def _kind(gradient: Any) -> int:
    if not isinstance(gradient, tf.IndexedSlices):
        return 0
    return 1 if gradient.indices.dtype == tf.int32 else 2


def _nothing(value: Any, kind: int) -> Any:
    """A gradient of this kind that adds nothing."""
    if kind == 0:
        return tf.zeros_like(value)
    indices = tf.zeros([0], tf.int32 if kind == 1 else tf.int64)
    return tf.IndexedSlices(tf.zeros_like(value[:0]), indices, dense_shape=tf.shape(value))


def _difference(name: str, variable: Any, counts: Any) -> str:
    found = " and ".join(f"{kind} on {count} ranks" for kind, count in zip(_KINDS, counts) if count)
    return f"the gradient of {name}, of shape {variable.shape}, is {found}: pass sparse_as_dense=True"
