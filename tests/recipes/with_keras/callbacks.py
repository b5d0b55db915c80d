"""The callbacks of recipes that change the rate, and the one that records a training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict

from with_keras.recipe import Recipe
from with_keras.versions import hvd, keras

if TYPE_CHECKING:
    from with_keras.training import Training

made = hvd.callbacks
RATES: Dict[str, Callable[[float], Any]] = {
    "warmup": lambda rate: made.LearningRateWarmupCallback(rate, warmup_epochs=2),
    "staircase": lambda rate: made.LearningRateScheduleCallback(rate, lambda epoch: 0.6**epoch),
    "smooth": lambda rate: made.LearningRateScheduleCallback(rate, lambda epoch: 1 / (1 + epoch), staircase=False),
    "number": lambda rate: made.LearningRateScheduleCallback(rate, 0.5, start_epoch=1, momentum_correction=False),
    "keras": lambda rate: keras.callbacks.LearningRateScheduler(lambda epoch, before: 0.7 * before),
    "plateau": lambda rate: keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=0.5),
}
SMOOTH = ("warmup", "smooth")
"""They change the rate before every batch."""


class Records(keras.callbacks.Callback):
    """Records the state after every step, and the logs after every epoch."""

    def __init__(self, training: Training) -> None:
        super().__init__()
        self.training = training

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.training.begin_batch(batch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (batch + 1) % self.training.seat.passes(self.training.recipe) == 0:
            self.training.end_step()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.training.record_logs(logs or {})


def rate_callbacks(recipe: Recipe, rate: float) -> list[Any]:
    return [RATES[recipe.callback](rate)] if recipe.callback else []
