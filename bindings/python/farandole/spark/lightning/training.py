"""What travels between the driver and the ranks of a fit by Lightning, and the checkpoints of a run.

A checkpoint is one of Lightning's, with an entry ``farandole``: the history, and the epochs that were planned.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

import torch

from farandole.spark.common.logs import Record
from farandole.spark.common.resuming import unusable
from farandole.spark.common.serialization import pickled, unpickled
from farandole.spark.lightning.versions import package_of
from farandole.spark.torch import training as plain
from farandole.spark.torch.formats import copy_of, decode_model, decode_optimizer, encode_model, encode_optimizer


@dataclass
class Training(plain.Training):
    """The module of a fit, or a plain model with its optimizer, as copies that the fit may change.

    :ivar checkpoint: the content of the checkpoint to resume from
    """

    checkpoint: Optional[bytes] = field(default=None, repr=False)

    @property
    def content(self) -> bytes:
        """The training as a pickle."""
        optimizer = None if self.optimizer is None else encode_optimizer(self.optimizer, self.model)
        return pickled((encode_model(self.model), optimizer, self.history, self.checkpoint), "the model")

    @staticmethod
    def from_bytes(content: bytes) -> Training:
        """The training of ``content``. Runs code that the bytes name."""
        encoded, optimizer, history, checkpoint = unpickled(content)
        model = decode_model(encoded)
        decoded = None if optimizer is None else decode_optimizer(optimizer, model)
        return Training(model, decoded, history=history, checkpoint=checkpoint)


def prepare(model: Any, optimizer: Any, store: Any, run_id: str) -> Training:
    """Copies of the model and the optimizer, with the run's last checkpoint if the run has one.

    ``ValueError`` where the checkpoint is damaged, or was made by a model with other parameters. Lightning's
    checkpoints are pickles: loading one runs code that its author chose.
    """
    training = Training(*copy_of(model, optimizer))
    paths: List[str] = store.get_checkpoints(run_id) if store.saving_runs() else []
    if not paths:
        return training
    path = paths[-1]
    content = store.read(path)
    values = _loaded(content, path, run_id)
    prefix = "" if package_of(model) else "plain."
    state = {name[len(prefix) :]: value for name, value in values["state_dict"].items()}
    plain.check_same_model(training.model, state, path, run_id)
    training.checkpoint = content
    training.first_epoch = values["epoch"] + 1
    training.planned_epochs = values["farandole"]["epochs"]
    training.history = list(values["farandole"]["history"])
    return training


def _loaded(content: bytes, path: str, run_id: str) -> Dict[str, Any]:
    try:
        values: Dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)
        _ = values["state_dict"], values["epoch"], values["farandole"]
        return values
    except Exception as problem:
        raise unusable(path, run_id, f"{type(problem).__name__}: {problem}") from None


def result_bytes(state: Dict[str, Any], history: List[Record]) -> bytes:
    """What rank 0 has trained: the state of the model and the history."""
    stream = io.BytesIO()
    torch.save({"state": state, "history": history}, stream)
    return stream.getvalue()


def returned(training: Training, content: bytes) -> Tuple[Any, List[Record]]:
    """The trained model in evaluation mode, and the history.

    :param content: the result of rank 0
    """
    values = torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)
    training.model.load_state_dict(values["state"])
    training.model.eval()
    return training.model, values["history"]
