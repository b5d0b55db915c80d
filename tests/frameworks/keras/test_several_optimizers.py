"""Several optimizers in a process: those of a GAN train like those of one process, and ranks match those of a name."""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np
import pytest
from nets import ROWS, array_of, fit, furthest, network, share, tensor_of

STEPS = 4


def networks(keras: Any) -> Any:
    """A generator and a discriminator."""

    def network(*widths: int) -> Any:
        layers = [keras.layers.Dense(widths[1], activation="tanh"), keras.layers.Dense(widths[2])]
        return keras.Sequential([keras.Input((widths[0],)), *layers])

    keras.utils.set_random_seed(1)
    return network(3, 5, 4), network(4, 5, 1)


def adversaries(keras: Any, of_generator: Any, of_discriminator: Any) -> Any:
    """A model of TensorFlow with a ``train_step`` of its own."""
    import tensorflow as tf

    def loss(judged: Any, wanted: float) -> Any:
        return tf.reduce_mean(tf.nn.softplus(-wanted * judged))

    class Adversaries(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.discriminator = networks(keras)
            self.of_generator, self.of_discriminator = of_generator, of_discriminator

        def train_step(self, data: Any) -> Any:
            real, noise = data
            with tf.GradientTape() as tape:
                fake = self.generator(noise, training=True)
                doubt = loss(self.discriminator(real), 1.0) + loss(self.discriminator(fake), -1.0)
            variables = self.discriminator.trainable_variables
            self.of_discriminator.apply_gradients(zip(tape.gradient(doubt, variables), variables))
            with tf.GradientTape() as tape:
                fooled = loss(self.discriminator(self.generator(noise, training=True)), 1.0)
            variables = self.generator.trainable_variables
            self.of_generator.apply_gradients(zip(tape.gradient(fooled, variables), variables))
            return {"doubt": doubt, "fooled": fooled}

    model = Adversaries()
    model.compile()
    return model


def data_of_gan(size: int) -> List[np.ndarray]:
    draw = np.random.default_rng(0).standard_normal
    return [draw((STEPS * size * ROWS, width)).astype("float32") for width in (4, 3)]


def test_a_gan_trains_like_one_process(hvd: Any, keras: Any, backend: str, rank: int, size: int) -> None:
    if backend != "tensorflow":
        pytest.skip("a train_step of TensorFlow")
    real, noise = data_of_gan(size)
    kinds = keras.optimizers.Adam(0.02), keras.optimizers.SGD(0.1, momentum=0.9)
    model = adversaries(keras, *map(hvd.DistributedOptimizer, kinds))
    fit(model, share(real, rank, size), share(noise, rank, size), ROWS)
    one = adversaries(keras, keras.optimizers.Adam(0.02), keras.optimizers.SGD(0.1, momentum=0.9))
    fit(one, real, noise, ROWS * size)
    for part in ("generator", "discriminator"):
        assert furthest(getattr(model, part), getattr(one, part)) < 1e-5


def gradients(keras: Any, backend: str, loss: Callable[[], Any], variables: List[Any]) -> List[Any]:
    if backend == "torch":
        for each in variables:
            each.value.grad = None
        loss().backward()
        return [each.value.grad for each in variables]
    import jax

    def of_values(values: List[Any]) -> Any:
        with keras.StatelessScope(state_mapping=list(zip(variables, values))):
            return loss()

    found: List[Any] = jax.grad(of_values)([each.value for each in variables])
    return found


def test_a_gan_of_other_backends_trains_like_one_process(
    hvd: Any, keras: Any, backend: str, rank: int, size: int
) -> None:
    if backend == "tensorflow":
        pytest.skip("a loop of PyTorch and JAX")

    def loss(judged: Any, wanted: float) -> Any:
        return keras.ops.mean(keras.ops.softplus(-wanted * judged))

    def trained(of_generator: Any, of_discriminator: Any, real: np.ndarray, noise: np.ndarray) -> Any:
        generator, discriminator = networks(keras)
        for x, z in zip(np.split(real, STEPS), np.split(noise, STEPS)):

            def doubt(x: Any = x, z: Any = z) -> Any:
                return loss(discriminator(x), 1.0) + loss(discriminator(generator(z)), -1.0)

            def fooled(z: Any = z) -> Any:
                return loss(discriminator(generator(z)), 1.0)

            variables = discriminator.trainable_variables
            of_discriminator.apply(gradients(keras, backend, doubt, variables), variables)
            variables = generator.trainable_variables
            of_generator.apply(gradients(keras, backend, fooled, variables), variables)
        return generator, discriminator

    real, noise = data_of_gan(size)
    kinds = keras.optimizers.Adam(0.02), keras.optimizers.SGD(0.1, momentum=0.9)
    found = trained(*map(hvd.DistributedOptimizer, kinds), share(real, rank, size), share(noise, rank, size))
    expected = trained(keras.optimizers.Adam(0.02), keras.optimizers.SGD(0.1, momentum=0.9), real, noise)
    for a, b in zip(found, expected):
        assert furthest(a, b) < 1e-5


def test_a_gradient_that_overflows_on_one_rank_skips_the_step_of_several_optimizers_on_all(
    hvd: Any, keras: Any, backend: str, rank: int
) -> None:
    """``compile()`` puts the scaler around the ``MultiOptimizer``."""
    if not hasattr(keras.optimizers, "MultiOptimizer") or backend == "jax":
        pytest.skip("Keras before 3.11, and JAX, on which a MultiOptimizer does not train")
    first, second = (hvd.DistributedOptimizer(keras.optimizers.SGD(1.0)) for _ in range(2))
    optimizers = keras.optimizers.OptimizerMap(first, {".*/bias": second})
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = network(keras, keras.optimizers.MultiOptimizer(optimizers))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    before, variables = model.get_weights(), model.trainable_variables
    for value, moves in ((np.inf if rank == 0 else 1.0, False), (1.0, True)):
        gradients = [tensor_of(keras, np.full(each.shape, value, "float32")) for each in variables]
        model.optimizer.apply_gradients(zip(gradients, variables))
        assert all((a != b).any() == moves for a, b in zip(before, model.get_weights()))
        assert float(model.optimizer.dynamic_scale) == 2.0**14  # half of the default


@pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
def test_optimizers_are_numbered_for_each_job_and_process_set(
    hvd: Any, keras: Any, backend: str, rank: int, size: int
) -> None:
    """As in an elastic job, rank 0 goes on with the second optimizer of the job before, and other ranks are new."""
    if backend == "tensorflow":
        pytest.skip("TensorFlow names gradients after their variables")
    variable = keras.Variable(np.zeros(1, "float32"))

    def made(**options: Any) -> Any:
        return hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)

    def stepped(optimizer: Any) -> Any:
        optimizer.apply([tensor_of(keras, np.full(1, rank, "float32"))], [variable])
        return optimizer

    alone = hvd.add_process_set([0])
    if rank == 0:
        stepped(made(process_set=alone))
    before = [stepped(made()) for _ in range(2)]
    hvd.barrier()
    hvd.shutdown()
    hvd.init(process_sets="dynamic")
    stepped(before[1] if rank == 0 else made())
    assert array_of(keras, variable).tolist() == [-3 * (size - 1) / 2]
