"""Turns the columns of a batch into the inputs and the labels of a model, and outputs and labels into a loss."""

from __future__ import annotations

import copy
import inspect
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import torch

from farandole.spark.common.checking import outputs_per_label
from farandole.spark.common.estimator_checks import one_per_label


class Columns:
    """The columns of an estimator, as tensors for its model.

    Features are converted to the floating-point type of the model, except those in ``categorical_cols``, which are
    integers (int64).

    :param dtype: the type of the model's floating-point parameters
    :param input_shapes: a shape with -1 for the rows, for each feature column; None to leave shapes as they are
    """

    def __init__(
        self,
        feature_cols: Sequence[str],
        dtype: torch.dtype,
        device: torch.device,
        input_shapes: Optional[Sequence[Sequence[int]]] = None,
        categorical_cols: Optional[Sequence[str]] = None,
    ) -> None:
        self._features = list(feature_cols)
        self._dtype = dtype
        self._device = device
        self._shapes = input_shapes
        self._categorical = frozenset(categorical_cols or ())

    def inputs(self, batch: Mapping[str, Any]) -> List[torch.Tensor]:
        """The inputs of the model, one for each feature column; ``ValueError`` where a shape does not fit."""
        made = []
        for index, name in enumerate(self._features):
            kind = torch.int64 if name in self._categorical else self._dtype
            tensor = self.tensor(batch[name]).to(kind)
            if self._shapes is not None:
                tensor = _reshaped(tensor, self._shapes[index], name, "input_shapes")
            made.append(tensor)
        return made

    def tensor(self, values: Any) -> torch.Tensor:
        """A column as a tensor on the device of the model."""
        return torch.as_tensor(values).to(self._device)


def _reshaped(tensor: torch.Tensor, shape: Sequence[int], name: str, parameter: str) -> torch.Tensor:
    wanted = [tensor.shape[0], *shape[1:]]
    try:
        return tensor.reshape(wanted)
    except RuntimeError:
        raise ValueError(
            f"{parameter} gives the column {name!r} the shape {list(shape)}, but its rows have the shape "
            f"{list(tensor.shape[1:])}, that is, {tensor[:1].numel()} elements"
        ) from None


def float_type_of(model: Any) -> torch.dtype:
    """The type of the model's first floating-point parameter; float32 without any."""
    return next((each.dtype for each in model.parameters() if each.is_floating_point()), torch.float32)


class Targets:
    """Brings labels into the form that losses expect.

    A label with as many elements as its output gets the output's shape and type. A label with fewer elements is an
    index of a class (int64), or has the output's type if it has a floating-point type.

    :param label_shapes: a shape with -1 for the rows, for each label; None to leave shapes as they are
    """

    def __init__(self, names: Sequence[str], label_shapes: Optional[Sequence[Optional[Sequence[int]]]]) -> None:
        self.names = list(names)
        self._shapes = label_shapes

    def __call__(self, outputs: Any, labels: Any) -> Any:
        """Outputs and labels as lists, with an element for each label column."""
        outputs = outputs_per_label(outputs, self.names)
        return outputs, [self._fitted(index, outputs[index], label) for index, label in enumerate(labels)]

    def _fitted(self, index: int, output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        shape = self._shapes[index] if self._shapes is not None else None
        if shape is not None:
            label = _reshaped(label, shape, self.names[index], "label_shapes")
        if label.numel() == output.numel():
            return (label if shape is not None else label.reshape(output.shape)).to(output.dtype)
        return label.to(output.dtype if label.is_floating_point() else torch.int64)


class Losses:
    """The weighted sum of the losses of all labels: the mean over the rows of a batch.

    :param losses: a loss for each label
    :param weights: a factor for each label; None for 1
    :param weighs_rows: whether rows have weights, so that losses must give a number for each row
    """

    def __init__(self, losses: Sequence[Callable[..., Any]], weights: Optional[Sequence[float]], weighs_rows: bool):
        self._losses = [_per_row(each) if weighs_rows else each for each in losses]
        self._weights = [1.0] * len(losses) if weights is None else list(weights)

    def __call__(self, outputs: Sequence[Any], labels: Sequence[Any], sample_weights: Any = None) -> torch.Tensor:
        """The loss of a batch, a scalar."""
        total: Any = 0.0
        for loss, weight, output, label in zip(self._losses, self._weights, outputs, labels):
            value = loss(output, label)
            if sample_weights is not None:
                value = _weighted_mean(value, sample_weights.to(value.dtype))
            total = total + weight * value
        return total


def _per_row(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The loss without the mean over the rows; ``ValueError`` where it cannot do without."""
    if isinstance(getattr(loss, "reduction", None), str):
        loss = copy.copy(loss)
        loss.reduction = "none"  # type: ignore[attr-defined]
        return loss
    if "reduction" in inspect.signature(loss).parameters:
        return lambda output, label: loss(output, label, reduction="none")
    return loss


def _weighted_mean(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    if values.dim() == 0 or values.shape[0] != weights.shape[0]:
        raise ValueError(
            f"sample_weight_col needs a loss for each row, but the loss returns the shape {list(values.shape)} for "
            f"{weights.shape[0]} rows: give it a parameter reduction and honour reduction='none', as the losses of "
            "torch.nn do"
        )
    rows = values.reshape(values.shape[0], -1).mean(1)
    total = weights.sum()
    return (rows * weights).sum() / torch.where(total == 0, torch.ones_like(total), total)


class Metrics:
    """The metrics of all labels.

    :param metrics: functions of an output and its label: one list for all labels, or a list for each label
    """

    def __init__(self, metrics: Any, labels: Sequence[str]) -> None:
        self._functions: List[Any] = []
        self.names: List[str] = []
        if metrics and not any(isinstance(each, (list, tuple)) for each in metrics):
            metrics = [metrics] * len(labels)
        for index, own in enumerate(one_per_label("metrics", list(metrics), labels) if metrics else []):
            for function in own if isinstance(own, (list, tuple)) else [own]:
                name = getattr(function, "__name__", type(function).__name__)
                self.names.append(name if len(labels) == 1 else f"{labels[index]}_{name}")
                self._functions.append((index, function))

    @torch.no_grad()
    def __call__(self, outputs: Sequence[Any], labels: Sequence[Any]) -> List[Any]:
        """The value of each metric for a batch."""
        return [function(outputs[index].detach(), labels[index]) for index, function in self._functions]


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loss: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.scale = scale
        return loss.view_as(loss)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient * ctx.scale, None


def with_scaled_gradient(loss: torch.Tensor, scale: float) -> torch.Tensor:
    """The same loss, whose gradient is multiplied by ``scale``."""
    result: torch.Tensor = _Scaled.apply(loss, scale)
    return result


def moved(state: Dict[str, Any]) -> Dict[str, Any]:
    """A state dict with copies of its tensors on the CPU."""
    return {name: value.detach().cpu().clone() if torch.is_tensor(value) else value for name, value in state.items()}
