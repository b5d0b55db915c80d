"""Decides when the gradients of an optimizer are reduced: each as soon as it is due, and all before a step."""

from __future__ import annotations

import weakref
from typing import Any, Callable, List, Sequence

import torch

from farandole.common import membership
from farandole.common.gradient_accumulator import GradientAccumulator
from farandole.common.process_sets import ProcessSet
from farandole.torch.gradient_transfers import Transfer, wait_for
from farandole.torch.parameter_hook import ParameterHook
from farandole.torch.reduced_parameters import ReducedParameters


class GradientReductions:
    """The reductions of one optimizer's gradients, from the hooks on its parameters to the reduced gradients.

    :param gradient_accumulator: decides which gradients are due
    :param send: starts the transfers of the gradients with the given indices
    """

    def __init__(
        self,
        parameters: ReducedParameters,
        gradient_accumulator: GradientAccumulator[int],
        send: Callable[[Sequence[int]], List[Transfer]],
        process_set: ProcessSet,
    ) -> None:
        self.hooks: List[ParameterHook] = []
        self.is_active = False
        self.in_flight: List[Transfer] = []
        # A process set that is defined by a rule may include this process in a later generation.
        self.may_change = process_set.rule is not None and membership.is_elastic()
        self._parameters = parameters
        self._gradient_accumulator = gradient_accumulator
        self._send = send
        self._process_set = process_set

    def begin(self) -> None:
        """Installs the hooks: from now on gradients are reduced as they become due."""
        self.is_active = True
        self._watch(range(len(self._parameters.tensors)))

    def end(self) -> None:
        """Removes the hooks: from now on no gradient is reduced."""
        for hook in self.hooks:
            hook.remove()
        self.hooks, self.in_flight, self.is_active = [], [], False

    def watch_thawed(self) -> None:
        """Installs hooks on parameters that required no gradient when they were added, but do now."""
        self._watch(self._parameters.thawed())

    def _watch(self, indices: Sequence[int]) -> None:
        for index in indices:
            self._gradient_accumulator.open(index)
            self.hooks.append(ParameterHook(self._parameters.tensors[index], self._arrival_of(index)))

    def _arrival_of(self, index: int) -> Callable[..., None]:
        # The hooks hold a weak reference, so that parameters do not keep a dropped optimizer alive.
        reductions = weakref.ref(self)

        def arrived(*_: Any) -> None:
            alive = reductions()
            if alive is not None:
                alive._gradient_arrived(index)

        return arrived

    def _gradient_arrived(self, index: int) -> None:
        try:
            due = self._gradient_accumulator.arrived(index)
        except AssertionError as problem:
            raise AssertionError(f"{problem} The parameter is {self._parameters.names[index]}.") from None
        if due:
            self._start(due)

    def start_overdue(self) -> None:
        """Starts the reductions of gradients that backward passes have not completed, because their parameters were
        unused or used in fewer passes."""
        self.watch_thawed()
        for due in self._gradient_accumulator.overdue():
            self._start(due)

    def _start(self, indices: Sequence[int]) -> None:
        if self.may_change and not self._process_set.included():
            return
        tensors = self._parameters.tensors
        # A frozen parameter without a new gradient is not reduced: with a gradient of zeros, weight decay and
        # momentum would change it in the step.
        indices = [
            each for each in indices if tensors[each].requires_grad or not self._gradient_accumulator.waits(each)
        ]
        if not indices:
            return
        for index in indices:
            if tensors[index].grad is None:
                tensors[index].grad = torch.zeros_like(tensors[index])
        self.in_flight += self._send(indices)

    def wait(self) -> None:
        """Waits for all started reductions, and writes their results to the gradients."""
        in_flight, self.in_flight = self.in_flight, []
        try:
            wait_for(in_flight)
        except (RuntimeError, ValueError):
            # All transfers have ended or are abandoned, so the next step counts its passes from zero.
            self._gradient_accumulator.settle()
            raise
        except BaseException:
            self.in_flight = in_flight  # Ctrl-C ends the wait, not the operations
            raise
        with torch.no_grad():
            for transfer in in_flight:
                transfer.put_back(transfer.call.finish())
        self._gradient_accumulator.settle()

    def give_up(self) -> None:
        """Abandons the reductions in flight, and resets the count of backward passes."""
        self.in_flight = []
        self._gradient_accumulator.settle()

    def set_passes(self, passes: int) -> None:
        """Sets the number of backward passes after which a gradient is due, and resets the count."""
        self._gradient_accumulator.set_passes(passes)
