# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.
from typing import Any, List, Optional

class BestModelCheckpoint(Any):
    """Saves the best model so far to ``filepath``, an attribute that the user sets after construction.

    :param monitor: the metric that decides which model is the best
    :param verbose: whether each save is reported
    :param mode: ``min``, ``max``, or ``auto``: derived from the name of the metric
    :param save_freq: ``epoch``, or a number of batches
    """
    def __init__(self, monitor: str = ..., verbose: int = ..., mode: str = ..., save_freq: Any = ...) -> None: ...

class BroadcastGlobalVariablesCallback(Any):
    """Broadcasts the variables of one rank's model and optimizer to all ranks at the end of the first batch, when all
    variables exist.

    :param root_rank: the global rank whose variables are sent
    :param device: accepted for older scripts
    :param local_variables: a list of variables that are not broadcast
    """
    def __init__(self, root_rank: int, device: str = ..., local_variables: Optional[List[Any]] = ...) -> None: ...

class LearningRateScheduleCallback(Any):
    """Multiplies the initial learning rate by a function of the epoch.

    :param initial_lr: the rate that is multiplied
    :param multiplier: a function of the epoch, or a number that is raised to the epoch since ``start_epoch``
    :param start_epoch: the first epoch in which the rate is changed
    :param end_epoch: the first epoch in which it is no longer changed; None for no end
    :param staircase: change at the beginning of epochs only; otherwise before every batch
    :param momentum_correction: multiply the momentum by the new rate over the old rate for the batch in which the
        rate changes, if the optimizer has a momentum
    :param steps_per_epoch: the number of batches in an epoch; by default taken from Keras, if Keras knows it
    """
    def __init__(
        self,
        initial_lr: Optional[float],
        multiplier: Any,
        start_epoch: int = ...,
        end_epoch: Optional[int] = ...,
        staircase: bool = ...,
        momentum_correction: bool = ...,
        steps_per_epoch: Optional[int] = ...,
    ) -> None: ...

class LearningRateWarmupCallback(Any):
    """Raises the learning rate from ``initial_lr / size()`` to ``initial_lr`` over the first epochs.

    :param initial_lr: the rate after the warm-up: that of one rank, times ``size()``
    :param warmup_epochs: the length of the warm-up
    :param momentum_correction: as in ``LearningRateScheduleCallback``
    :param steps_per_epoch: the number of batches in an epoch; by default taken from Keras, if Keras knows it
    :param verbose: whether rank 0 reports the end of the warm-up
    """
    def __init__(
        self,
        initial_lr: Optional[float],
        warmup_epochs: float = ...,
        momentum_correction: bool = ...,
        steps_per_epoch: Optional[int] = ...,
        verbose: int = ...,
    ) -> None: ...

class MetricAverageCallback(Any):
    """Averages the logged metrics over all ranks at the end of each epoch. Put it before callbacks that read them.

    :param device: accepted for older scripts
    """
    def __init__(self, device: str = ...) -> None: ...
