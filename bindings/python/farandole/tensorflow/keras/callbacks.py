"""Callbacks for ``fit()``."""

from farandole._keras.callbacks import made_for_tensorflow as _made_for_tensorflow
from farandole._keras.library import keras_of_tensorflow as _keras_of_tensorflow

_made = _made_for_tensorflow(_keras_of_tensorflow())

BroadcastGlobalVariablesCallback = _made.BroadcastGlobalVariablesCallback
MetricAverageCallback = _made.MetricAverageCallback
LearningRateScheduleCallback = _made.LearningRateScheduleCallback
LearningRateWarmupCallback = _made.LearningRateWarmupCallback
BestModelCheckpoint = _made.BestModelCheckpoint
