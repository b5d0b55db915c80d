"""The state of a run for Keras after an epoch, and its checkpoints.

A checkpoint is a file of ``numpy.savez`` that ``numpy.load(path)`` reads without pickles: the arrays ``weight.N`` (in
the order of ``model.weights``) and ``optimizer.N`` (with the learning rate of a single process), and ``progress``, a
text in JSON with ``epoch`` (epochs that are done), ``epochs`` (epochs that were planned), ``history``, ``weights`` (the
names of the weights) and ``optimizer`` (the name of its class).
"""

from __future__ import annotations

import io
import json
from typing import Any, Dict, List, NamedTuple, Sequence

from farandole.spark.common.resuming import require_same_model, unusable

History = Dict[str, List[Any]]
"""The values of the loss and the metrics in all epochs, by name, as in Keras' ``History``."""


class State(NamedTuple):
    """The state of a run after an epoch.

    :param names: the names of the weights
    :param optimizer_name: the name of the class of the optimizer
    :param epoch: epochs that are done
    :param epochs: epochs that were planned
    """

    names: List[str]
    weights: List[Any]
    optimizer_name: str
    optimizer: List[Any]
    epoch: int
    epochs: int
    history: History

    def to_bytes(self) -> bytes:
        """The content of a checkpoint."""
        import numpy

        progress = {
            "epoch": self.epoch,
            "epochs": self.epochs,
            "history": self.history,
            "weights": self.names,
            "optimizer": self.optimizer_name,
        }
        stream = io.BytesIO()
        arrays = {f"weight.{index}": _storable(value) for index, value in enumerate(self.weights)}
        arrays.update({f"optimizer.{index}": _storable(value) for index, value in enumerate(self.optimizer)})
        numpy.savez(stream, progress=numpy.array(json.dumps(progress)), **arrays)
        return stream.getvalue()

    @staticmethod
    def from_bytes(content: bytes) -> State:
        """The state of ``to_bytes``; an exception of Python or of NumPy where the bytes are damaged."""
        import numpy

        with numpy.load(io.BytesIO(content), allow_pickle=False) as arrays:
            values = {name: arrays[name] for name in arrays.files}
        progress = json.loads(str(values["progress"]))
        weights = [values[f"weight.{index}"] for index in range(len(progress["weights"]))]
        optimizer = [values[f"optimizer.{index}"] for index in range(len(values) - len(weights) - 1)]
        return State(
            progress["weights"],
            weights,
            progress["optimizer"],
            optimizer,
            progress["epoch"],
            progress["epochs"],
            progress["history"],
        )


def _storable(value: Any) -> Any:
    """The value of a variable as an array of a type of NumPy itself."""
    import numpy

    array = numpy.asarray(value)
    return array.astype("float32") if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array


def name_of(weight: Any) -> str:
    """The name of a weight, for messages."""
    return str(getattr(weight, "path", None) or weight.name)


def read_checkpoint(store: Any, path: str, run_id: str) -> State:
    """The state in a checkpoint; ``ValueError`` where it is damaged."""
    try:
        return State.from_bytes(store.read(path))
    except Exception as problem:  # of the store, of the archive, or of its content
        raise unusable(path, run_id, f"{type(problem).__name__}: {problem}") from None


def check_same_model(model: Any, state: State, run_id: str, where: str) -> None:
    """``ValueError`` where the weights of a checkpoint are those of another model.

    :param where: the checkpoint, for the message
    """
    shapes = [tuple(each.shape) for each in model.weights]
    differences = []
    if len(shapes) != len(state.weights):
        differences.append(f"there are {len(state.weights)} weights, and {len(shapes)} in the model")
    for name, value, own, shape in zip(state.names, state.weights, model.weights, shapes):
        if tuple(value.shape) != shape:
            differences.append(
                f"{name} has shape {tuple(value.shape)}, and {name_of(own)} in the model has shape {shape}"
            )
    require_same_model(differences, run_id, where)


def assign_optimizer(variables: Sequence[Any], state: State, run_id: str) -> None:
    """Gives the variables of an optimizer their values in a state; ``ValueError`` where they do not fit."""
    own, saved = [tuple(each.shape) for each in variables], [tuple(each.shape) for each in state.optimizer]
    if own != saved:
        raise ValueError(
            f"the run {run_id!r} cannot be resumed with this optimizer, a {state.optimizer_name}: it has "
            f"{len(own)} variables, and {len(saved)} in the run's checkpoint, or they have other shapes. Give an "
            "optimizer with the options of the run's, or another run_id"
        )
    for variable, value in zip(variables, state.optimizer):
        variable.assign(value)
