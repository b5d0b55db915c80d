"""The optimizers of this process whose gradients are reduced, for jobs that have several, such as those of a GAN.

A backward pass that is meant for one optimizer also reaches parameters of another one. The reductions that it starts
there are by-products: no step uses their results.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Callable, List, Optional

from farandole.torch.gradient_transfers import Transfer, wait_for

if TYPE_CHECKING:
    from farandole.torch.gradient_reductions import GradientReductions

active: weakref.WeakSet[GradientReductions] = weakref.WeakSet()
abandoned: List[Transfer] = []
"""Reductions whose results no optimizer will use: it let go of its parameters, was given another state, or is gone."""


def wait_for_abandoned() -> None:
    """Waits for these reductions. Until they end they write to gradients, and their names are in use."""
    if abandoned:
        waited = list(abandoned)  # all together: ranks may have begun them in different orders
        with contextlib.suppress(RuntimeError, ValueError):
            wait_for(waited)
        del abandoned[: len(waited)]


class Steps:
    """The steps and synchronizations of optimizers of this process: their number, and the optimizer of the last."""

    count = 0
    last: Callable[[], Optional[GradientReductions]] = staticmethod(lambda: None)

    @classmethod
    def add(cls, own: GradientReductions) -> None:
        """Records a step, or a synchronization before it."""
        cls.count += 1
        cls.last = weakref.ref(own)

    @classmethod
    def title(cls) -> str:
        """Describes the optimizer of the last one."""
        last = cls.last()
        return "another optimizer" if last is None else last.title


def require_free_name(name: str, own: GradientReductions) -> None:
    """``ValueError`` if another optimizer is reducing a gradient of this name in the same process set."""
    if len(active) < 2:
        return
    for other in active:
        if other is own or name not in other.sent or other.process_set.process_set_id != own.process_set.process_set_id:
            continue
        gradient = own.gradient_of(name)
        if gradient is not None and other.sent[name] is gradient:
            raise ValueError(
                f"two distributed optimizers, {own.title} and {other.title}, reduce the gradient of {name}; make "
                "one of them, with two parameter groups, or call let_go() of the one that is not used any more"
            )
        raise ValueError(
            f"two distributed optimizers, {own.title} and {other.title}, have different parameters of the name {name}; "
            "pass named_parameters with names of its own to each, such as (f'generator.{name}', parameter)"
        )
