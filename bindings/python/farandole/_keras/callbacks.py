"""The callbacks of the public interface, as classes that derive from the ``Callback`` of a given Keras."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

from farandole._keras import variables
from farandole._keras.elastic_callbacks import Commits, CountsBatches, CountsEpochs
from farandole._keras.library import all_variables_of, bring_home
from farandole._keras.rate_callbacks import SchedulesRate, WarmsUp
from farandole.common.basics import HorovodBasics
from farandole.common.callbacks import average_logs
from farandole.common.parameters import broadcast_named

_basics = HorovodBasics(__file__, "mpi_lib_v2")

Logs = Optional[Dict[str, Any]]


def _is_variable(thing: Any) -> bool:
    return hasattr(thing, "assign") and hasattr(thing, "shape")


class Broadcasts:
    """Broadcasts the variables of one rank's model and optimizer to all ranks at the end of the first batch, when all
    variables exist.

    :param root_rank: the global rank whose variables are sent
    :param device: accepted for older scripts
    :param local_variables: a list of variables that are not broadcast
    """

    model: Any
    shares_random_state = False
    """Whether generators of random numbers (dropout, augmentation) get the root's state, too. By default each rank
    keeps its own, so that it does not drop the same units as others."""

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
        """Excludes this variable from the broadcast."""
        if not _is_variable(var):
            raise ValueError(f"a local variable must be a variable, not {type(var).__name__}")
        self._local.append(var)

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Broadcasts at the end of the first batch; does nothing afterwards."""
        if self.broadcast_done:
            return
        bring_home(self.model)
        shared = [*self.model.variables, *all_variables_of(self.model.optimizer)]
        seen: Dict[int, Any] = {id(each): each for each in shared}
        chosen = [each for each in seen.values() if not self._is_kept(each)]
        named = [(f"keras.variables.{number}", each) for number, each in enumerate(chosen)]
        broadcast_named(variables, named, self.root_rank)
        self.broadcast_done = True

    def _is_kept(self, variable: Any) -> bool:
        if not self.shares_random_state and variables.is_random_state(variable):
            return True
        return any(variable is local for local in self._local)


class AveragesMetrics:
    """Averages the logged metrics over all ranks at the end of each epoch. Put it before callbacks that read them.

    :param device: accepted for older scripts
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()
        self.device = device

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Averages ``logs`` in place."""
        if logs and _basics.size() > 1:
            average_logs(logs)


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
    """A path to pass to Keras, which requires one; the user of the callback sets ``filepath`` later."""
    return "best.weights.h5" if save_weights_only else "best.keras"


@functools.cache
def made_for(keras: Any) -> SimpleNamespace:
    """The callbacks as classes of this Keras. The classes are cached: each is made once for each Keras."""
    base = keras.callbacks.Callback
    made = SimpleNamespace()
    for name, role in _ROLES.items():
        members = {"__doc__": role.__doc__, "__module__": "farandole.keras.callbacks"}
        setattr(made, name, type(name, (role, base), members))

    class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
        """Saves the best model so far to ``filepath``, an attribute that the user sets after construction.

        :param monitor: the metric that decides which model is the best
        :param verbose: whether each save is reported
        :param mode: ``min``, ``max``, or ``auto``: derived from the name of the metric
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
    """The same callbacks, except that ``BestModelCheckpoint`` also takes ``save_weights_only``."""
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
