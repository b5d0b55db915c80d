"""Checks of an estimator's parameters, which find mistakes before any process is started."""

from __future__ import annotations

import json
import time
from typing import Any, List, Sequence


def check_parameters(estimator: Any) -> None:
    """``ValueError`` where a parameter is missing, is out of its range, or excludes another one."""
    num_proc, backend = estimator.getNumProc(), estimator.getBackend()
    if num_proc is not None and backend is not None:
        raise ValueError(
            f"num_proc={num_proc} and backend={type(backend).__name__} exclude each other: give the number of "
            "processes to the backend, and leave num_proc out"
        )
    if num_proc is not None and (isinstance(num_proc, bool) or not isinstance(num_proc, int) or num_proc < 1):
        raise ValueError(f"num_proc={num_proc!r}: it is a number of processes, at least 1")
    if estimator.getModel() is None:
        raise ValueError("the estimator has no model: set the parameter model")
    if estimator.getStore() is None:
        raise ValueError(
            "the estimator has no store: set the parameter store, for example Store.create('/shared/runs')"
        )
    if estimator.getRunId() is not None:
        estimator.getStore().get_run_path(estimator.getRunId())  # raises ValueError for a name like ../other
    for name in ("feature_cols", "label_cols"):
        columns = estimator.getOrDefault(name)
        if not columns or isinstance(columns, str):
            raise ValueError(f"{name}={columns!r}: it is a list with the names of at least one column")
    for name in ("batch_size", "val_batch_size", "epochs", "train_steps_per_epoch", "validation_steps_per_epoch"):
        value = estimator.getOrDefault(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name}={value!r}: it is a number, at least 1")
    for name in ("loss_weights", "label_shapes"):
        _check_one_per_label(name, estimator.getOrDefault(name), estimator.getLabelCols())
    categorical = estimator.getCategoricalCols() or []
    unknown = [name for name in categorical if name not in estimator.getFeatureCols()]
    if unknown:
        raise ValueError(f"categorical_cols contains columns that are not in feature_cols: {', '.join(unknown)}")


def _check_one_per_label(name: str, values: Any, labels: Sequence[str]) -> None:
    if values is not None and (not isinstance(values, (list, tuple)) or len(values) != len(labels)):
        raise ValueError(
            f"{name}={values!r} does not fit label_cols={list(labels)!r}: it is a list with an element for each label"
        )


def check_output_columns(labels: Sequence[str], names: Sequence[str]) -> None:
    """``ValueError`` unless there is a different output column for each label."""
    if len(names) != len(labels) or len(set(names)) != len(names):
        raise ValueError(
            f"outputCols={list(names)!r} does not fit the labels {list(labels)!r}: it has a different name for each "
            "label"
        )


def check_run_can_be_written(store: Any, run_id: str, estimator: Any) -> None:
    """Writes a description of the run to the store, so that a store that cannot be written is found before the
    training. Raises the error of the store, with the path and the cause."""
    if not store.saving_runs():
        return
    description = {
        "estimator": type(estimator).__name__,
        "model": type(estimator.getModel()).__name__,
        "feature_cols": list(estimator.getFeatureCols()),
        "label_cols": list(estimator.getLabelCols()),
        "epochs": estimator.getEpochs(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    store.write_text(f"{store.get_run_path(run_id).rstrip('/')}/run.json", json.dumps(description, indent=1) + "\n")


def one_per_label(name: str, value: Any, labels: Sequence[str]) -> List[Any]:
    """A list with a value for each label: the value itself for each if it is no list.

    ``ValueError`` where a list has another length than ``labels``.
    """
    if not isinstance(value, (list, tuple)):
        return [value] * len(labels)
    if len(value) != len(labels):
        raise ValueError(
            f"{name} has {len(value)} elements for the {len(labels)} label columns {', '.join(labels)}: give one for "
            "each label, or a single one for all"
        )
    return list(value)
