"""What travels between the driver and the ranks of a fit for PyTorch, and the checkpoints of a run.

A checkpoint is a file of ``torch.save`` that ``torch.load(path, weights_only=True)`` reads: a dict with ``model`` and
``optimizer`` (state dicts, with the learning rate of a single process), ``epoch`` (epochs that are done), ``epochs``
(epochs that were planned) and ``history``.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

import torch

from farandole.spark.common.logs import Record
from farandole.spark.common.resuming import last_epoch_of, require_same_model, unusable
from farandole.spark.common.serialization import pickled, unpickled
from farandole.spark.torch.formats import (
    copy_of,
    decode_model,
    decode_optimizer,
    encode_model,
    encode_optimizer,
    names_of_differences,
)


@dataclass
class Training:
    """The model and the optimizer of a fit, as copies that the fit may change.

    :ivar first_epoch: epochs that an earlier fit of the run has completed
    :ivar planned_epochs: epochs that the earlier fit was to complete
    """

    model: Any
    optimizer: Any
    first_epoch: int = 0
    planned_epochs: int = 0
    history: List[Record] = field(default_factory=list)

    def last_epoch(self, epochs: int) -> int:
        """The number of epochs of the run when this fit has completed."""
        return last_epoch_of(self.first_epoch, self.planned_epochs, epochs)

    @property
    def content(self) -> bytes:
        """The training as a pickle."""
        encoded = (encode_model(self.model), encode_optimizer(self.optimizer, self.model))
        return pickled((*encoded, self.history), "the model")

    @staticmethod
    def from_bytes(content: bytes) -> Training:
        """The training of ``content``. Runs code that the bytes name."""
        encoded, optimizer, history = unpickled(content)
        model = decode_model(encoded)
        return Training(model, decode_optimizer(optimizer, model), history=history)


@dataclass
class Result:
    """What rank 0 has trained: the history of the run, and the states of the model and of the optimizer."""

    history: List[Record]
    model_state: Dict[str, Any]
    optimizer_state: Dict[str, Any]

    def to_bytes(self) -> bytes:
        """The result in the format of checkpoints."""
        return checkpoint_bytes(self.model_state, self.optimizer_state, 0, 0, self.history)

    @staticmethod
    def from_bytes(content: bytes) -> Result:
        """The result of ``to_bytes``."""
        values = torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)
        return Result(values["history"], values["model"], values["optimizer"])


def checkpoint_bytes(
    model_state: Dict[str, Any], optimizer_state: Dict[str, Any], epoch: int, epochs: int, history: List[Record]
) -> bytes:
    """A checkpoint after ``epoch`` epochs, of ``epochs`` that are planned."""
    stream = io.BytesIO()
    values = {"model": model_state, "optimizer": optimizer_state, "epoch": epoch, "epochs": epochs, "history": history}
    torch.save(values, stream)
    return stream.getvalue()


def prepare(model: Any, optimizer: Any, store: Any, run_id: str) -> Training:
    """Copies of the model and the optimizer, with the state of the run's checkpoint if the run has one.

    ``ValueError`` where the checkpoint is damaged, or was made by a model with other parameters.
    """
    training = Training(*copy_of(model, optimizer))
    path = store.get_checkpoint_path(run_id)
    if not store.saving_runs() or not store.exists(path):
        return training
    values = _read_checkpoint(store, path, run_id)
    check_same_model(training.model, values["model"], path, run_id)
    training.model.load_state_dict(values["model"])
    try:
        training.optimizer.load_state_dict(values["optimizer"])
    except ValueError as problem:
        raise ValueError(
            f"the run {run_id!r} cannot be resumed with this optimizer, a {type(optimizer).__name__}: {problem}, in "
            f"its checkpoint {path}. Give an optimizer with the parameters of the run's, or another run_id"
        ) from None
    training.first_epoch, training.planned_epochs = values["epoch"], values["epochs"]
    training.history = list(values["history"])
    return training


def _read_checkpoint(store: Any, path: str, run_id: str) -> Dict[str, Any]:
    problem: Optional[Exception] = None
    try:
        values = torch.load(io.BytesIO(store.read(path)), map_location="cpu", weights_only=True)
        if isinstance(values, dict) and {"model", "optimizer", "epoch", "epochs", "history"} <= set(values):
            return values
    except Exception as failed:  # of the store, of the archive, or of its content
        problem = failed
    raise unusable(path, run_id, "it has other entries" if problem is None else f"{type(problem).__name__}: {problem}")


def check_same_model(model: Any, state: Dict[str, Any], path: str, run_id: str) -> None:
    """``ValueError`` where the state of a checkpoint is that of a model with other parameters."""
    require_same_model(names_of_differences(model.state_dict(), state), run_id, f"its checkpoint {path}")


def returned(training: Training, content: bytes) -> Any:
    """The trained model in evaluation mode, its optimizer with the learning rate of a single process, and the history.

    :param content: the result of rank 0
    """
    result = Result.from_bytes(content)
    training.model.load_state_dict(result.model_state)
    training.model.eval()
    training.optimizer.load_state_dict(result.optimizer_state)
    return training.model, training.optimizer, result.history
