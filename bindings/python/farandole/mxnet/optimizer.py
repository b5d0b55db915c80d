"""An MXNet optimizer whose gradients are averaged over all ranks first."""

from __future__ import annotations

import functools
from typing import Any, List, Optional, Tuple

import mxnet as mx

from farandole.common import process_sets
from farandole.common.arguments import require_process_set, shown
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.mxnet.gradients import Averager
from farandole.mxnet.stale_gradients import StaleGradients


class DistributedOptimizer(mx.optimizer.Optimizer):
    """Averages gradients over all ranks, then lets the optimizer that it wraps update.

    The collective averages, so ``rescale_grad`` keeps the value that the wrapped optimizer was made with. Assignments
    to it here have no effect, because ``gluon.Trainer`` assigns at each step: with ``gluon.Trainer`` and with
    ``Module``, make the optimizer with ``rescale_grad=1.0 / batch_size``. (``DistributedTrainer`` uses the batch size
    given to its ``step()``.) All other attributes are read from and assigned to the wrapped optimizer.

    If ``step()`` or ``update()`` of ``gluon.Trainer`` is called with ``ignore_stale_grad``, a parameter whose gradient
    is stale on all ranks is left out; where only some ranks have not used it, zeros stand for their gradients.

    :param optimizer: computes the update
    :param gradient_predivide_factor: part of the division that is done before the sum
    :param num_groups: gradients that are passed together are reduced in so many groups; 0: each on its own
    :param process_set: the ranks that take part; all ranks by default
    """

    def __init__(
        self,
        optimizer: mx.optimizer.Optimizer,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        if isinstance(optimizer, DistributedOptimizer):
            raise ValueError(
                "DistributedOptimizer was given an optimizer that is a DistributedOptimizer already; wrap each once"
            )
        if not isinstance(optimizer, mx.optimizer.Optimizer):
            raise TypeError(
                f"DistributedOptimizer takes an mxnet.optimizer.Optimizer, not {shown(optimizer)}; make one with "
                "mxnet.optimizer.create()"
            )
        require_process_set("DistributedOptimizer", None, process_set)
        # The base's constructor would make the state of an optimizer of its own.
        self._optimizer = optimizer
        self._averager = Averager(gradient_predivide_factor, num_groups, process_set)
        self._stale = StaleGradients("DistributedOptimizer.fresh", process_set)
        _let_ranks_agree(mx.gluon.Trainer)
        _keep_number(mx.optimizer.Updater)

    def __getattr__(self, item: str) -> Any:
        if item in _OWN:  # not there yet: the object is being made
            raise AttributeError(item)
        return getattr(self._optimizer, item)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            super().__setattr__(name, value)
        elif name != "rescale_grad":
            setattr(self._optimizer, name, value)

    def __reduce__(self) -> Tuple[Any, ...]:
        how = self._averager
        ranks = None if how.process_set is global_process_set else how.process_set.ranks
        return _wrapped_again, (self._optimizer, how.gradient_predivide_factor, how.num_groups, ranks)

    def create_state(self, index: Any, weight: Any) -> Any:
        """The wrapped optimizer's state for a parameter."""
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """The wrapped optimizer's state for a parameter, with a float32 copy of a float16 parameter."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Averages the gradient, or each of a list, and updates."""
        self._average(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Averages the gradient, or each of a list, and updates."""
        self._average(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr: float) -> None:
        """Sets the wrapped optimizer's."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Any) -> None:
        """Sets the wrapped optimizer's."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Any) -> None:
        """Sets the wrapped optimizer's."""
        self._optimizer.set_wd_mult(args_wd_mult)

    def _average(self, index: Any, gradient: Any) -> None:
        several = isinstance(index, (tuple, list))
        names = [str(each) for each in (index if several else [index])]
        self._averager.average(gradient if several else [gradient], names)


_OWN = ("_optimizer", "_averager", "_stale")


def _let_ranks_agree(trainer: Any) -> None:
    """Makes this class, ``gluon.Trainer``, ask all ranks which gradients are stale if it has a distributed optimizer.

    It passes the others to the optimizer, which waits until all ranks have passed the same. Users make the trainer of a
    ``DistributedOptimizer``, so a class of our own would not be used.
    """
    if getattr(trainer._update, "_farandole_agrees", False):
        return
    own = trainer._update

    @functools.wraps(own)
    def _update(self: Any, ignore_stale_grad: bool = False) -> None:
        optimizer = self._optimizer
        if not (ignore_stale_grad and isinstance(optimizer, DistributedOptimizer)):
            own(self, ignore_stale_grad)
            return
        optimizer._stale.agree(self._params)
        try:
            own(self, ignore_stale_grad)
        finally:
            optimizer._stale.end_step()

    _update._farandole_agrees = True  # type: ignore[attr-defined]
    trainer._update = _update


def _keep_number(updater: Any) -> None:
    """Makes this class, ``mxnet.optimizer.Updater``, keep the number of its optimizer's gradients when it loads another
    one: ``load_states()`` of a trainer does so, and perhaps only on some ranks."""
    if getattr(updater.set_states, "_farandole_keeps", False):
        return
    own = updater.set_states

    @functools.wraps(own)
    def set_states(self: Any, states: Any) -> None:
        before = self.optimizer
        own(self, states)
        if isinstance(before, DistributedOptimizer) and isinstance(self.optimizer, DistributedOptimizer):
            self.optimizer._averager.number = before._averager.number

    set_states._farandole_keeps = True  # type: ignore[attr-defined]
    updater.set_states = set_states


def _wrapped_again(
    optimizer: mx.optimizer.Optimizer, predivide: float, num_groups: int, ranks: Optional[List[int]]
) -> DistributedOptimizer:
    """Restores an optimizer saved by ``Trainer.save_states()``; its process set is the one with these ranks now."""
    if ranks is None:
        return DistributedOptimizer(optimizer, predivide, num_groups)
    return DistributedOptimizer(optimizer, predivide, num_groups, process_sets.with_ranks(ranks))
