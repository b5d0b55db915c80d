"""TensorFlow's implementation of the functions that ``farandole.common.framework`` declares."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from farandole.common.arguments import pack
from farandole.common.framework import Reduction
from farandole.common.process_sets import ProcessSet
from farandole.tensorflow import mpi_ops, reductions
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.nodes import run


class Verbs:
    """Reads, writes and reduces TensorFlow's tensors and variables.

    :param device_dense: the device on which dense gradients are reduced
    :param device_sparse: the device on which ``tf.IndexedSlices`` are gathered
    """

    name = "tensorflow"

    def __init__(self, device_dense: str = "", device_sparse: str = "") -> None:
        self._devices: Dict[str, Any] = {"device_dense": device_dense, "device_sparse": device_sparse}
        self.ignore_name_scope = False
        """Whether ranks match reductions by the last part of their names alone."""

    def to_numpy(self, tensor: Any) -> Any:
        """A copy of the values, in host memory."""
        return tf.convert_to_tensor(tensor).numpy().copy()

    def assign(self, variable: Any, array: Any) -> None:
        """Writes the array to the variable, in place."""
        variable.assign(array)

    def is_sparse(self, gradient: Any) -> bool:
        """Whether it is ``tf.IndexedSlices``."""
        return isinstance(gradient, tf.IndexedSlices)

    def densified(self, gradient: Any) -> Any:
        """The gradient as a dense tensor: slices of the same row are added."""
        return tf.convert_to_tensor(gradient)

    def divided_by_members(self, gradient: Any, process_set: ProcessSet) -> Any:
        """The gradient divided by the number of members; in an elastic job, by the number when the graph runs."""
        if not self.is_sparse(gradient):
            return gradient / mpi_ops.divisor(process_set, gradient.dtype)
        values = gradient.values / mpi_ops.divisor(process_set, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)

    def allreduce(self, gradient: Any, name: str, how: Reduction) -> Any:
        """Reduces one gradient. If ``name`` is empty, the operation is named after the gradient in a graph."""
        scaled = not self.is_sparse(gradient)
        reduced = reductions.allreduce(
            _as_pairs(gradient),
            compression=how.compression,
            op=how.op,
            prescale_factor=how.prescale_factor if scaled else 1.0,
            postscale_factor=how.postscale_factor if scaled else 1.0,
            name=name or None,
            process_set=how.process_set,
            ignore_name_scope=self.ignore_name_scope,
            **self._devices,
        )
        return _of_pairs(reduced, gradient)

    def absent_allreduce(self, variable: Any, name: str, how: Reduction, expects_none: bool) -> Tuple[Any, Any]:
        """In graphs: the reduction of a gradient of this variable that this rank does not have, and whether another
        rank has one. Without one, the result is zeros.

        :param expects_none: whether it is an error if another rank has one
        """
        zeros = tf.zeros(variable.shape, variable.dtype)
        with reductions.on(self._devices["device_dense"]):
            travels, context = pack("allreduce", name, how.compression, _as_pairs(zeros))
            reduced, is_reduced = run(
                "absent_allreduce",
                name,
                travels,
                how.process_set,
                self.ignore_name_scope,
                reduce_op=how.op,
                prescale_factor=how.prescale_factor,
                postscale_factor=how.postscale_factor,
                expects_none=expects_none,
            )
            return _of_pairs(how.compression.decompress(reduced, context), zeros), is_reduced

    def grouped_allreduce(self, gradients: Sequence[Any], names: Sequence[str], how: Reduction) -> List[Any]:
        """Reduces several gradients as one group."""
        reduced = reductions.grouped_allreduce(
            [_as_pairs(each) for each in gradients],
            compression=how.compression,
            op=how.op,
            prescale_factor=how.prescale_factor,
            postscale_factor=how.postscale_factor,
            name="\n".join(names),
            process_set=how.process_set,
            ignore_name_scope=self.ignore_name_scope,
            **self._devices,
        )
        return [_of_pairs(new, old) for new, old in zip(reduced, gradients)]


def _as_pairs(gradient: Any) -> Any:
    """A complex gradient as pairs of real numbers, which operations can add; another one as it is."""
    if not gradient.dtype.is_complex:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_as_pairs(gradient.values), gradient.indices, gradient.dense_shape)
    return tf.stack([tf.math.real(gradient), tf.math.imag(gradient)], axis=-1)


def _of_pairs(reduced: Any, gradient: Any) -> Any:
    """The reverse of ``_as_pairs(gradient)`` after the reduction."""
    if not gradient.dtype.is_complex:
        return reduced
    if isinstance(reduced, tf.IndexedSlices):
        return tf.IndexedSlices(_of_pairs(reduced.values, gradient.values), reduced.indices, reduced.dense_shape)
    return tf.complex(reduced[..., 0], reduced[..., 1])
