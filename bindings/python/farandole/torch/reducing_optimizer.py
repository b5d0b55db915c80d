"""An optimizer whose gradients are reduced over all ranks while the backward pass goes on."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import torch

from farandole.common import ledger, membership
from farandole.common.arguments import require_process_set
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.reduction import scales
from farandole.torch import mpi_ops
from farandole.torch.compression import GradientCompressor, check
from farandole.torch.gradient_reductions import GradientReductions
from farandole.torch.gradient_transfers import GradientTransfers, Reduction, Transfer
from farandole.torch.mpi_ops import Average
from farandole.torch.reduced_parameters import ReducedParameters

_SET_TO_NONE = inspect.signature(torch.optim.Optimizer.zero_grad).parameters["set_to_none"].default

_STEP_AFTER_SYNCHRONIZE = (
    "optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(). "
    "This can cause training slowdown. You may want to consider using optimizer.skip_synchronize() context if you use "
    "optimizer.synchronize() in your code."
)
_ZERO_GRAD_TOO_EARLY = (
    "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(). "
    "This is prohibited as it can cause a race condition."
)


class _DistributedOptimizer(torch.optim.Optimizer):
    """What ``DistributedOptimizer`` puts in front of the class of the optimizer that it wraps."""

    def __init__(
        self,
        params: Any,
        named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]],
        compression: Any,
        backward_passes_per_step: int = 1,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        groups: Any = None,
        sparse_as_dense: bool = False,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__(params)  # type: ignore[call-arg]
        self._distribute(
            named_parameters,
            compression,
            backward_passes_per_step,
            op,
            gradient_predivide_factor,
            groups,
            sparse_as_dense,
            process_set,
        )

    def _distribute(
        self,
        named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]],
        compression: Any,
        backward_passes_per_step: int,
        op: int,
        gradient_predivide_factor: float,
        groups: Any,
        sparse_as_dense: bool,
        process_set: ProcessSet,
    ) -> None:
        ledger.check_passes(backward_passes_per_step)
        ledger.check_groups(groups, torch.Tensor)
        check(compression, op, "DistributedOptimizer")
        require_process_set("DistributedOptimizer", None, process_set)
        self._process_set = process_set
        self.backward_passes_per_step = backward_passes_per_step
        self._synchronized = False
        self._should_synchronize = True
        self._parameters = ReducedParameters(self.param_groups, named_parameters)
        # A set of one counts here: scales and compressors have their say in it.
        active_now = bool(process_set.included()) and (mpi_ops.size() > 1 or membership.is_elastic())
        grouped = self._parameters.groups_of(groups, process_set) if active_now else None
        if isinstance(compression, GradientCompressor):
            compression.serve(self)
        reduction = Reduction(op, *scales(op, gradient_predivide_factor))
        transfers = GradientTransfers(self._parameters, compression, reduction, process_set, sparse_as_dense)
        account = ledger.Ledger(backward_passes_per_step, grouped)
        self._reductions = GradientReductions(self._parameters, account, self._sender(transfers), process_set)
        if active_now or self._reductions.may_change:
            self._reductions.begin()

    def _sender(self, transfers: GradientTransfers) -> Callable[[Sequence[int]], List[Transfer]]:
        """What sends gradients that are due, given their indices. It must not keep the optimizer alive."""
        return transfers.start

    def let_go(self) -> None:
        """Takes its hooks off the parameters: from now on nothing is reduced, and another optimizer may wrap them."""
        self._reductions.end()

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Takes more parameters, whose gradients are reduced from now on; every rank must add the same.

        Their names are those of the group where it has ``(name, parameter)`` pairs, or come from its number.
        """
        super().add_param_group(param_group)
        if "_reductions" not in vars(self):
            return  # the wrapped class's own constructor adds the first groups
        try:
            self._parameters.add_last_group(self.param_groups)
        except ValueError:
            self.param_groups.pop()
            raise
        if self._reductions.is_active:
            self._reductions.watch_thawed()

    @property
    def process_set(self) -> ProcessSet:
        """Who takes part."""
        return self._process_set

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes how many backward passes add up before gradients are reduced; starts counting anew."""
        self._reductions.set_passes(passes)
        self.backward_passes_per_step = passes

    def synchronize(self) -> None:
        """Reduces what has not been reduced yet, and waits until every gradient is the same on all ranks."""
        if self._reductions.is_active:
            self._reductions.start_overdue()
            self._reductions.wait()
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Inside, ``step()`` does not wait: ``synchronize()`` has been called before."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Waits for the gradients unless inside ``skip_synchronize()``, then steps."""
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(_STEP_AFTER_SYNCHRONIZE, stacklevel=2)
            if closure is None:
                self.synchronize()
            else:
                closure = self._synchronizing(closure)
        result = self.step_alone(closure)
        self._synchronized = False
        return result

    def _synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """A closure computes gradients itself: they are reduced each time that it has."""
        if self._reductions.in_flight:
            self.synchronize()

        def computed() -> Any:
            loss = closure()
            self.synchronize()
            return loss

        return computed

    # torch wraps the step of every class that it meets, to call hooks; the wrapped class's own step is wrapped already.
    step.hooked = True  # type: ignore[attr-defined]

    def step_alone(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Steps without the other ranks."""
        return super().step(closure) if closure is not None else super().step()

    def zero_grad(self, set_to_none: bool = _SET_TO_NONE) -> None:
        """Clears the gradients; ``AssertionError`` while they are being reduced."""
        if self._reductions.in_flight:
            raise AssertionError(_ZERO_GRAD_TOO_EARLY)
        super().zero_grad(set_to_none)

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Takes over a state; gradients on their way are given up."""
        self._reductions.give_up()
        self._synchronized = False
        self._should_synchronize = True
        super().load_state_dict(state_dict)
