"""Variables that some ranks or all do not use in a step of a function of TensorFlow.

The ranks train like one process on the whole batch, in which a variable that no sample uses stays as it is.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np
import pytest
from nets import ROWS, data, fit, furthest, share

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
STEPS = 6


@pytest.fixture(autouse=True)
def _of_keras3_on_tensorflow(keras: Any, backend: str) -> None:
    if backend != "tensorflow" or not hasattr(keras, "ops"):
        pytest.skip("functions of TensorFlow, and Keras 3")


OPTIMIZERS: Dict[str, Callable[[Any], Any]] = {
    "momentum": lambda keras: keras.optimizers.SGD(0.1, momentum=0.9, weight_decay=0.1),
    "adamw": lambda keras: keras.optimizers.AdamW(0.05, weight_decay=0.1, global_clipnorm=1.0),
    "nadam": lambda keras: keras.optimizers.Nadam(0.05, clipnorm=0.5),
    "ema": lambda keras: keras.optimizers.RMSprop(0.05, use_ema=True, ema_overwrite_frequency=2),
}


def uses(step: int, rank: int, size: int) -> List[bool]:
    """Whether a rank uses each variable in a step: the first is used by all, the second by one rank in each step, the
    third by all ranks or by none, the fourth late by one rank, and the fifth never."""
    return [True, rank == step % size, step % 2 == 0, step >= 4 and rank == 0, False]


@several_ranks
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param("momentum", {}, marks=pytest.mark.slow),
        pytest.param("momentum", {"gradient_predivide_factor": 2.0}, marks=pytest.mark.slow),
        ("momentum", {"compression": "fp16"}),
        ("adamw", {}),
        pytest.param("nadam", {}, marks=pytest.mark.slow),
        ("ema", {}),
        pytest.param("momentum", {"groups": 2}, marks=pytest.mark.slow),
        ("adamw", {"groups": [[3, 0], [2, 1]]}),
    ],
    ids=str,
)
def test_a_variable_that_some_ranks_or_all_do_not_use_in_a_function(
    hvd: Any, keras: Any, rank: int, size: int, kind: str, options: Dict[str, Any]
) -> None:
    """Ranks trace new functions in different steps."""
    import tensorflow as tf

    variables, expected = (
        [keras.Variable(np.full((2, 3), 1.0 + each, "float32"), name=f"part{each}") for each in range(5)]
        for _ in range(2)
    )
    if "compression" in options:
        options = {"compression": hvd.Compression.fp16}
    if isinstance(options.get("groups"), list):
        options = {"groups": [[variables[each] for each in group] for group in options["groups"]]}
    optimizer, reference = hvd.DistributedOptimizer(OPTIMIZERS[kind](keras), **options), OPTIMIZERS[kind](keras)
    optimizer.build(variables)
    reference.build(expected)

    @tf.function(autograph=False)
    def step_of_rank(number: Any, own: Any, *used: bool) -> None:
        optimizer.apply([own * (place + 1.0) if each else None for place, each in enumerate(used)], variables)

    def gradient(step: int, of: int) -> Any:
        return tf.constant(np.random.default_rng([step, of]).standard_normal((2, 3)).astype("float32"))

    def mean(step: int, place: int) -> Optional[Any]:
        users = [gradient(step, each) for each in range(size) if uses(step, each, size)[place]]
        return tf.add_n(users) * (place + 1.0) / size if users else None

    for step in range(STEPS):
        step_of_rank(tf.constant(step), gradient(step, rank), *uses(step, rank, size))
        reference.apply([mean(step, place) for place in range(5)], expected)
        for place, (one, other) in enumerate(zip(variables, expected)):
            tolerance = 1e-2 if "compression" in options else 1e-5
            np.testing.assert_allclose(one.numpy(), other.numpy(), tolerance, tolerance, err_msg=f"{step}: {place}")
    for one, other in zip(optimizer.variables, reference.variables):
        np.testing.assert_allclose(one.numpy(), other.numpy(), tolerance, tolerance, err_msg=one.path)


@several_ranks
def test_variables_of_several_types_in_one_group(hvd: Any, keras: Any, rank: int, size: int) -> None:
    """On one rank, only one variable of each type has a gradient; on the others, two have."""
    import tensorflow as tf

    variables = [keras.Variable(np.ones(2, dtype), dtype=dtype) for dtype in ("float32", "float64") for _ in range(2)]
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), groups=1)
    optimizer.build(variables)
    used = [True, rank > 0, rank > 0, True]

    @tf.function(autograph=False)
    def step() -> None:
        optimizer.apply([tf.ones(2, each.dtype) if here else None for here, each in zip(used, variables)], variables)

    step()
    share = (size - 1) / size
    for variable, mean in zip(variables, [1.0, share, share, 1.0]):
        np.testing.assert_allclose(variable.numpy(), 1.0 - mean, 1e-6, 1e-6)


@several_ranks
def test_sums_of_several_passes_that_some_ranks_or_all_lack_in_a_function(
    hvd: Any, keras: Any, rank: int, size: int
) -> None:
    import tensorflow as tf

    variables, expected = (
        [keras.Variable(np.full(2, 1.0 + each, "float32"), name=f"part{each}") for each in range(4)] for _ in range(2)
    )
    reference = keras.optimizers.AdamW(0.05, weight_decay=0.1)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.AdamW(0.05, weight_decay=0.1), backward_passes_per_step=2)
    optimizer.build(variables)
    reference.build(expected)
    used = [True, rank == 0, rank == size - 1, False]

    @tf.function(autograph=False)
    def run_pass(own: Any) -> None:
        optimizer.apply([own if each else None for each in used], variables)

    for step in range(3):
        for number in range(2):
            run_pass(tf.constant([0.5 * step, 1.0 + number]))
        total = tf.constant([1.0 * step, 3.0])
        reference.apply([total, total / size, total / size, None], expected)
        for one, other in zip(variables, expected):
            np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-5, 1e-5, err_msg=f"{step}: {one.path}")


@several_ranks
def test_two_optimizers_that_sum_passes_in_one_function(hvd: Any, keras: Any, rank: int, size: int) -> None:
    """Ranks that lack different gradients have different numbers of conditions in their graphs."""
    import tensorflow as tf

    parts = [[keras.Variable(np.ones(2, "float32"), name=f"part{each}") for each in range(3)] for _ in range(2)]
    optimizers = [hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), backward_passes_per_step=2) for _ in parts]
    for optimizer, variables in zip(optimizers, parts):
        optimizer.build(variables)
    used = [True, rank == 0, rank == 0]

    @tf.function(autograph=False)
    def run_pass() -> None:
        for optimizer, variables in zip(optimizers, parts):
            optimizer.apply([tf.ones(2) if each else None for each in used], variables)

    for _ in range(2):
        run_pass()
    for variables in parts:
        for variable, mean in zip(variables, [1.0, 1.0 / size, 1.0 / size]):
            np.testing.assert_allclose(variable.numpy(), 1.0 - 2.0 * mean, 1e-6, 1e-6)


@several_ranks
@pytest.mark.parametrize("way", ["eager", "dense"])
def test_slices_that_some_ranks_or_all_lack(hvd: Any, keras: Any, rank: int, size: int, way: str) -> None:
    """In each step, one rank looks up words in a table; in the last one, no rank does."""
    import tensorflow as tf

    variables, expected = (
        [keras.Variable(np.ones((4, 2), "float32"), name=each) for each in ("head", "table")] for _ in range(2)
    )
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.1), sparse_as_dense=way == "dense")
    reference = keras.optimizers.Adam(0.1)
    optimizer.build(variables)
    reference.build(expected)

    def step_of_rank(head: Any, found: Any, is_used: bool) -> None:
        slices = tf.IndexedSlices(found, tf.constant([3, 1]), dense_shape=tf.constant([4, 2]))
        optimizer.apply([head, slices if is_used else None], variables)

    run = step_of_rank if way == "eager" else tf.function(step_of_rank, autograph=False)
    for step in range(size + 2):
        head, found = tf.fill([4, 2], 0.5), tf.constant([[1.0, -2.0], [0.5, 3.0]]) * (step + 1.0)
        run(head, found, rank == step % size and step <= size)
        slices = tf.IndexedSlices(found / size, tf.constant([3, 1]), dense_shape=tf.constant([4, 2]))
        mean = slices if way == "eager" else tf.convert_to_tensor(slices)
        reference.apply([head, mean if step <= size else None], expected)
        for one, other in zip(variables, expected):
            np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-5, 1e-6, err_msg=f"{step}: {one.path}")


@several_ranks
def test_fit_trains_layers_that_only_some_ranks_use(hvd: Any, keras: Any, rank: int, size: int) -> None:
    class Routed(keras.Model):  # type: ignore[misc, name-defined]
        """One expert for each rank, and one that nobody uses."""

        def __init__(self, part: Optional[int]) -> None:
            super().__init__()
            self.part = part
            options = {"activation": "tanh", "kernel_constraint": "unit_norm"}
            self.experts = [keras.layers.Dense(4, **options) for _ in range(size + 1)]
            self.head = keras.layers.Dense(1)

        def build(self, shape: Any) -> None:
            for each in self.experts:
                each.build((None, 6))
            self.head.build((None, 4))

        def call(self, x: Any) -> Any:
            if self.part is not None:
                return self.head(self.experts[self.part](x))
            parts = keras.ops.split(x, size)
            return self.head(keras.ops.concatenate([self.experts[each](parts[each]) for each in range(size)]))

    def trained(part: Optional[int], wrap: Callable[[Any], Any], x: Any, y: Any, rows: int) -> Any:
        keras.utils.set_random_seed(3)
        model = Routed(part)
        model.compile(optimizer=wrap(keras.optimizers.AdamW(0.05, weight_decay=0.1)), loss="mse")
        fit(model, x, y, rows)
        return model

    x, y = data(size)
    model = trained(rank, hvd.DistributedOptimizer, share(x, rank, size), share(y, rank, size), ROWS)
    assert furthest(model, trained(None, lambda each: each, x, y, ROWS * size)) < 1e-5
