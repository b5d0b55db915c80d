# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.
from typing import Any, List, Optional

class BestModelCheckpoint(Any):
    """Saves the best model so far to ``filepath``, which is set by who uses it.

    :param monitor: what tells which is the best
    :param verbose: whether it says so
    :param mode: ``min``, ``max``, or ``auto``: guessed by the name
    :param save_freq: ``epoch``, or a number of batches
    """
    def __init__(
        self,
        monitor: str = ...,
        verbose: int = ...,
        save_weights_only: bool = ...,
        mode: str = ...,
        save_freq: Any = ...,
    ) -> None: ...

class BroadcastGlobalVariablesCallback(Any):
    """Gives one rank's model and optimizer to all, at the end of the first batch, when all variables are there.

    :param root_rank: the global rank whose variables all receive
    :param device: accepted for older scripts
    :param local_variables: a list of variables that stay as they are
    """
    def __init__(self, root_rank: int, device: str = ..., local_variables: Optional[List[Any]] = ...) -> None: ...

class LearningRateScheduleCallback(Any):
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
        warmup_epochs: float = ...,
        momentum_correction: bool = ...,
        steps_per_epoch: Optional[int] = ...,
        verbose: int = ...,
    ) -> None: ...

class MetricAverageCallback(Any):
    """Averages what is logged over all ranks at the end of each epoch; put it before callbacks that look at it.

    :param device: accepted for older scripts
    """
    def __init__(self, device: str = ...) -> None: ...
