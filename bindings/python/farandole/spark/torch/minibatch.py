"""A batch of rows, and the function that trains a model on it."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, NoReturn, Optional

import torch


class Batch(NamedTuple):
    """A batch of this rank, on the device of the model."""

    inputs: List[torch.Tensor]
    labels: List[torch.Tensor]
    sample_weights: Optional[torch.Tensor]

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return int(self.labels[0].shape[0])

    @property
    def weight(self) -> float:
        """The sum of the weights of its rows; each row counts 1 without a column of weights."""
        return float(self.rows if self.sample_weights is None else self.sample_weights.sum())


class OptimizerOfPasses:
    """The optimizer as a minibatch function sees it: it clears and applies gradients once for a whole step, also if the
    step consists of several batches."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self.starts_step = True
        self.ends_step = True

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Clears the gradients before the first batch of a step."""
        if self.starts_step:
            self._optimizer.zero_grad(*args, **kwargs)

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Applies the gradients after the last batch of a step; before, only calls the closure."""
        if self.ends_step:
            return self._optimizer.step(closure)
        return closure() if closure is not None else None

    @property
    def _step_supports_amp_scaling(self) -> NoReturn:
        """Raises ``ValueError``. A ``torch.amp.GradScaler`` reads it before it unscales the gradients."""
        raise ValueError(
            "with backward_passes_per_step > 1, a GradScaler would unscale the gradients of early passes repeatedly; "
            "train in bfloat16 without a scaler"
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


def train_minibatch(
    model: Any, optimizer: Any, transform_outputs: Any, loss_fn: Any, inputs: Any, labels: Any, sample_weights: Any
) -> Any:
    """The minibatch function that is used where the estimator has no ``train_minibatch_fn``."""
    optimizer.zero_grad()
    outputs, labels = transform_outputs(model(*inputs), labels)
    loss = loss_fn(outputs, labels, sample_weights)
    loss.backward()
    optimizer.step()
    return outputs, loss
