"""Allreduce inside functions that XLA compiles: the tests build and use the optional library for this TensorFlow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict

import pytest
from farandole.common.util import is_version_greater_equal_than
from farandole.xla import OLDEST
from launched import DEADLINE_S, FARANDOLE, clean_environment, needs_launcher, run_script

import tensorflow as tf  # isort: skip

pytestmark = [
    needs_launcher,
    pytest.mark.skipif(not is_version_greater_equal_than(tf.__version__, OLDEST), reason=f"needs TensorFlow {OLDEST}"),
]

COMPILED = """
import tensorflow as tf, horovod.tensorflow as hvd
hvd.init()
rank, size = hvd.rank(), hvd.size()

@tf.function(jit_compile=True)
def step(weights, batch):
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = tf.reduce_sum(hvd.allreduce(weights * batch, op=hvd.Sum, name="loss"))
    gradient = tape.gradient(loss, weights)
    return loss, hvd.allreduce(gradient, op=hvd.Average, name="gradient", prescale_factor=0.1)

for _ in range(20):
    loss, gradient = step(tf.constant([1.0, 2.0]), tf.fill([2], float(rank + 1)))
ranks = sum(range(1, size + 1))
assert abs(float(loss) - 3.0 * ranks) < 1e-5, loss
# The gradient of a sum is the sum of all ranks' gradients, times the rank's own batch; the mean follows.
wanted = 0.1 * size * ranks / size
assert all(abs(float(each) - wanted) < 1e-6 for each in gradient), (gradient, wanted)
for dtype in (tf.float16, tf.bfloat16, tf.float64, tf.int32, tf.int64, tf.uint8):
    compiled = tf.function(lambda x: hvd.allreduce(x, op=hvd.Max, name=f"max.{dtype.name}"), jit_compile=True)
    assert compiled(tf.fill([3], tf.cast(rank, dtype))).numpy().tolist() == [size - 1] * 3, dtype
try:
    tf.function(lambda x: hvd.allreduce(x, name="wrong"), jit_compile=True)(tf.zeros([rank + 1]))
except tf.errors.FailedPreconditionError as problem:
    assert "wrong" in problem.message and "[2]" in problem.message, problem.message
else:
    raise AssertionError("shapes that differ were reduced")
tries = []
@hvd.elastic.run
def train(state):
    tries.append(state)
    assert len(tries) == 1, "the loop has called the function again"
    tf.function(lambda x: hvd.allreduce(x, name="wrong_again"), jit_compile=True)(tf.zeros([rank + 1]))
try:
    train(hvd.elastic.TensorFlowState(variables=[]))
except hvd.MismatchError as problem:
    assert isinstance(problem, tf.errors.FailedPreconditionError) and "wrong_again" in str(problem), problem
else:
    raise AssertionError("the loop has ended well")
assert step(tf.constant([1.0, 2.0]), tf.zeros([2]))[0] == 0.0
print("GOOD", rank, flush=True)
"""


# Rank 0 alone has the gradient of `part`. In functions that XLA does not compile, all is as without XLA.
ABSENT = """
import sys, keras, numpy as np, tensorflow as tf, horovod.tensorflow as hvd
hvd.init()
rank, size = hvd.rank(), hvd.size()
variables = [keras.Variable(np.ones(2, "float32"), name=each) for each in ("shared", "part", "unused")]
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
optimizer.build(variables)

def step(own):
    optimizer.apply([own, own if rank == 0 else None, None], variables)

tf.function(step, autograph=False)(tf.ones([2]))
for variable, wanted in zip(variables, [0.0, 1.0 - 1.0 / size, 1.0]):
    np.testing.assert_allclose(variable.numpy(), [wanted] * 2, 1e-6, err_msg=variable.name)
print("GOOD", rank, flush=True)
tf.function(step, autograph=False, jit_compile=True)(tf.ones([2]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    """The settings by which a job finds the XLA library, which this fixture builds once."""
    cache = str(tmp_path_factory.mktemp("cache"))
    done = subprocess.run(
        [FARANDOLE, "build-xla"],
        check=False,
        env={
            **clean_environment(),
            "XDG_CACHE_HOME": cache,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=4 * DEADLINE_S,
    )
    assert done.returncode == 0, done.stdout
    assert "HOROVOD_ENABLE_XLA_OPS=1" in done.stdout
    return {"XDG_CACHE_HOME": cache, "HOROVOD_ENABLE_XLA_OPS": "1"}


@pytest.mark.slow
@pytest.mark.timeout(1300)
def test_compiled_functions_reduce_differentiate_and_report_errors(built: Dict[str, str], tmp_path: Path) -> None:
    job = run_script(2, tmp_path, COMPILED, **built)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("GOOD") == 2


@pytest.mark.slow
@pytest.mark.timeout(1300)  # the first test of the module also builds the library
def test_a_function_of_a_rank_that_lacks_a_gradient_is_not_compiled(built: Dict[str, str], tmp_path: Path) -> None:
    job = run_script(2, tmp_path, ABSENT, **built)
    assert job.returncode != 0 and job.stdout.count("GOOD") == 2, job.stdout
    found = re.search(r"HorovodAbsentAllreduce \(unimplemented\): \S*grad_\d_(\w+): .* jit_compile=False", job.stdout)
    assert found and found[1] in ("part", "unused"), job.stdout


@pytest.mark.slow
def test_without_the_xla_library_the_import_names_the_command_that_builds_it(tmp_path: Path) -> None:
    settings = {"XDG_CACHE_HOME": str(tmp_path), "HOROVOD_ENABLE_XLA_OPS": "1"}
    job = run_script(1, tmp_path, "import horovod.tensorflow", **settings)
    assert job.returncode != 0
    assert "farandole build-xla" in job.stdout and tf.__version__ in job.stdout
