"""An optimizer whose gradients are reduced over all ranks while the backward pass goes on."""

from __future__ import annotations

import contextlib
import inspect
import warnings
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import torch

from farandole.common import ledger, membership
from farandole.common.arguments import require_process_set
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.reduction import partition, scales
from farandole.torch import mpi_ops
from farandole.torch.compression import GradientCompressor, check
from farandole.torch.functions import broadcast_object
from farandole.torch.gradient_transfers import GradientTransfers, Reduction, Transfer, wait_for
from farandole.torch.mpi_ops import Average
from farandole.torch.parameter_hook import ParameterHook
from farandole.torch.parameter_names import names_of, names_of_new

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
        self._in_flight: List[Transfer] = []
        self._parameters = [
            parameter for group in self.param_groups for parameter in group["params"] if parameter.requires_grad
        ]
        self._parameter_names = names_of(self.param_groups, named_parameters)
        self._names = [self._parameter_names[parameter] for parameter in self._parameters]
        self._hooks: List[ParameterHook] = []
        self._frozen: List[torch.Tensor] = []
        # By a rule, a member may come into the set in a later generation.
        self._may_change = process_set.rule is not None and membership.is_elastic()
        # A set of one counts here: scales and compressors have their say in it.
        active_now = bool(process_set.included()) and (mpi_ops.size() > 1 or membership.is_elastic())
        active = active_now or self._may_change
        grouped = self._index_groups(groups) if active_now else None
        self._ledger: ledger.Ledger[int] = ledger.Ledger(backward_passes_per_step, grouped)
        if isinstance(compression, GradientCompressor):
            compression.serve(self)
        self._transfers = GradientTransfers(
            self._parameters,
            self._names,
            compression,
            Reduction(op, *scales(op, gradient_predivide_factor)),
            process_set,
            sparse_as_dense,
        )
        if active:
            for index in range(len(self._parameters)):
                self._register_hook(index)
            self._frozen = [each for group in self.param_groups for each in group["params"] if not each.requires_grad]

    # ---- setting up ----

    def _index_groups(self, groups: Any) -> Optional[List[List[int]]]:
        if groups is None:
            return None
        indices = list(range(len(self._names)))
        if isinstance(groups, int):
            index_of_name = {name: index for index, name in enumerate(self._names)}
            # Ranks may list their parameters in different orders; groups must be the same everywhere.
            first = (self._process_set.ranks or [0])[0]
            agreed = broadcast_object(self._names, first, "DistributedOptimizer.groups", self._process_set)
            indices = [index_of_name[name] for name in agreed]
        index_of = {id(parameter): index for index, parameter in enumerate(self._parameters)}
        return partition(indices, groups, lambda parameter: index_of.get(id(parameter)))

    def _register_hook(self, index: int) -> None:
        # The parameters must not keep an optimizer alive that its owner has dropped.
        optimizer = weakref.ref(self)
        self._ledger.open(index)

        def arrived(*_: Any) -> None:
            alive = optimizer()
            if alive is not None:
                alive._gradient_arrived(index)

        self._hooks.append(ParameterHook(self._parameters[index], arrived))

    def let_go(self) -> None:
        """Takes its hooks off the parameters: from now on nothing is reduced, and another optimizer may wrap them."""
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._frozen, self._in_flight = [], [], []

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Takes more parameters, whose gradients are reduced from now on; every rank must add the same.

        Their names are those of the group where it has ``(name, parameter)`` pairs, or come from its number.
        """
        super().add_param_group(param_group)
        if "_ledger" not in vars(self):
            return  # the wrapped class's own constructor adds the first groups
        try:
            self._parameter_names.update(names_of_new(self.param_groups, self._parameter_names))
        except ValueError:
            self.param_groups.pop()
            raise
        if self._hooks or self._frozen:
            self._frozen += self.param_groups[-1]["params"]
            self._thaw()

    def _thaw(self) -> None:
        """Parameters that did not want a gradient when they came, and do now, are reduced like the others."""
        thawed = [each for each in self._frozen if each.requires_grad]
        if not thawed:
            return
        self._frozen = [each for each in self._frozen if not each.requires_grad]
        for parameter in thawed:
            self._parameters.append(parameter)
            self._names.append(self._parameter_names[parameter])
            self._register_hook(len(self._parameters) - 1)

    # ---- reducing ----

    def _gradient_arrived(self, index: int) -> None:
        try:
            due = self._ledger.arrived(index)
        except AssertionError as problem:
            raise AssertionError(f"{problem} The parameter is {self._names[index]}.") from None
        if due:
            self._start(due)

    def _start_overdue(self) -> None:
        """Starts what no backward pass has brought to its end: it was not used, or not often enough."""
        if self._frozen:
            self._thaw()
        for due in self._ledger.overdue():
            self._start(due)

    def _start(self, indices: Sequence[int]) -> None:
        if self._may_change and not self._process_set.included():
            return
        # What is frozen keeps out of it, as it does out of a step: zeros would move it by decay and momentum.
        indices = [each for each in indices if self._parameters[each].requires_grad or not self._ledger.waits(each)]
        if not indices:
            return
        for index in indices:
            if self._parameters[index].grad is None:
                self._parameters[index].grad = torch.zeros_like(self._parameters[index])
        self._in_flight += self._send(indices)

    def _send(self, indices: Sequence[int]) -> List[Transfer]:
        return self._transfers.start(indices)

    # ---- the interface ----

    @property
    def process_set(self) -> ProcessSet:
        """Who takes part."""
        return self._process_set

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes how many backward passes add up before gradients are reduced; starts counting anew."""
        self._ledger.set_passes(passes)
        self.backward_passes_per_step = passes

    def synchronize(self) -> None:
        """Reduces what has not been reduced yet, and waits until every gradient is the same on all ranks."""
        if self._hooks or self._frozen:
            self._start_overdue()
            self._wait()
        self._synchronized = True

    def _wait(self) -> None:
        in_flight, self._in_flight = self._in_flight, []
        try:
            wait_for(in_flight)
        except (RuntimeError, ValueError):
            # All are ended or abandoned; the next step starts afresh.
            self._ledger.settle()
            raise
        except BaseException:
            self._in_flight = in_flight  # Ctrl-C ends the wait, not the operations
            raise
        with torch.no_grad():
            for transfer in in_flight:
                transfer.put_back(transfer.call.finish())
        self._ledger.settle()

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
        if self._in_flight:
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
        if self._in_flight:
            raise AssertionError(_ZERO_GRAD_TOO_EARLY)
        super().zero_grad(set_to_none)

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Takes over a state; gradients on their way are given up."""
        self._in_flight = []
        self._synchronized = False
        self._should_synchronize = True
        self._ledger.settle()
        super().load_state_dict(state_dict)
