"""Elastic training with ``fit()``."""

import keras as _keras

from farandole._keras.package import elastic_for as _elastic_for

_made = _elastic_for(_keras)

run = _made.run
KerasState = _made.KerasState
CommitStateCallback = _made.CommitStateCallback
UpdateBatchStateCallback = _made.UpdateBatchStateCallback
UpdateEpochStateCallback = _made.UpdateEpochStateCallback
