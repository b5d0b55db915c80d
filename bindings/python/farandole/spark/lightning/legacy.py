"""Makes a module of Lightning from a plain model of PyTorch, its optimizer and its losses."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from farandole.spark.lightning.versions import package_in_use
from farandole.spark.torch.batches import Columns, Losses, Metrics, Targets, float_type_of


def to_lightning_module(
    model: Any,
    optimizer: Any,
    loss_fns: Sequence[Any],
    loss_weights: Optional[Sequence[float]] = None,
    feature_cols: Sequence[str] = (),
    label_cols: Sequence[str] = (),
    sample_weights_col: Optional[str] = None,
    input_shapes: Any = None,
    label_shapes: Any = None,
    metrics: Any = None,
    package: Optional[str] = None,
) -> Any:
    """A module of Lightning whose batches are dicts from column to tensor. It logs ``loss`` and the metrics.

    :param model: called with a tensor for each feature column
    :param optimizer: an optimizer of the model's parameters
    :param loss_fns: a loss for each label column
    :param package: ``lightning.pytorch`` or ``pytorch_lightning``; by default the one in use
    """
    base = module_class(package)

    class PlainModule(base):  # type: ignore[misc,valid-type]
        """A plain model with its optimizer and its losses."""

        def __init__(self) -> None:
            super().__init__()
            self.plain = model

        def forward(self, *inputs: Any) -> Any:
            """Calls the model."""
            return self.plain(*inputs)

        def configure_optimizers(self) -> Any:
            """The optimizer of the model."""
            return optimizer

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            """The loss of a batch."""
            return self._means(batch)

        def validation_step(self, batch: Any, batch_idx: int) -> Any:
            """The loss of a batch."""
            return self._means(batch)

        def _means(self, batch: Any) -> Any:
            columns = Columns(feature_cols, float_type_of(self.plain), self.device, input_shapes)
            outputs, labels = targets(
                self.plain(*columns.inputs(batch)), [columns.tensor(batch[name]) for name in label_cols]
            )
            weights = columns.tensor(batch[sample_weights_col]) if sample_weights_col else None
            loss = losses(outputs, labels, weights)
            named = dict(zip(computed.names, computed(outputs, labels)))
            for name, value in {"loss": loss.detach(), **named}.items():
                self.log(name, value, on_step=False, on_epoch=True)
            return loss

    losses = Losses(loss_fns, loss_weights, sample_weights_col is not None)
    targets = Targets(label_cols, label_shapes)
    computed = Metrics(metrics, label_cols)
    return PlainModule()


def module_class(package: Optional[str] = None) -> Any:
    """``LightningModule`` of a package of Lightning, by default of the one in use."""
    import importlib

    return importlib.import_module(package or package_in_use()).LightningModule
