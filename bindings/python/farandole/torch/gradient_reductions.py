"""Decides when the gradients of an optimizer are reduced: each as soon as it is due, and all before a step."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

import torch

from farandole.common import membership
from farandole.common.gradient_accumulator import GradientAccumulator
from farandole.common.process_sets import ProcessSet
from farandole.torch import several_optimizers
from farandole.torch.gradient_transfers import Transfer, wait_for
from farandole.torch.parameter_hook import ParameterHook, is_in_nested_pass
from farandole.torch.reduced_parameters import ReducedParameters
from farandole.torch.several_optimizers import Steps
from farandole.torch.submission import untraced


class GradientReductions:
    """The reductions of one optimizer's gradients, from the hooks on its parameters to the reduced gradients.

    :param gradient_accumulator: decides which gradients are due
    :param send: starts the transfers of the gradients with the given indices
    :param class_name: the class of the optimizer, for errors
    :param may_discard: whether reductions whose results are dropped change nothing else
    """

    def __init__(
        self,
        parameters: ReducedParameters,
        gradient_accumulator: GradientAccumulator[int],
        send: Callable[[Sequence[int]], List[Transfer]],
        process_set: ProcessSet,
        class_name: str,
        may_discard: bool,
    ) -> None:
        self._class_name = class_name
        self._may_discard = may_discard
        self.sent: Dict[str, Optional[torch.Tensor]] = {}
        """The gradients in flight, by name."""
        self._steps_at_start = 0
        self.hooks: List[ParameterHook] = []
        self.is_active = False
        self.in_flight: List[Transfer] = []
        self._versions: Dict[int, int] = {}
        self._nested: Set[int] = set()
        """Parameters that backward passes within other backward passes have reached since the last step."""
        # A process set that is defined by a rule may include this process in a later generation.
        self.may_change = process_set.rule is not None and membership.is_elastic()
        self._parameters = parameters
        self._gradient_accumulator = gradient_accumulator
        self._send = send
        self.process_set = process_set

    def begin(self) -> None:
        """Installs the hooks: from now on gradients are reduced as they become due."""
        self.is_active = True
        several_optimizers.active.add(self)
        self._watch(range(len(self._parameters.tensors)))

    def end(self) -> None:
        """Removes the hooks: from now on no gradient is reduced."""
        self.abandon()
        for hook in self.hooks:
            hook.remove()
        self.hooks, self.is_active = [], False
        several_optimizers.active.discard(self)

    def __del__(self) -> None:
        several_optimizers.abandoned.extend(self.in_flight)

    def watch_thawed(self) -> None:
        """Installs hooks on parameters that required no gradient when they were added, but do now."""
        self._watch(self._parameters.thawed())

    def _watch(self, indices: Sequence[int]) -> None:
        for index in indices:
            self._gradient_accumulator.open(index)
            self.hooks.append(ParameterHook(self._parameters.tensors[index], self._call(_arrived, index)))

    def _call(self, function: Callable[[GradientReductions, int], None], index: int) -> Callable[..., None]:
        # The hooks hold a weak reference, so that parameters do not keep a dropped optimizer alive.
        reductions = weakref.ref(self)

        @untraced
        def called(*_: Any) -> None:
            alive = reductions()
            if alive is not None:
                function(alive, index)

        return called

    def _gradient_arriving(self, index: int) -> None:
        if self._gradient_accumulator.waits(index):
            return
        gradient = self._parameters.tensors[index].grad
        # Reading the values of a gradient is slow on a GPU, and is needed only if it has been written to.
        if gradient is None or (gradient._version != self._versions.get(index) and not _has_values(gradient)):
            self._gradient_accumulator.discard(index)

    def _gradient_arrived(self, index: int) -> None:
        if is_in_nested_pass():
            if self._gradient_accumulator.is_handed_out(index):
                raise AssertionError(
                    f"The parameter {self._parameters.names[index]} is used inside and outside of reentrant activation "
                    "checkpointing, and its gradient was being reduced when the checkpointed part added to it. Pass "
                    "use_reentrant=False to torch.utils.checkpoint.checkpoint()."
                )
            self._nested.add(index)
        if index in self._nested:
            return  # more may be added until the outer pass ends, so the reduction starts before the step
        try:
            due = self._gradient_accumulator.arrived(index)
        except AssertionError as problem:
            name = self._parameters.names[index]
            if not self.are_by_products:
                raise AssertionError(f"{problem} The parameter is {name}.") from None
            if self._parameters.tensors[index].grad is self.sent.get(name):
                raise AssertionError(
                    f"The gradient of {name} was reduced for {self.title} after a backward pass, then {Steps.title()} "
                    "has stepped, and now another pass adds to it. Call zero_grad() of the former before its own "
                    "passes, or requires_grad_(False) of its parameters during passes for the latter."
                ) from None
            self.discard()
            due = self._gradient_accumulator.arrived(index)
        if due:
            self._start(due)
        else:
            gradient = self._parameters.tensors[index].grad
            assert gradient is not None
            self._versions[index] = gradient._version
            # The gradient waits for more passes, or for others of its group, and the model may clear it before. The
            # parameter requires a gradient now; before its first pass it may have been frozen, and have no node in the
            # graph.
            if not self.hooks[index].is_called_before:
                self.hooks[index].call_before(self._call(_arriving, index))

    @untraced
    def start_overdue(self) -> None:
        """Starts the reductions of gradients that backward passes have not completed, because their parameters were
        unused or used in fewer passes."""
        self.watch_thawed()
        for due in self._gradient_accumulator.overdue():
            self._start(due)

    def _start(self, indices: Sequence[int]) -> None:
        if self.may_change and not self.process_set.included():
            return
        tensors = self._parameters.tensors
        # A frozen parameter without a new gradient is not reduced: one that is left from an earlier step is the mean
        # already.
        indices = [
            each for each in indices if tensors[each].requires_grad or not self._gradient_accumulator.waits(each)
        ]
        if not indices:
            return
        several_optimizers.wait_for_abandoned()
        for index in indices:
            name = self._parameters.names[index]
            several_optimizers.require_free_name(name, self)
            self.sent[name] = tensors[index].grad
        self._steps_at_start = Steps.count
        self.in_flight += self._send(indices)

    @property
    def title(self) -> str:
        """Describes the optimizer in errors."""
        names, tensors = self._parameters.names, self._parameters.tensors
        first = f", the first is {names[0]} of shape {list(tensors[0].shape)}" if names else ""
        return f"{self._class_name} ({len(names)} parameters{first})"

    def gradient_of(self, name: str) -> Optional[torch.Tensor]:
        """The gradient of the parameter of this name."""
        return self._parameters.tensors[self._parameters.names.index(name)].grad

    @property
    def are_by_products(self) -> bool:
        """Whether another optimizer has stepped since the last reduction began, so that the pass was meant for it."""
        return self._may_discard and bool(self.in_flight) and Steps.count > self._steps_at_start

    @untraced
    def discard(self) -> None:
        """Waits for the reductions in flight, and drops their results.

        The names change then: if a rank has no such reductions, its next ones must not be taken for those that
        follow here.
        """
        tensors = self._parameters.tensors
        try:
            # Other ranks may have begun these. A result would be written to this rank's gradient, which this pass may
            # have computed.
            for due in self._gradient_accumulator.overdue():
                own = [tensors[index].grad for index in due]
                for index in due:
                    tensors[index].grad = None
                self._start(due)
                for index, gradient in zip(due, own):
                    tensors[index].grad = gradient
            wait_for(self.in_flight)
        finally:
            self.give_up()  # Ctrl-C ends the wait, not the operations
        self._parameters.rename(self._parameters.other_suffix())

    @untraced
    def wait(self) -> None:
        """Waits for all started reductions, and writes their results to the gradients."""
        in_flight, self.in_flight = self.in_flight, []
        try:
            wait_for(in_flight)
        except (RuntimeError, ValueError):
            # All transfers have ended or are abandoned, so the next step counts its passes from zero.
            self.sent.clear()
            self._settle()
            raise
        except BaseException:
            self.in_flight = in_flight  # Ctrl-C ends the wait, not the operations
            raise
        sent = zip(self._parameters.tensors, map(self.sent.get, self._parameters.names))
        cleared = [parameter for parameter, gradient in sent if parameter.grad is None and gradient is not None]
        with torch.no_grad():
            for transfer in in_flight:
                transfer.put_back(transfer.call.finish())
        for parameter in cleared:  # after a pass for another optimizer: the result may be another tensor
            parameter.grad = None
        self.sent.clear()
        self._settle()

    @untraced
    def give_up(self) -> None:
        """Abandons the reductions in flight, and resets the count of backward passes."""
        several_optimizers.abandoned.extend(self.in_flight)
        self.in_flight = []
        self.sent.clear()
        self._settle()

    @untraced
    def abandon(self) -> None:
        """Like ``give_up``, after the reductions that other ranks may have begun have started here too. Theirs would
        otherwise be taken for the next ones of this rank."""
        if self.in_flight and self._may_discard:
            with contextlib.suppress(RuntimeError, ValueError):
                self.start_overdue()
        self.give_up()

    def _settle(self) -> None:
        self._nested.clear()
        self._gradient_accumulator.settle()

    def set_passes(self, passes: int) -> None:
        """Sets the number of backward passes after which a gradient is due, and resets the count."""
        self._gradient_accumulator.set_passes(passes)


_arrived = GradientReductions._gradient_arrived
_arriving = GradientReductions._gradient_arriving


def _has_values(gradient: torch.Tensor) -> bool:
    return gradient._nnz() > 0 if gradient.is_sparse else bool(gradient.any())
