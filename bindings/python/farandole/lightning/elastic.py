"""Elastic training with Lightning: a trainer's whole state, kept in memory, with which the next trainer goes on.

    state = LightningState()

    @hvd.elastic.run
    def train(state):
        trainer = Trainer(strategy="farandole", callbacks=[state.commit_every(10)], ...)
        state.fit(trainer, model, loader)

    train(state)

A trainer is bound to the members that it was made for, so a new one is made after each change; it takes up the model,
optimizers, schedulers, loops and callbacks where they were committed last.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import os
from typing import Any, Callable, Iterator, Optional

import torch

import farandole.torch as hvd
from farandole.common import membership
from farandole.common.elastic import ObjectState


class LightningState(ObjectState):
    """State for ``hvd.elastic.run``; keywords become attributes, saved and synchronised beside the trainer's state."""

    def __init__(self, **kwargs: Any) -> None:
        self._trainer: Any = None
        super().__init__(hvd.broadcast_object, hvd.rank, checkpoint=None, **kwargs)

    checkpoint: Optional[bytes]
    """The trainer's state as of the last commit, as ``Trainer.save_checkpoint`` would write it; None before."""

    def save(self) -> None:
        """Keeps the trainer's state and the attributes."""
        self._wait_for_devices()
        if self._trainer is not None:
            content = io.BytesIO()
            torch.save(self._trainer._checkpoint_connector.dump_checkpoint(), content)
            self.checkpoint = content.getvalue()
        super().save()

    def fit(self, trainer: Any, model: Any, *args: Any, **kwargs: Any) -> None:
        """``trainer.fit(model, …)`` from the last commit on, on all ranks that are members now."""
        self._trainer = trainer
        connector = trainer._signal_connector
        register_signal_handlers = connector.register_signal_handlers
        if membership.is_elastic():  # Lightning's handler of SIGTERM would end this member before it leaves at a commit
            connector.register_signal_handlers = lambda: None
        try:
            with _in_memory(self.checkpoint) as path:
                if path is not None and "weights_only" in inspect.signature(trainer.fit).parameters:  # from 2.6 on
                    kwargs.setdefault("weights_only", False)  # our own, and it holds more than weights
                trainer.fit(model, *args, ckpt_path=path, **kwargs)
        finally:
            connector.register_signal_handlers = register_signal_handlers
            self._trainer = None

    def commit_every(self, batches: int) -> Any:
        """A callback for the trainer that commits after each so many batches, and after the validation or the end of an
        epoch that follows them; members join and leave there. Batches whose gradients are accumulated count as one.

        :param batches: at least 1
        """
        if batches < 1:
            raise ValueError(f"a commit after every {batches} batches: it must be 1 at least")
        from farandole.lightning.registration import base_callback

        return _commits(base_callback())(self, batches)


@contextlib.contextmanager
def _in_memory(content: Optional[bytes]) -> Iterator[Optional[str]]:
    """The path of a file that nothing is left of when this process ends, however it does; None without content."""
    if content is None:
        yield None
        return
    descriptor = os.memfd_create("farandole commit")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _commits(base: Any) -> Any:
    class CommitEvery(base):
        """Commits an elastic state after so many batches."""

        def __init__(self, state: LightningState, batches: int) -> None:
            self._state = state
            self._batches = batches
            self._step_before = 0
            self._is_due = False

        def on_train_start(self, trainer: Any, *_: Any) -> None:
            """Keeps the state with which the training begins, for a failure before the first commit. Makes commits
            happen just before the next batch is read: by then, all that follows the last batch is over, such as a
            validation or the end of its epoch."""
            if self._state.checkpoint is None:
                self._state.save()
            loop = trainer.fit_loop.epoch_loop
            progress = loop.batch_progress
            is_between = progress.current.ready == progress.current.completed and not progress.is_last_batch
            loop.advance = functools.partial(self._commit_and_advance, loop, loop.advance, is_between)

        def on_train_end(self, trainer: Any, *_: Any) -> None:
            """Leaves the trainer's loop as it was."""
            vars(trainer.fit_loop.epoch_loop).pop("advance", None)

        on_exception = on_train_end

        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            """Remembers the step, so that it is known whether the batch takes another one."""
            self._step_before = trainer.global_step

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            """Finds out whether a commit is due."""
            step = trainer.global_step
            self._is_due = step != self._step_before and step % self._batches == 0  # no gradients are left over

        def on_fit_end(self, *_: Any) -> None:
            """Keeps the result."""
            if self._is_due:
                self._state.save()

        def _commit_and_advance(self, loop: Any, advance: Callable[[Any], None], is_between: bool, data: Any) -> None:
            """Commits if that is due, and trains the next batch."""
            if self._is_due:
                self._is_due = False
                self._state.commit()
            if is_between:
                loop.restarting = False  # Lightning would validate after the last batch again
            advance(data)

    return CommitEvery
