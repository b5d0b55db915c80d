"""What travels between the driver and the ranks of a fit for Keras."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Sequence

from farandole.spark.common.resuming import last_epoch_of
from farandole.spark.common.serialization import Encoded, pickled, unpickled
from farandole.spark.keras.formats import (
    decode_model,
    decode_object,
    encode_model,
    encode_object,
    keras_named,
    root_of,
)
from farandole.spark.keras.state import State, check_same_model, read_checkpoint


@dataclass
class Training:
    """A model with the objects that compile it, as bytes, and the state of the run from which the fit continues.

    :ivar root: the name of the package of its Keras
    """

    root: str
    model: Encoded
    optimizer: Encoded
    loss: Encoded
    metrics: Encoded
    state: Optional[State] = field(default=None, repr=False)

    @property
    def first_epoch(self) -> int:
        """Epochs that an earlier fit of the run has completed."""
        return 0 if self.state is None else self.state.epoch

    def last_epoch(self, epochs: int) -> int:
        """The number of epochs of the run when this fit has completed."""
        return last_epoch_of(self.first_epoch, 0 if self.state is None else self.state.epochs, epochs)

    @property
    def content(self) -> bytes:
        """The training as a pickle."""
        state = None if self.state is None else self.state.to_bytes()
        encoded = [tuple(each) for each in (self.model, self.optimizer, self.loss, self.metrics)]
        return pickled((self.root, encoded, state), "the model")

    @staticmethod
    def from_bytes(content: bytes) -> Training:
        """The training of ``content``. Runs code that the bytes name."""
        root, encoded, state = unpickled(content)
        model, optimizer, loss, metrics = [Encoded(*each) for each in encoded]
        return Training(root, model, optimizer, loss, metrics, None if state is None else State.from_bytes(state))

    def compile(self, model: Any, optimizer: Any, labels: Sequence[str], weights: Any) -> None:
        """Compiles a model with new losses and metrics.

        :param weights: the factors of the losses
        """
        metrics = decode_object(self.metrics)
        if len(labels) > 1 and _is_flat(metrics):
            metrics = [decode_object(self.metrics) for _ in labels]
        loss = decode_object(self.loss)
        if isinstance(loss, (list, tuple)) and len(loss) == 1:
            loss = loss[0]
        model.compile(
            optimizer=optimizer,
            loss=loss,
            loss_weights=list(weights) if weights is not None and len(labels) > 1 else weights,
            metrics=metrics or None,
            jit_compile=False,  # XLA cannot compile the reductions
        )

    def new_optimizer(self, keras: Any) -> Any:
        """An optimizer without state, with the learning rate of a single process."""
        return keras.optimizers.get(decode_object(self.optimizer))


def _is_flat(metrics: Any) -> bool:
    """Whether there is one list of metrics for all labels."""
    is_list = bool(metrics) and isinstance(metrics, (list, tuple))
    return is_list and not any(isinstance(each, (list, tuple)) for each in metrics)


def prepare(
    model: Any,
    optimizer: Any,
    loss: Any,
    metrics: Any,
    custom_objects: Optional[Dict[str, Any]],
    store: Any,
    run_id: str,
) -> Training:
    """The model and the objects that compile it, with the state of the run if the store has it.

    ``ValueError`` where the checkpoint is damaged, or was made by another model or another class of optimizers.
    """
    training = Training(
        str(root_of(model)),
        encode_model(model, custom_objects),
        encode_object(optimizer, "optimizer"),
        encode_object(loss, "loss"),
        encode_object(metrics, "metrics"),
    )
    path = store.get_checkpoint_path(run_id)
    if not store.saving_runs() or not store.exists(path):
        return training
    training.state = read_checkpoint(store, path, run_id)
    where = f"its checkpoint {path}"
    if model.built and model.weights:
        check_same_model(model, training.state, run_id, where)
    name = type(training.new_optimizer(keras_named(training.root))).__name__
    if name != training.state.optimizer_name:
        raise ValueError(
            f"the run {run_id!r} cannot be resumed with this optimizer, a {name}: in {where}, it is a "
            f"{training.state.optimizer_name}. Give the optimizer of the run, or another run_id"
        )
    return training


def build_optimizer(optimizer: Any, model: Any) -> None:
    """Creates the variables of an optimizer."""
    trainable = model.trainable_variables
    if hasattr(optimizer, "build"):
        if not getattr(optimizer, "built", False) or not optimizer.variables:
            optimizer.build(trainable)
    else:  # of Keras' legacy optimizers
        optimizer.iterations  # noqa: B018  (the property creates the counter, which comes first)
        optimizer._create_all_weights(trainable)


def result_bytes(model: Any, custom_objects: Optional[Dict[str, Any]], state: State) -> bytes:
    """The result of rank 0: the model with the weights to return, and the state after the last epoch."""
    return pickled((tuple(encode_model(model, custom_objects)), state.to_bytes()), "the trained model")


def returned(training: Training, content: bytes, labels: Sequence[str], loss_weights: Any) -> Any:
    """The trained and compiled model, and the history.

    :param content: the result of rank 0
    """
    from farandole._keras.library import all_variables_of

    encoded, state_content = unpickled(content)
    state = State.from_bytes(state_content)
    model, optimizer = decode_model(Encoded(*encoded)), training.new_optimizer(keras_named(training.root))
    training.compile(model, optimizer, labels, loss_weights)
    build_optimizer(model.optimizer, model)
    variables = all_variables_of(model.optimizer)
    if len(variables) == len(state.optimizer):
        for variable, value in zip(variables, state.optimizer):
            variable.assign(value)
    return model, state.history
