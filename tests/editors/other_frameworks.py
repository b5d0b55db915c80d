# pyright: basic, reportUnnecessaryTypeIgnoreComment=true
"""The other bindings, whose frameworks are not installed where type checkers read this file."""

import horovod
import horovod.keras
import horovod.keras.callbacks
import horovod.keras.elastic
import horovod.mxnet
import horovod.numpy as hvd
import horovod.tensorflow
import horovod.tensorflow.elastic
import horovod.tensorflow.keras as tf_hvd
import numpy as np
from horovod.common.process_sets import ProcessSet
from horovod.runner.elastic.worker import WorkerNotificationManager
from horovod.tensorflow.mpi_ops import rank_op
from typing_extensions import assert_type

version: str = horovod.__version__
assert_type(hvd.allreduce_async(np.ones(3), name="x"), int)
state = hvd.elastic.NumPyState(weights=np.ones(3), step=0)
state.step += 1


@hvd.elastic.run
def train(state: hvd.elastic.NumPyState, steps: int) -> None:
    state.commit()


train(state, 3)
assert_type(horovod.tensorflow.size(), int)
assert_type(tf_hvd.rank(), int)
assert_type(horovod.mxnet.local_rank(), int)
horovod.keras.callbacks.BroadcastGlobalVariablesCallback(0)
keras_state = horovod.keras.elastic.KerasState(None, batch=0, epoch=0)
tf_state = horovod.tensorflow.elastic.TensorFlowKerasState(None, batch=0)
keras_state.batch += 1
horovod.keras.callbacks.BroadcastGlobalVariablesCallback("0")  # type: ignore[arg-type]
print(version, rank_op, ProcessSet, WorkerNotificationManager)
