"""Estimators that train models of Keras on Spark DataFrames.

    model = KerasEstimator(num_proc=2, model=net, optimizer="adam", loss="mse", store=store, ...).fit(frame)
    predictions = model.transform(other_frame)

Models are those of Keras 3 on TensorFlow, of ``tf_keras``, or of the Keras 2 of TensorFlow 2.15. This package loads
Keras and TensorFlow when an estimator or a model needs them.
"""

from __future__ import annotations

from farandole.spark.keras.estimator import KerasEstimator as KerasEstimator
from farandole.spark.keras.estimator import KerasModel as KerasModel
