"""An optimizer whose gradients are reduced over all ranks while the backward pass continues."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from farandole.common import gradient_accumulator, membership
from farandole.common.arguments import kind, require_process_set
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.reduction import scales
from farandole.torch import mpi_ops
from farandole.torch.compression import GradientCompressor, check
from farandole.torch.gradient_reductions import GradientReductions
from farandole.torch.gradient_transfers import GradientTransfers, Reduction, Transfer
from farandole.torch.mpi_ops import Average, Sum
from farandole.torch.reduced_parameters import ReducedParameters
from farandole.torch.several_optimizers import Steps, wait_for_abandoned

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


def mark_step(step: Any) -> None:
    """Marks a method ``step`` as one that PyTorch need not wrap.

    torch wraps the step of every optimizer class so that it calls hooks, but the step of the wrapped optimizer's class
    does so already. A learning rate scheduler wraps the step of its optimizer to see whether it was called, for a
    warning; ``count_step`` records the call instead.
    """
    step.hooked = step._wrapped_by_lr_sched = step._with_counter = True


def count_step(optimizer: Any) -> None:
    """Records a call of ``step`` for other optimizers, and for learning rate schedulers: ``_opt_called``, or
    ``_step_count`` before PyTorch 2.4."""
    Steps.add(optimizer._reductions)
    optimizer._opt_called = True
    optimizer._step_count = getattr(optimizer, "_step_count", 0) + 1


class Options(NamedTuple):
    """What an optimizer is told about its gradients: the arguments of ``DistributedOptimizer``."""

    compression: Any
    backward_passes_per_step: int
    reduction: Reduction
    groups: Any
    sparse_as_dense: bool
    process_set: ProcessSet


class _DistributedOptimizer(torch.optim.Optimizer):
    """The base class that ``DistributedOptimizer`` puts before the class of the wrapped optimizer."""

    wrapped_class: Optional[type] = None
    """The class of the wrapped optimizer; None for a class that is derived from this one by hand."""
    _gradients_change_nothing = True
    """Whether the optimizer's state is as before when gradients have been reduced."""
    has_let_go = False
    """Whether gradients are no longer reduced, so that the optimizer may be wrapped again."""

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
        reduction = Reduction(op, *scales(op, gradient_predivide_factor))
        options = Options(compression, backward_passes_per_step, reduction, groups, sparse_as_dense, process_set)
        self._distribute(named_parameters, options)

    def _distribute(self, named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]], options: Options) -> None:
        compression, backward_passes_per_step, reduction, groups, sparse_as_dense, process_set = options
        gradient_accumulator.check_passes(backward_passes_per_step)
        gradient_accumulator.check_groups(groups, torch.Tensor)
        check(compression, reduction.op, "DistributedOptimizer")
        require_process_set("DistributedOptimizer", None, process_set)
        self._process_set = process_set
        self._op = reduction.op
        self.backward_passes_per_step = backward_passes_per_step
        self.has_let_go = False
        self._synchronized = False
        self._should_synchronize = True
        self._parameters = ReducedParameters(self.param_groups, named_parameters)
        # A process set of one member is active too, because scale factors and compressors change its gradients.
        active_now = bool(process_set.included()) and (mpi_ops.size() > 1 or membership.is_elastic())
        grouped = self._parameters.groups_of(groups, process_set) if active_now else None
        if isinstance(compression, GradientCompressor):
            compression.serve(self)
        refuses_dense = isinstance(self, torch.optim.SparseAdam)
        transfers = GradientTransfers(
            self._parameters, compression, reduction, process_set, sparse_as_dense, refuses_dense
        )
        accumulator = gradient_accumulator.GradientAccumulator(backward_passes_per_step, grouped)
        self._reductions = GradientReductions(
            self._parameters,
            accumulator,
            self._sender(transfers),
            process_set,
            type(self).__name__,
            self._gradients_change_nothing,
        )
        if active_now or self._reductions.may_change:
            self._reductions.begin()

    def _sender(self, transfers: GradientTransfers) -> Callable[[Sequence[int]], List[Transfer]]:
        """The function that sends the gradients with the given indices. It must not hold a strong reference to the
        optimizer."""
        return transfers.start

    def let_go(self) -> None:
        """Removes the hooks from the parameters. From now on no gradient is reduced, and another distributed
        optimizer may take the parameters."""
        self._reductions.end()
        self.has_let_go = True

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Adds parameters, whose gradients are reduced from now on. Every rank must add the same.

        Their names come from the ``(name, parameter)`` pairs of the group if it has such, or from the group's number.
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

    def __reduce_ex__(self, protocol: Any) -> Any:
        """What ``copy.deepcopy`` and ``pickle`` make of it: an optimizer of the wrapped class, which may be wrapped
        again. Two optimizers that reduce the gradients of the same parameters would disturb each other."""
        return object.__new__, (self.wrapped_class or type(self),), self.__getstate__()

    @property
    def _parameter_names(self) -> Dict[torch.Tensor, str]:
        """The name of each parameter, on which tools rely."""
        return self._parameters.name_of

    @property
    def process_set(self) -> ProcessSet:
        """The process set over which gradients are reduced."""
        return self._process_set

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Sets the number of backward passes after which gradients are reduced, and resets the count."""
        self._reductions.set_passes(passes)
        self.backward_passes_per_step = passes

    def synchronize(self) -> None:
        """Starts the reductions that have not started yet, and waits until every gradient is the same on all
        ranks."""
        if self._reductions.is_active:
            # A gradient scaler may leave out the step that follows.
            Steps.add(self._reductions)
            self._reductions.start_overdue()
            self._reductions.wait()
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Context in which ``step()`` does not wait, because ``synchronize()`` has been called before."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Waits for the gradients unless inside ``skip_synchronize()``, then steps."""
        count_step(self)
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
        """Wraps a closure, which computes gradients, so that they and the loss are reduced after each call.

        L-BFGS decides by the loss how often it calls the closure. All ranks must decide the same.
        """
        decides_by_loss = isinstance(self, torch.optim.LBFGS)
        if self._reductions.in_flight:
            self.synchronize()

        def computed() -> Any:
            loss = closure()
            self.synchronize()
            return self.reduced_loss(loss) if decides_by_loss else loss

        return computed

    def reduced_loss(self, loss: Any) -> Any:
        """The loss of the batches of all ranks; of a number, a number. Every rank sends the same type, whatever its
        closure has returned."""
        if not self._reductions.is_active:
            return loss
        try:
            number = float(loss.detach() if isinstance(loss, torch.Tensor) else loss)
        except (TypeError, ValueError):  # of a RuntimeError, such as one of the GPU, the text is needed
            raise TypeError(
                "the closure for step() of LBFGS must return the loss, a number or a tensor of one element, not "
                f"{kind(loss)}"
            ) from None
        op = Sum if self._op == Sum else Average
        name = "DistributedOptimizer.loss"
        own = torch.tensor(number, dtype=torch.float64)
        reduced = mpi_ops.allreduce(own, op=op, name=name, process_set=self._process_set)
        return reduced.to(loss.device) if isinstance(loss, torch.Tensor) else reduced.item()

    mark_step(step)

    def step_alone(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Steps with this rank's gradients, without waiting for other ranks."""
        return super().step(closure) if closure is not None else super().step()

    def zero_grad(self, set_to_none: bool = _SET_TO_NONE) -> None:
        """Clears the gradients; raises ``AssertionError`` while they are being reduced."""
        if self._reductions.are_by_products:
            self._reductions.discard()
        if self._reductions.in_flight:
            raise AssertionError(_ZERO_GRAD_TOO_EARLY)
        self._reductions.give_up()  # passes that were left over do not count any more
        wait_for_abandoned()
        super().zero_grad(set_to_none)

    def begin_equal(self) -> None:
        """Called on all ranks when they have the same state, some of which may have joined: abandons the reductions in
        flight, and sends gradients under their first names again."""
        self._reductions.give_up()
        self._parameters.rename("")

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Loads a state, and abandons the reductions in flight."""
        self._reductions.abandon()
        self._synchronized = False
        self._should_synchronize = True
        super().load_state_dict(state_dict)
