"""Keras' callbacks, made for whichever Keras there is."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

from farandole._keras import variables
from farandole._keras.library import bring_home, variables_of
from farandole.common.basics import HorovodBasics
from farandole.common.callbacks import Cadence, RestOfEpoch, Schedule, average_logs, epochs_done, warmup
from farandole.common.parameters import broadcast_named

_basics = HorovodBasics(__file__, "mpi_lib_v2")

Logs = Optional[Dict[str, Any]]


def _is_variable(thing: Any) -> bool:
    return hasattr(thing, "assign") and hasattr(thing, "shape")


class Broadcasts:
    """Gives one rank's model and optimizer to all, at the end of the first batch, when all variables are there.

    :param root_rank: the global rank whose variables all receive
    :param device: accepted for older scripts
    :param local_variables: a list of variables that stay as they are
    """

    model: Any

    def __init__(self, root_rank: int, device: str = "", local_variables: Optional[List[Any]] = None) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self._local: List[Any] = []
        if local_variables is not None and not isinstance(local_variables, (list, tuple)):
            raise ValueError(f"local_variables must be a list of variables, not {type(local_variables).__name__}")
        for each in local_variables or []:
            self.register_local_var(each)
        self.broadcast_done = False

    def register_local_var(self, var: Any) -> None:
        """This variable stays as it is."""
        if not _is_variable(var):
            raise ValueError(f"a local variable must be a variable, not {type(var).__name__}")
        self._local.append(var)

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Of the first batch: broadcasts."""
        if self.broadcast_done:
            return
        bring_home(self.model)
        shared = [*self.model.variables, *variables_of(self.model.optimizer)]
        seen: Dict[int, Any] = {id(each): each for each in shared}
        chosen = [each for key, each in seen.items() if not any(each is local for local in self._local)]
        named = [(f"keras.variables.{number}", each) for number, each in enumerate(chosen)]
        broadcast_named(variables, named, self.root_rank)
        self.broadcast_done = True


class AveragesMetrics:
    """Averages what is logged over all ranks at the end of each epoch; put it before callbacks that look at it.

    :param device: accepted for older scripts
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()
        self.device = device

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Averages, in place."""
        if logs and _basics.size() > 1:
            average_logs(logs)


class SchedulesRate:
    """Multiplies the initial learning rate by a function of the epoch.

    :param initial_lr: what is multiplied
    :param multiplier: a function of the epoch, or a number whose power is taken
    :param start_epoch: the first epoch in which the rate is changed
    :param end_epoch: the first epoch in which it no longer is; None: there is none
    :param staircase: change at the beginning of epochs only; otherwise before every batch
    :param momentum_correction: scale the momentum by new over old for the batch in which the rate changes, where the
        optimizer has a momentum that can be changed while it trains
    :param steps_per_epoch: batches; found out if it is not given and Keras knows
    """

    model: Any
    params: Any

    def __init__(
        self,
        initial_lr: Optional[float],
        multiplier: Any,
        start_epoch: int = 0,
        end_epoch: Optional[int] = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
    ) -> None:
        super().__init__()
        self.schedule = Schedule(
            initial_lr, multiplier, start_epoch, end_epoch, staircase, momentum_correction, steps_per_epoch
        )
        self.current_epoch = 0
        self._momentum: Any = None

    def on_train_begin(self, logs: Logs = None) -> None:
        """Finds out how many batches an epoch has."""
        if not self.schedule.steps_per_epoch:
            self.schedule.steps_per_epoch = (self.params or {}).get("steps")

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Remembers it."""
        self.current_epoch = epoch

    def on_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Changes the rate if it is time."""
        if batch and self.schedule.is_staircase:
            return
        optimizer = self.model.optimizer
        bring_home(self.model)
        change = self.schedule.at(self.current_epoch, batch, _number(optimizer.learning_rate))
        if change is None:
            return
        _assign(optimizer, "learning_rate", change.learning_rate)
        if self.schedule.corrects_momentum and getattr(optimizer, "momentum", None) is not None:
            self._momentum = _number(optimizer.momentum)
            _assign(optimizer, "momentum", self._momentum * change.momentum_factor)

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Puts the momentum back."""
        if self._momentum is not None:
            bring_home(self.model)
            _assign(self.model.optimizer, "momentum", self._momentum)
            self._momentum = None

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Logs the rate as ``lr``."""
        if logs is not None:
            bring_home(self.model)
            logs["lr"] = _number(self.model.optimizer.learning_rate)


def _number(value: Any) -> float:
    return float(value.numpy() if hasattr(value, "numpy") else value)


def _assign(optimizer: Any, name: str, value: float) -> None:
    current = getattr(optimizer, name)
    if hasattr(current, "assign"):
        current.assign(value)
    else:
        setattr(optimizer, name, value)


class WarmsUp(SchedulesRate):
    """Raises the learning rate from a ``size()``-th of the initial one to all of it over the first epochs.

    :param initial_lr: the rate after the warm-up: that of one rank, times ``size()``
    :param warmup_epochs: how many epochs that takes
    :param momentum_correction: as in ``LearningRateScheduleCallback``
    :param steps_per_epoch: batches; found out if it is not given and Keras knows
    :param verbose: whether rank 0 says when it is done
    """

    def __init__(
        self,
        initial_lr: Optional[float],
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            return warmup(_basics.size(), warmup_epochs, lambda: self.schedule.steps_per_epoch or 1)(epoch)

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)  # type: ignore[arg-type]
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Says that the warm-up is done."""
        super().on_epoch_end(epoch, logs)
        if epoch == self.schedule.end_epoch - 1 and self.verbose > 0 and _basics.rank() == 0:  # type: ignore[operator]
            rate = _number(self.model.optimizer.learning_rate)
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.", flush=True)


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


_ROLES = {
    "BroadcastGlobalVariablesCallback": Broadcasts,
    "MetricAverageCallback": AveragesMetrics,
    "LearningRateScheduleCallback": SchedulesRate,
    "LearningRateWarmupCallback": WarmsUp,
    "CommitStateCallback": Commits,
    "UpdateBatchStateCallback": CountsBatches,
    "UpdateEpochStateCallback": CountsEpochs,
}


def _placeholder(save_weights_only: bool) -> str:
    """Keras insists on a path; who uses the callback says which later."""
    return "best.weights.h5" if save_weights_only else "best.keras"


@functools.cache
def made_for(keras: Any) -> SimpleNamespace:
    """The callbacks as classes of this Keras, each once."""
    base = keras.callbacks.Callback
    made = SimpleNamespace()
    for name, role in _ROLES.items():
        members = {"__doc__": role.__doc__, "__module__": "farandole.keras.callbacks"}
        setattr(made, name, type(name, (role, base), members))

    class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
        """Saves the best model so far to ``filepath``, which is set by who uses it.

        :param monitor: what tells which is the best
        :param verbose: whether it says so
        :param mode: ``min``, ``max``, or ``auto``: guessed by the name
        :param save_freq: ``epoch``, or a number of batches
        """

        def __init__(
            self, monitor: str = "val_loss", verbose: int = 0, mode: str = "auto", save_freq: Any = "epoch"
        ) -> None:
            self._prepare(monitor, verbose, False, mode, save_freq)

        def _prepare(self, monitor: str, verbose: int, save_weights_only: bool, mode: str, save_freq: Any) -> None:
            super().__init__(
                _placeholder(save_weights_only),
                monitor=monitor,
                verbose=verbose,
                save_best_only=True,
                save_weights_only=save_weights_only,
                mode=mode,
                save_freq=save_freq,
            )
            self.filepath = None

    made.BestModelCheckpoint = BestModelCheckpoint
    return made


def made_for_tensorflow(keras: Any) -> SimpleNamespace:
    """The same, but for a best model whose weights alone may be saved."""
    made = made_for(keras)

    class BestModelCheckpoint(made.BestModelCheckpoint):  # type: ignore[name-defined]
        __doc__ = made.BestModelCheckpoint.__doc__

        def __init__(
            self,
            monitor: str = "val_loss",
            verbose: int = 0,
            save_weights_only: bool = False,
            mode: str = "auto",
            save_freq: Any = "epoch",
        ) -> None:
            self._prepare(monitor, verbose, save_weights_only, mode, save_freq)

    return SimpleNamespace(**{**vars(made), "BestModelCheckpoint": BestModelCheckpoint})
