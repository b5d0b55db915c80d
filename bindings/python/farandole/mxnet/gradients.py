"""Reduces gradients of MXNet, in place. Gradients that come first are started first."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Sequence

import numpy
from mxnet.base import MXNetError
from mxnet.ndarray.sparse import BaseSparseNDArray

from farandole.common.arguments import pack
from farandole.common.basics import HorovodBasics
from farandole.common.framework import Reduction
from farandole.common.gradient_accumulator import check_groups
from farandole.common.numbering import Number
from farandole.common.process_sets import ProcessSet
from farandole.common.reduction import GradientReducer, bundles
from farandole.mxnet import mpi_ops
from farandole.mxnet.compression import Compression


class _Verbs:
    """``farandole.common.framework.ReducesGradients`` for MXNet arrays."""

    def __init__(self) -> None:
        self.priority = -1

    def is_sparse(self, gradient: Any) -> bool:
        """Whether it consists of rows and their numbers."""
        return isinstance(gradient, BaseSparseNDArray)

    def densified(self, gradient: Any) -> Any:
        """As a dense array."""
        return gradient.tostype("default")

    def divided_by_members(self, gradient: Any, process_set: ProcessSet) -> Any:
        """Divided by the size of the set."""
        return gradient / (process_set.size() or 1)

    def allreduce(self, gradient: Any, name: str, how: Reduction) -> Any:
        """Reduced, in place."""
        (reduced,) = self._reduced([gradient], name, how, together=False)
        return reduced

    def grouped_allreduce(self, gradients: Sequence[Any], names: Sequence[str], how: Reduction) -> List[Any]:
        """Reduced as one, in place."""
        return self._reduced(gradients, names[0], how, together=True)

    def _reduced(self, gradients: Sequence[Any], name: str, how: Reduction, together: bool) -> List[Any]:
        if any(self.is_sparse(each) for each in gradients):
            raise MXNetError(f"gradient {name} is sparse, and sparse gradients are not reduced: use sparse_grad=False")
        packed = [pack("allreduce", name, how.compression, each) for each in gradients]
        keywords: Dict[str, Any] = {
            "name": name,
            "op": how.op,
            "priority": self.priority,
            "prescale_factor": how.prescale_factor,
            "postscale_factor": how.postscale_factor,
            "process_set": how.process_set,
        }
        self.priority -= 1
        if together:
            mpi_ops.grouped_allreduce_([tensor for tensor, _ in packed], **keywords)
        else:
            mpi_ops.allreduce_(packed[0][0], **keywords)
        for gradient, (tensor, context) in zip(gradients, packed):
            restored = how.compression.decompress(tensor, context)
            if restored is not gradient:
                restored.copyto(gradient)
        return list(gradients)


class Averager:
    """Averages the gradients of one optimizer or trainer over a process set, in place.

    :param num_groups: they are reduced in so many groups; 0: small ones together, as they come
    :param prefix: put in front of every gradient's name; optimizers with the same prefix are numbered
    """

    def __init__(
        self,
        gradient_predivide_factor: float,
        num_groups: int,
        process_set: ProcessSet,
        compression: Any = Compression.none,
        prefix: str = "",
    ) -> None:
        self.gradient_predivide_factor = gradient_predivide_factor
        self.num_groups = num_groups
        self.process_set = process_set
        self._prefix = prefix
        self.number = Number()
        self._verbs = _Verbs()
        self._compression = compression
        check_groups(num_groups or None, object)
        self._reducer = self._reducer_of(num_groups or None)
        self._bundled: Sequence[str] = ()

    def _reducer_of(self, groups: Any) -> GradientReducer[str]:
        return GradientReducer(
            self._verbs,
            HorovodBasics.Average,
            self.gradient_predivide_factor,
            groups,
            key_of=str,
            process_set=self.process_set,
            compression=self._compression,
        )

    def average(self, gradients: Sequence[Any], names: Sequence[str]) -> None:
        """Submits the reductions to MXNet's engine; names are distinct in this optimizer, and the same on all ranks."""
        prefix = self._own_prefix()
        names = [f"{prefix}{each}" for each in names]
        if not self.num_groups and self._bundled != names:
            # Each operation of the engine wakes a thread, which takes longer than small gradients do.
            self._reducer = self._reducer_of(bundles(names, [_bytes_of(each) for each in gradients]))
            self._bundled = names
        self._verbs.priority = -1
        self._reducer.reduce(gradients, names, names)

    def _own_prefix(self) -> str:
        """A prefix that no other optimizer of these ranks has. The first optimizer gets the given one."""
        number = self.number.among(self._prefix, self.process_set)
        return self._prefix if number == 1 else f"{self._prefix}optimizer.{number}."


def _bytes_of(gradient: Any) -> int:
    return math.prod(gradient.shape) * numpy.dtype(gradient.dtype).itemsize
