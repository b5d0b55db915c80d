# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.
from typing import Any

from farandole._keras.elastic import KerasState as KerasState
from farandole.common.elastic import run as run

class CommitStateCallback(Any):
    """Commits an elastic state every few batches, and at the end of each epoch.

    :param state: what is committed
    :param batches_per_commit: how many
    """
    def __init__(self, state: Any, batches_per_commit: int = ...) -> None: ...

class UpdateBatchStateCallback(Any):
    """Keeps ``state.batch`` at the batch that was trained last; 0 between epochs.

    :param state: has an attribute ``batch``
    """
    def __init__(self, state: Any) -> None: ...

class UpdateEpochStateCallback(Any):
    """Keeps ``state.epoch`` at the number of epochs that are done, those before this ``fit()`` included.

    :param state: has an attribute ``epoch``
    """
    def __init__(self, state: Any) -> None: ...
