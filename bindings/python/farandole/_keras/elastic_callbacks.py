"""The Keras callbacks that maintain an elastic state: they commit it, and record batch and epoch numbers in it."""

from __future__ import annotations

from typing import Any, Dict, Optional

from farandole._keras.library import bring_home
from farandole.common.callbacks import Cadence, RestOfEpoch, epochs_done

Logs = Optional[Dict[str, Any]]


class Commits:
    """Commits an elastic state every few batches, and at the end of each epoch.

    :param state: the state to commit
    :param batches_per_commit: the number of batches between two commits
    """

    model: Any

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state = state
        self._cadence = Cadence(batches_per_commit)

    def on_train_begin(self, logs: Logs = None) -> None:
        """Restarts the count of batches."""
        self._cadence.restart()

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Commits if ``batches_per_commit`` batches have ended since the last commit."""
        if self._cadence.batch_ended():
            self._commit()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Commits, and restarts the count of batches."""
        self._cadence.restart()
        self._commit()

    def _commit(self) -> None:
        bring_home(self.model)
        self.state.commit()


class CountsBatches:
    """Records in ``state.batch`` the number of the batch that was trained last, and 0 between epochs.

    :param state: has an attribute ``batch``
    """

    params: Any

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._rest = RestOfEpoch()

    def on_train_begin(self, logs: Logs = None) -> None:
        """Forgets the number of batches in an epoch: this ``fit()`` may have another one."""
        self._rest.restart()

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Subtracts the batches that an interrupted epoch has already trained from its number of steps."""
        steps = self._rest.steps(self.params.get("steps"), self.state.batch)
        if steps is not None:
            self.params["steps"] = steps

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Records the batch."""
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Resets the batch: the next epoch begins at its first one."""
        self.state.batch = 0


class CountsEpochs:
    """Records in ``state.epoch`` the number of finished epochs, including those before this ``fit()``.

    :param state: has an attribute ``epoch``
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Logs = None) -> None:
        """Remembers the number of epochs that were finished before this ``fit()``."""
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Records one more finished epoch."""
        self.state.epoch = epochs_done(self.initial_epoch, epoch)
