"""Elastic training with ``fit()``."""

from farandole._keras.library import keras_of_tensorflow as _keras_of_tensorflow
from farandole._keras.package import elastic_for as _elastic_for

_made = _elastic_for(_keras_of_tensorflow())

run = _made.run
KerasState = _made.KerasState
CommitStateCallback = _made.CommitStateCallback
UpdateBatchStateCallback = _made.UpdateBatchStateCallback
UpdateEpochStateCallback = _made.UpdateEpochStateCallback
