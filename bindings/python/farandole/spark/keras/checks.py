"""Checks of the parameters of a Keras estimator, which find mistakes before any process is started."""

from __future__ import annotations

import os
from typing import Any, Dict

from farandole.spark.common.checking import check_shape_compatibility
from farandole.spark.common.estimator_checks import one_per_label


def check_framework(estimator: Any) -> None:
    """``ValueError`` unless the model is one of Keras on TensorFlow, with an optimizer, a loss and, if there is one, a
    callback for checkpoints."""
    from farandole.spark.keras.formats import keras_named, root_of

    model = estimator.getModel()
    root = root_of(model)
    keras = None if root is None else keras_named(root)
    if keras is None or not isinstance(model, keras.Model):
        raise ValueError(
            f"model={model!r}: it is a {type(model).__module__}.{type(model).__qualname__}, and must be a "
            "tf.keras.Model of keras or tf_keras"
        )
    optimizer, loss = [given_or_compiled(estimator, name) for name in ("optimizer", "loss")]
    if not isinstance(optimizer, (str, dict)) and root_of(optimizer) != root:
        raise ValueError(
            f"the optimizer is a {type(optimizer).__module__}.{type(optimizer).__qualname__}, and the model is one of "
            f"{root}: give an optimizer of {root}, or its name"
        )
    keras.optimizers.get(optimizer)  # raises ValueError for an unknown name
    if isinstance(loss, (list, tuple)):
        one_per_label("loss", loss, estimator.getLabelCols())
    callback = estimator.getCheckpointCallback()
    if callback is not None and not isinstance(callback, keras.callbacks.ModelCheckpoint):
        raise ValueError(
            f"checkpoint_callback={callback!r}: it must be a BestModelCheckpoint or a ModelCheckpoint of {root}"
        )
    _check_callbacks(estimator.getCallbacks(), keras, root)


def _check_callbacks(callbacks: Any, keras: Any, root: Any) -> None:
    for each in callbacks:
        if not isinstance(each, keras.callbacks.Callback):
            raise ValueError(f"callbacks contains {each!r}: it must be a Callback of {root}")


def given_or_compiled(estimator: Any, name: str) -> Any:
    """The optimizer or the loss of an estimator, or that of its compiled model; ``ValueError`` without either."""
    given = estimator.getOrDefault(name)
    if given is None:
        given = getattr(estimator.getModel(), name, None)
    if given is None:
        raise ValueError(f"the estimator has no {name}: set the parameter {name}, or compile the model with one")
    return given


def check_metadata(estimator: Any, metadata: Dict[str, Any]) -> None:
    """``ValueError`` where the columns do not fit the model.

    A label that is a scalar fits every output, because losses take the index of a class as well.
    """
    inputs, outputs = estimator.get_model_shapes()
    labels = estimator.getLabelCols()
    if outputs is not None and len(outputs) == len(labels):
        is_scalar = [name in metadata and metadata[name]["shape"] == 1 for name in labels]
        outputs = [None if scalar else shape for scalar, shape in zip(is_scalar, outputs)]
    check_shape_compatibility(
        metadata,
        estimator.getFeatureCols(),
        labels,
        input_shapes=inputs,
        output_shapes=outputs,
        label_shapes=estimator.getLabelShapes(),
    )


def variables_for(estimator: Any) -> Dict[str, str]:
    """The variables for the environment of the processes: those of ``backend_env``, and those that select the same
    Keras as in this process."""
    from farandole.spark.keras.formats import root_of

    variables = {"KERAS_BACKEND": "tensorflow"}
    legacy = "1" if root_of(estimator.getModel()) == "tf_keras" else os.environ.get("TF_USE_LEGACY_KERAS")
    if legacy is not None:
        variables["TF_USE_LEGACY_KERAS"] = legacy
    return {**variables, **(estimator.getBackendEnv() or {})}
