# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.
from typing import Any

from farandole._keras.elastic import KerasState as KerasState
from farandole.common.elastic import run as run

class CommitStateCallback(Any):
    """Commits an elastic state every few batches, and at the end of each epoch.

    :param state: the state to commit
    :param batches_per_commit: the number of batches between two commits
    """
    def __init__(self, state: Any, batches_per_commit: int = ...) -> None: ...

class UpdateBatchStateCallback(Any):
    """Records in ``state.batch`` the number of the batch that was trained last, and 0 between epochs.

    :param state: has an attribute ``batch``
    """
    def __init__(self, state: Any) -> None: ...

class UpdateEpochStateCallback(Any):
    """Records in ``state.epoch`` the number of finished epochs, including those before this ``fit()``.

    :param state: has an attribute ``epoch``
    """
    def __init__(self, state: Any) -> None: ...
