"""Estimators that train modules of Lightning, and plain models of PyTorch by Lightning, on Spark DataFrames.

    model = TorchEstimator(num_proc=2, model=module, store=store, feature_cols=["x"], label_cols=["y"]).fit(frame)

This package loads Lightning when an estimator trains.
"""

from __future__ import annotations

from farandole.spark.lightning.estimator import TorchEstimator as TorchEstimator
from farandole.spark.lightning.estimator import TorchModel as TorchModel
