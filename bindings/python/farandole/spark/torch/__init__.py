"""Estimators that train models of PyTorch on Spark DataFrames.

    model = TorchEstimator(num_proc=2, model=net, optimizer=optimizer, loss=loss, store=store, ...).fit(frame)
    predictions = model.transform(other_frame)

This package loads PyTorch when an estimator or a model needs it.
"""

from __future__ import annotations

from farandole.spark.torch.estimator import TorchEstimator as TorchEstimator
from farandole.spark.torch.estimator import TorchModel as TorchModel
