"""Predictions of a model of PyTorch, in the process that Spark has started for a partition."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

from farandole.spark.common.predicting import Predictor


class TorchPredictor(Predictor):
    """A model with its feature columns and their shapes.

    :param forward: called with the model and its inputs; by default the model itself is called with the inputs
    """

    def __init__(
        self,
        model: Any,
        feature_columns: Sequence[str],
        label_columns: Sequence[str],
        input_shapes: Optional[Sequence[Sequence[int]]] = None,
        integer_columns: Optional[Sequence[str]] = None,
        forward: Optional[Callable[..., Any]] = None,
    ) -> None:
        from farandole.spark.torch.formats import encode_model

        super().__init__(encode_model(model), feature_columns, label_columns, integer_columns)
        self._input_shapes = input_shapes
        self._forward = forward

    def predict(self, columns: List[Any]) -> List[Any]:
        """Predicts a batch; see the base class."""
        import torch

        from farandole.spark.common.checking import outputs_per_label
        from farandole.spark.torch.batches import Columns, float_type_of
        from farandole.spark.torch.formats import decode_model

        if self._model is None:
            self._model = decode_model(self._encoded).eval()
        tensors = Columns(
            self.feature_columns,
            float_type_of(self._model),
            torch.device("cpu"),
            self._input_shapes,
            self._integer_columns,
        )
        with torch.no_grad():
            inputs = tensors.inputs(dict(zip(self.feature_columns, columns)))
            outputs = self._model(*inputs) if self._forward is None else self._forward(self._model, *inputs)
        return [each.detach().cpu().float().numpy() for each in outputs_per_label(outputs, self._label_columns)]
