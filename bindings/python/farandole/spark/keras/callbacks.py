"""The callbacks of a fit: those of the user on each rank, and that which writes checkpoints on rank 0."""

from __future__ import annotations

from typing import Any, Dict, Optional

from farandole.spark.common.plan import Plan
from farandole.spark.keras.checkpoints import CheckpointFiles
from farandole.spark.keras.rates import ScaledRate


class Callbacks:
    """Calls the callbacks as ``Model.fit`` does.

    :param keras: the Keras of the model
    :param rate: the learning rate, which is that of a single process while a checkpoint is written
    :param writes: whether this rank writes checkpoints
    :param folder: a local folder that is copied to the store; None if the store keeps no runs
    """

    def __init__(
        self, keras: Any, plan: Plan, model: Any, rate: ScaledRate, writes: bool, folder: Optional[str]
    ) -> None:
        options = {"model": model, "epochs": plan.last_epoch, "steps": plan.train_steps_per_epoch, "verbose": 0}
        make = keras.callbacks.CallbackList
        self._model = model
        self._rate = rate
        self._custom_objects: Optional[Dict[str, Any]] = plan.custom_objects
        self._given = make(list(plan.callbacks), add_history=True, add_progbar=False, **options)
        self._writers: Any = None
        if writes and plan.checkpoint_callback is not None:
            self._files = CheckpointFiles(keras, plan.checkpoint_callback, folder)
            self._writers = make([plan.checkpoint_callback], **options)
        model.stop_training = False

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a method of all callbacks."""
        getattr(self._given, name)(*arguments)
        if self._writers is not None:
            with self._rate.unscaled():
                getattr(self._writers, name)(*arguments)

    def load_best(self) -> None:
        """Gives the model the weights of the best epoch, if a callback has saved the best one only."""
        if self._writers is not None:
            self._files.load_best(self._model, self._custom_objects)
