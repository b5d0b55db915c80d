"""What Keras' callbacks do that keep an elastic state: they commit it, and count batches and epochs in it."""

from __future__ import annotations

from typing import Any, Dict, Optional

from farandole._keras.library import bring_home
from farandole.common.callbacks import Cadence, RestOfEpoch, epochs_done

Logs = Optional[Dict[str, Any]]


class Commits:
    """Commits an elastic state every few batches, and at the end of each epoch.

    :param state: what is committed
    :param batches_per_commit: how many
    """

    model: Any

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state = state
        self._cadence = Cadence(batches_per_commit)

    def on_train_begin(self, logs: Logs = None) -> None:
        """Counts anew."""
        self._cadence.restart()

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Commits if it is time."""
        if self._cadence.batch_ended():
            self._commit()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Commits."""
        self._cadence.restart()
        self._commit()

    def _commit(self) -> None:
        bring_home(self.model)
        self.state.commit()


class CountsBatches:
    """Keeps ``state.batch`` at the batch that was trained last; 0 between epochs.

    :param state: has an attribute ``batch``
    """

    params: Any

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._rest = RestOfEpoch()

    def on_train_begin(self, logs: Logs = None) -> None:
        """Looks at the number of batches anew."""
        self._rest.restart()

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """An epoch that was interrupted has fewer batches left."""
        steps = self._rest.steps(self.params.get("steps"), self.state.batch)
        if steps is not None:
            self.params["steps"] = steps

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Remembers it."""
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """The next epoch begins at its first batch."""
        self.state.batch = 0


class CountsEpochs:
    """Keeps ``state.epoch`` at the number of epochs that are done, those before this ``fit()`` included.

    :param state: has an attribute ``epoch``
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Logs = None) -> None:
        """Counts on from here."""
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Counts."""
        self.state.epoch = epochs_done(self.initial_epoch, epoch)
