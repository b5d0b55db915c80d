"""Predictions of a model of Keras, in the process that Spark has started for a partition."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from farandole.spark.common.predicting import Predictor


class KerasPredictor(Predictor):
    """A model with its feature columns.

    :param floatx: the floating-point type of Keras with which the model was trained; None for the present one
    """

    def __init__(
        self,
        model: Any,
        feature_columns: Sequence[str],
        label_columns: Sequence[str],
        custom_objects: Optional[Dict[str, Any]] = None,
        integer_columns: Optional[Sequence[str]] = None,
        floatx: Optional[str] = None,
    ) -> None:
        from farandole.spark.keras.formats import encode_model

        super().__init__(encode_model(model, custom_objects), feature_columns, label_columns, integer_columns)
        self._floatx = floatx

    def predict(self, columns: List[Any]) -> List[Any]:
        """Predicts a batch; see the base class."""
        import tensorflow as tf

        from farandole.spark.common.checking import outputs_per_label
        from farandole.spark.keras.columns import Inputs
        from farandole.spark.keras.formats import decode_model, keras_named, root_of

        with tf.device("/CPU:0"):
            if self._model is None:
                self._model = decode_model(self._encoded)
            keras = keras_named(str(root_of(self._model)))
            floatx = self._floatx or keras.backend.floatx()
            inputs = Inputs(self._model, self.feature_columns, self._integer_columns, floatx)
            outputs = self._model(inputs(dict(zip(self.feature_columns, columns))), training=False)
            return [tf.cast(each, tf.float32).numpy() for each in outputs_per_label(outputs, self._label_columns)]
