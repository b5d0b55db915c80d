"""The commits of elastic trainings: what follows the last one is done once, and nothing is left out."""

from __future__ import annotations

from typing import Any, List, Tuple

import horovod.lightning
import pytest
import torch
from farandole.common import membership
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from trained_module import BATCH, SAMPLES, loader, module, trainer


def test_a_trainer_that_has_been_fitted_is_as_it_was_before(pl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "is_elastic", lambda: True)
    state = horovod.lightning.LightningState()
    if not isinstance(state.commit_every(1), pl.Callback):
        pytest.skip("both packages are imported, and the callback is one of the other")

    class Interrupts(pl.Callback):  # type: ignore[misc]
        def on_train_epoch_end(self, fitted: Any, *_: Any) -> None:
            if fitted.current_epoch == 0:
                state.save()
                raise HostsUpdatedInterrupt(False)

    fitted = trainer(pl, callbacks=[state.commit_every(100), Interrupts()])

    def patched() -> List[Any]:
        return [fitted.fit_loop.epoch_loop.advance, fitted._signal_connector.register_signal_handlers]

    before = patched()
    with pytest.raises(HostsUpdatedInterrupt):
        state.fit(fitted, module(pl), loader())
    assert patched() == before
    state.fit(fitted, module(pl), loader())
    assert patched() == before


def test_commits_come_after_steps_only(pl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    state = horovod.lightning.LightningState()
    if not isinstance(state.commit_every(1), pl.Callback):
        pytest.skip("both packages are imported, and the callback is one of the other")
    fitted = trainer(pl, limit_train_batches=4, accumulate_grad_batches=2, callbacks=[state.commit_every(1)])
    committed: List[int] = []
    monkeypatch.setattr(state, "commit", lambda: committed.append(fitted.fit_loop.total_batch_idx + 1))
    fitted.fit(module(pl), loader(batch=2))
    assert committed == [2, 4, 6]


def test_a_training_that_fails_before_its_first_commit_begins_anew(pl: Any) -> None:
    class Fails(pl.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, fitted: Any, *_: Any) -> None:
            if fitted.global_step == 3:
                raise HorovodInternalError("a deliberate failure")

    state = horovod.lightning.LightningState()
    callback = state.commit_every(100)
    if not isinstance(callback, pl.Callback):
        pytest.skip("both packages are imported, and the callback is one of the other")
    trainer(pl).fit(expected := module(pl), loader())
    model = module(pl)
    with pytest.raises(HorovodInternalError):
        state.fit(trainer(pl, callbacks=[callback, Fails()]), model, loader())
    state.restore()
    state.fit(trainer(pl, callbacks=[callback]), model, loader())
    torch.testing.assert_close(model.state_dict(), expected.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("committed", [3, 5])
def test_an_interrupted_epoch_that_has_become_too_short_ends_after_one_more_batch(
    pl: Any, size: int, committed: int
) -> None:
    class Model(type(module(pl))):  # type: ignore[misc]
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.2)
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            by_epoch = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            return [optimizer], [by_epoch, {"scheduler": plateau, "monitor": "loss"}]

    state = horovod.lightning.LightningState()
    validated: List[int] = []

    class Records(pl.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, fitted: Any, *_: Any) -> None:
            if fitted.global_step == committed and state.checkpoint is None:
                state.save()
                raise HostsUpdatedInterrupt(False)

        def on_validation_end(self, fitted: Any, *_: Any) -> None:
            validated.append(fitted.global_step)

    options = {"callbacks": [Records()], "num_sanity_val_steps": 0}
    with pytest.raises(HostsUpdatedInterrupt):
        state.fit(trainer(pl, **options), Model(), loader(), loader())
    fitted = trainer(pl, **options)
    state.fit(fitted, Model(), loader(SAMPLES // size // 3), loader())
    assert validated == [committed + 1, committed + 1 + 3] and fitted.global_step == validated[-1]
    assert fitted.current_epoch == 2
    assert [each.scheduler.last_epoch for each in fitted.lr_scheduler_configs] == [2, 2]


@pytest.mark.parametrize("end", ["max_epochs", "max_steps"])
def test_a_trainer_that_goes_on_from_a_commit_repeats_and_leaves_out_nothing(
    pl: Any, size: int, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    batches = SAMPLES // BATCH // size
    seen: List[Tuple[str, int]] = []

    class Model(type(module(pl))):  # type: ignore[misc]
        def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
            loss = super().training_step(batch, index)
            self.log("now", loss)
            return loss

        def on_train_epoch_end(self) -> None:
            seen.append(("module's epoch", self.trainer.global_step))

        def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
            seen.append((f"{type(scheduler).__name__} {scheduler.last_epoch}", self.trainer.global_step))
            super().lr_scheduler_step(scheduler, metric)

        def configure_optimizers(self) -> Any:
            (optimizer,), schedulers = super().configure_optimizers()
            for interval, value in (("epoch", "val"), ("step", "now")):
                plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
                schedulers.append({"scheduler": plateau, "monitor": value, "interval": interval})
            return [optimizer], schedulers

    class Records(pl.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, fitted: Any, *_: Any) -> None:
            seen.append(("batch", fitted.global_step))

        def on_validation_end(self, fitted: Any, *_: Any) -> None:
            seen.append(("validation", fitted.global_step))

        def on_train_epoch_end(self, fitted: Any, *_: Any) -> None:
            seen.append(("epoch", fitted.global_step))

    def fit(state: Any) -> Any:
        callbacks = [state.commit_every(batches // 2), Records()]
        if not isinstance(callbacks[0], pl.Callback):
            pytest.skip("both packages are imported, and the callback is one of the other")
        length = {"max_epochs": 2} if end == "max_epochs" else {"max_epochs": -1, "max_steps": 2 * batches}
        fitted = trainer(pl, callbacks=callbacks, val_check_interval=0.5, num_sanity_val_steps=0, **length)
        state.fit(fitted, Model(), loader(), loader())
        return fitted

    def commit() -> None:
        state.save()
        raise HostsUpdatedInterrupt(False)

    whole = fit(horovod.lightning.LightningState())
    expected = seen[:]
    seen.clear()
    state = horovod.lightning.LightningState()
    with monkeypatch.context() as patch:
        patch.setattr(state, "commit", commit)
        for _ in range(3):
            with pytest.raises(HostsUpdatedInterrupt):
                fit(state)
    fitted = fit(state)
    assert seen == expected
    assert (fitted.global_step, fitted.current_epoch) == (whole.global_step, whole.current_epoch) == (2 * batches, 2)
    assert fit(state).global_step == 2 * batches and seen == expected, "the result was not kept"
