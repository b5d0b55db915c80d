"""Callbacks for ``fit()``."""

import keras as _keras

from farandole._keras.callbacks import made_for as _made_for

_made = _made_for(_keras)

BroadcastGlobalVariablesCallback = _made.BroadcastGlobalVariablesCallback
MetricAverageCallback = _made.MetricAverageCallback
LearningRateScheduleCallback = _made.LearningRateScheduleCallback
LearningRateWarmupCallback = _made.LearningRateWarmupCallback
BestModelCheckpoint = _made.BestModelCheckpoint
