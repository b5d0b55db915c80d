"""Sends an optimizer's gradients to the other ranks: singly or in groups, compressed, sparse, dense or absent."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from farandole.common import calls
from farandole.common.arguments import pack
from farandole.common.calls import handles_of
from farandole.common.process_sets import ProcessSet
from farandole.common.reduction import adds
from farandole.torch import entry
from farandole.torch.absent_gradients import AbsentReduction
from farandole.torch.compression import Compression, GradientCompressor
from farandole.torch.exchange import Exchange, advance_together, wanted
from farandole.torch.memory import complex_like, may_overlap, reals_of
from farandole.torch.ops.sparse import start_rows
from farandole.torch.reduced_parameters import ReducedParameters


class Transfer:
    """The operation in progress for one gradient or a group, and the function that writes its result back."""

    __slots__ = ("call", "put_back")

    def __init__(self, call: Any, put_back: Callable[[Any], None]) -> None:
        self.call = call
        self.put_back = put_back


class Reduction(NamedTuple):
    """How gradients are reduced: an operation such as ``Average``, and the scale factors before and after it."""

    op: int
    prescale: float
    postscale: float


class GradientTransfers:
    """Starts the transfers of one optimizer.

    :param parameters: the parameters of these gradients; more may be added later
    :param refuses_dense: whether the optimizer takes sparse gradients only
    """

    def __init__(
        self,
        parameters: ReducedParameters,
        compression: Any,
        reduction: Reduction,
        process_set: ProcessSet,
        sparse_as_dense: bool,
        refuses_dense: bool = False,
    ) -> None:
        self._parameters = parameters.tensors
        self._names = parameters.names
        self._compression = compression
        self._reduction = reduction
        self._process_set = process_set
        self._sparse_as_dense = sparse_as_dense
        self._refuses_dense = refuses_dense
        self._request = calls.reduction(None, *reduction)
        self._adds = adds(reduction.op)
        self._sparse_dims: Dict[int, int] = {}
        """Of parameters with sparse gradients."""

    def start(self, indices: Sequence[int]) -> List[Transfer]:
        """Sends the gradients of these parameters; those that are not sparse become ready together.

        A parameter without a gradient takes part all the same. It gets one if another rank has used it; of zeros if the
        operation does not add, because no rank can be absent from such an operation.
        """
        if not self._adds:
            for parameter in (self._parameters[index] for index in indices):
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
        if len(indices) == 1:
            return [self._start_one(indices[0])]
        sparse = [each for each in indices if self._travels_sparse(each)]
        dense = [each for each in indices if not self._travels_sparse(each)]
        started = [self._start_one(index) for index in sparse]
        if dense:
            started += self._start_group(dense)
        return started

    def start_instead(self, index: int, tensor: torch.Tensor, take: Callable[[torch.Tensor], None]) -> Transfer:
        """Sends a dense tensor instead of this parameter's gradient; ``take`` is called with the result. If the
        parameter has no gradient, the tensor is zeros; and if it has none on any rank, ``take`` is not called."""
        packed, context = pack("allreduce", self._names[index], self._compression, reals_of(tensor))
        is_absent = self._is_absent(index)
        call = entry.start(self._request, self._names[index], packed, packed, self._process_set, absent=is_absent)
        unpack = self._compression.decompress
        handle = handles_of(call)[0]

        def put_back(reduced: torch.Tensor) -> None:
            if handle.has_result:
                take(complex_like(tensor, unpack(reduced, context)))

        return Transfer(call, put_back)

    def _is_absent(self, index: int) -> bool:
        return self._parameters[index].grad is None

    def _gradient(self, index: int) -> torch.Tensor:
        """The gradient of a parameter; zeros if it has none, in the layout of the gradients that it had before. Before
        the first one, sparse zeros of rows, as those of embeddings, for an optimizer that refuses dense gradients."""
        parameter = self._parameters[index]
        gradient = parameter.grad
        if gradient is None:
            zeros = torch.zeros_like(parameter)
            sparse_dim = self._sparse_dims.get(index, 1 if self._refuses_dense else 0)
            return zeros.to_sparse(sparse_dim) if sparse_dim else zeros
        if gradient.is_sparse:
            self._sparse_dims[index] = gradient.sparse_dim()
        return gradient

    def _now_or(self, index: int, gradient: torch.Tensor) -> torch.Tensor:
        now = self._parameters[index].grad
        return gradient if now is None else now

    def _travels_sparse(self, index: int) -> bool:
        gradient = self._parameters[index].grad
        return gradient is not None and gradient.is_sparse and not self._sparse_as_dense

    def _start_one(self, index: int) -> Transfer:
        parameter = self._parameters[index]
        name = self._names[index]
        if self._travels_sparse(index):
            gradient = self._gradient(index)
            call = start_rows(gradient, name, self._reduction.op, self._process_set, calls.GATHERED_REDUCTION, name)
            return Transfer(call, lambda reduced: setattr(parameter, "grad", reduced))
        if isinstance(self._compression, GradientCompressor):
            return self._exchange([index])
        is_absent = self._is_absent(index)
        gradient = self._gradient(index)
        packed, put_back = self._pack(index, gradient)
        call = entry.start(self._request, name, packed, packed, self._process_set, absent=is_absent)
        if not is_absent:
            return Transfer(call, put_back)

        def dense() -> torch.Tensor:
            put_back(call.finish())
            return self._now_or(index, gradient)

        return self._absent(index, handles_of(call)[0], dense)

    def _start_group(self, indices: Sequence[int]) -> List[Transfer]:
        if isinstance(self._compression, GradientCompressor):
            return [self._exchange(indices)]
        absent = [self._is_absent(index) for index in indices]
        gradients = [self._gradient(index) for index in indices]
        pairs = [self._pack(index, gradient) for index, gradient in zip(indices, gradients)]
        packed = [tensor for tensor, _ in pairs]
        # The names of the parameters, not of the group: a gradient that is sparse on a rank is not in the group there.
        names = [self._names[index] for index in indices]
        call = entry.start_group(self._request, names, packed, packed, self._process_set, absent=absent)

        def put_all_back(reduced: Sequence[torch.Tensor]) -> None:
            for (_, put_back), each, is_absent in zip(pairs, reduced, absent):
                if not is_absent:
                    put_back(each)

        def dense(position: int) -> torch.Tensor:
            pairs[position][1](call.finish()[position])
            return self._now_or(indices[position], gradients[position])

        handles = call.handles
        return [Transfer(call, put_all_back)] + [
            self._absent(index, handles[position], partial(dense, position))
            for position, index in enumerate(indices)
            if absent[position]
        ]

    def _absent(self, index: int, handle: Any, dense: Callable[[], torch.Tensor]) -> Transfer:
        """The transfer of a gradient that this rank does not have."""
        parameter = self._parameters[index]
        call = AbsentReduction(parameter, self._names[index], self._reduction.op, self._process_set, handle, dense)
        return Transfer(call, lambda reduced: setattr(parameter, "grad", reduced))

    def _exchange(self, indices: Sequence[int]) -> Transfer:
        """Sends gradients by a compressor that decides itself which messages are sent."""
        parameters = [self._parameters[index] for index in indices]
        absent = [self._is_absent(index) for index in indices]
        gradients = [self._gradient(index) for index in indices]
        dense = [each.to_dense() if each.is_sparse else each for each in gradients]
        plain = [reals_of(each.detach().clone() if each.requires_grad else each) for each in dense]
        names = [self._names[index] for index in indices]
        how = wanted(*self._reduction, self._process_set)
        call = Exchange(self._compression, names, plain, how, self._process_set, in_place=True, absent=absent)

        def put_all_back(reduced: Sequence[torch.Tensor]) -> None:
            for parameter, gradient, each in zip(parameters, gradients, reduced):
                if each is None:
                    continue
                if each.is_sparse:
                    values = complex_like(gradient, each._values())
                    parameter.grad = torch.sparse_coo_tensor(
                        each._indices(), values, parameter.size(), check_invariants=False
                    )
                    continue
                each = complex_like(gradient, each)
                if gradient.is_sparse:
                    parameter.grad = each.to_sparse(gradient.sparse_dim())
                elif gradient.requires_grad or may_overlap(gradient):
                    parameter.grad = _laid_out_like(parameter, each)
                elif each is not gradient:
                    gradient.copy_(each)
                if parameter.grad is None:
                    parameter.grad = gradient

        return Transfer(call, put_all_back)

    def _pack(self, index: int, gradient: torch.Tensor) -> Tuple[torch.Tensor, Callable[[torch.Tensor], None]]:
        """The tensor to send for a gradient, and the function that writes the result back to the gradient."""
        parameter = self._parameters[index]
        was_sparse = gradient.is_sparse
        plain = gradient.to_dense() if was_sparse else gradient.resolve_neg()
        is_in_graph = gradient.requires_grad
        if is_in_graph:  # backward(create_graph=True): a graph may need the values, so the result is a new tensor
            plain = plain.detach().clone()
        if self._compression is Compression.none and plain is gradient and _is_sent_as_it_is(plain):
            return plain, lambda reduced: None
        packed, context = pack("allreduce", self._names[index], self._compression, reals_of(plain))
        if not packed.is_contiguous():
            packed = packed.contiguous()

        def put_back(reduced: torch.Tensor) -> None:
            restored: Any = complex_like(gradient, self._compression.decompress(reduced, context))
            if was_sparse:
                parameter.grad = restored.to_sparse(gradient.sparse_dim())
            elif restored is gradient:
                return
            elif is_in_graph or may_overlap(gradient):
                parameter.grad = _laid_out_like(parameter, restored)
            elif gradient.is_contiguous() and plain is gradient and not gradient.is_conj():
                gradient.set_(restored)  # keeps the conjugate bit, so a conjugated view is written to instead
            else:
                gradient.copy_(restored)

        return packed, put_back


def _is_sent_as_it_is(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous() and not tensor.is_complex()


def _laid_out_like(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient in the memory layout of its parameter, which PyTorch gives gradients. Fused optimizers take it for
    granted, and would pair other entries."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter, requires_grad=False).copy_(gradient)


def wait_for(transfers: Sequence[Transfer]) -> None:
    """Waits for all transfers, in reverse order: the last one tends to end last, so the thread is woken less
    often."""
    advance_together([transfer.call for transfer in transfers])
    problem: Optional[BaseException] = None
    for transfer in reversed(transfers):
        try:
            transfer.call.wait()
        except (RuntimeError, ValueError) as failed:
            problem = failed
    if problem is not None:
        raise problem
