"""The rules by which a fit continues a run that the store has."""

from __future__ import annotations

from typing import Sequence


def last_epoch_of(done: int, planned: int, epochs: int) -> int:
    """The number of epochs of a run when a fit has completed. A fit that was interrupted is completed; after a complete
    fit, ``epochs`` more are trained.

    :param done: epochs that the earlier fits of the run have completed
    :param planned: epochs that the last of them was to complete
    """
    is_interrupted = done < planned and done < epochs
    return epochs if is_interrupted else done + epochs


def unusable(path: str, run_id: str, reason: str) -> ValueError:
    """The error for a checkpoint that is damaged."""
    return ValueError(
        f"the checkpoint {path} of the run {run_id!r} cannot be used ({reason}): delete it to start the run anew, or "
        "give another run_id"
    )


def require_same_model(differences: Sequence[str], run_id: str, where: str) -> None:
    """``ValueError`` if there are differences between a model and that of a run.

    :param differences: the weights that differ, in words
    :param where: the checkpoint of the run
    """
    if differences:
        raise ValueError(
            f"the run {run_id!r} cannot be resumed with this model: in {where}, {'; '.join(differences[:3])} "
            f"({len(differences)} differences). Give the model of the run, or another run_id"
        )
