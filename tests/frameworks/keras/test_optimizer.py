"""The distributed optimizer: its steps match those of one big batch."""

from __future__ import annotations

import numpy as np
import pytest
from nets import ROWS, array_of, data, fit, furthest, network, share, tensor_of, variable_of


def optimizer(keras, kind: str):
    return {
        "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        "adam": lambda: keras.optimizers.Adam(0.01),
        "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
    }[kind]()


@pytest.mark.parametrize(
    "kind", [pytest.param("sgd", marks=pytest.mark.slow), "adam", pytest.param("rmsprop", marks=pytest.mark.slow)]
)
def test_training_steps_match_those_of_one_big_batch(hvd, keras, rank: int, size: int, kind: str) -> None:
    x, y = data(size)
    model = network(keras, hvd.DistributedOptimizer(optimizer(keras, kind)))
    fit(model, share(x, rank, size), share(y, rank, size), ROWS)
    one = network(keras, optimizer(keras, kind))
    fit(one, x, y, ROWS * size)
    assert furthest(model, one) < 1e-5


@pytest.mark.parametrize(
    "options", ["predivided", "groups", *(pytest.param(each, marks=pytest.mark.slow) for each in ("sum", "lists"))]
)
def test_options_of_the_reduction_lead_to_the_same_steps(hvd, keras, rank: int, size: int, options: str) -> None:
    x, y = data(size)
    model = network(keras, keras.optimizers.SGD(0.1))
    chosen = {
        "predivided": lambda: {"gradient_predivide_factor": 2.0},
        "groups": lambda: {"groups": 2},
        "sum": lambda: {"op": hvd.Sum},
        "lists": lambda: {"groups": [model.trainable_variables[:2]]},
    }[options]()
    rate = 0.1 / size if options == "sum" else 0.1
    weights = model.get_weights()
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(rate), **chosen), loss="mse")
    model.set_weights(weights)
    fit(model, share(x, rank, size), share(y, rank, size), ROWS)
    one = network(keras, keras.optimizers.SGD(0.1))
    fit(one, x, y, ROWS * size)
    assert furthest(model, one) < 1e-5


@pytest.mark.parametrize("is_mean", [pytest.param(True, marks=pytest.mark.slow), False])
def test_several_backward_passes_make_one_step(hvd, keras, rank: int, size: int, is_mean: bool) -> None:
    x, y = data(size, steps=4)
    options = {"backward_passes_per_step": 2, "average_aggregated_gradients": is_mean}
    model = network(keras, hvd.DistributedOptimizer(keras.optimizers.SGD(0.05), **options))
    fit(model, share(x, rank, size), share(y, rank, size), ROWS, epochs=2)
    one = network(keras, keras.optimizers.SGD(0.05 if is_mean else 0.1))
    fit(one, x, y, 2 * ROWS * size, epochs=2)
    assert furthest(model, one) < 1e-5


@pytest.mark.parametrize("passes", [1, 2])
def test_a_gradient_that_only_some_ranks_have_is_added_to_zeros(
    hvd, keras, backend, rank: int, size: int, passes: int
) -> None:
    if backend == "jax":
        pytest.skip("JAX has no gradients that are None")
    parts = [variable_of(keras, np.ones(2, "float32"), f"part{each}") for each in range(size)]
    shared, unused = (variable_of(keras, np.ones(2, "float32"), name) for name in ("shared", "unused"))
    variables = [shared, *parts, unused]
    wrapped = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), backward_passes_per_step=passes)
    wrapped.build(variables)
    for _ in range(2 * passes):
        own = tensor_of(keras, np.full(2, 0.5 * (rank + 1) / passes, "float32"))
        gradients = [own, *(own if each == rank else None for each in range(size + 1))]
        wrapped.apply_gradients(zip(gradients, variables))
    for place, each in enumerate(parts):
        expected = 1.0 - 2 * 0.5 * (place + 1) / size
        np.testing.assert_allclose(array_of(keras, each), [expected] * 2, rtol=1e-5)
    np.testing.assert_allclose(array_of(keras, shared), [1.0 - (size + 1) / 2] * 2, rtol=1e-5)
    assert array_of(keras, unused).tolist() == [1.0, 1.0]


def test_a_layer_that_is_frozen_between_steps_of_several_passes(hvd, keras, backend, rank: int, size: int) -> None:
    if backend == "jax":
        pytest.skip("an optimizer of Keras on JAX takes no fewer gradients than before")
    x, y = data(size, steps=2)
    options = {"backward_passes_per_step": 2, "average_aggregated_gradients": True}
    model = network(keras, hvd.DistributedOptimizer(keras.optimizers.SGD(0.05), **options))
    one = network(keras, keras.optimizers.SGD(0.05))
    for is_frozen in (False, True):
        for each in (model, one):
            each.layers[0].trainable = not is_frozen
            each.compile(optimizer=each.optimizer, loss="mse")
        fit(model, share(x, rank, size), share(y, rank, size), ROWS, epochs=1)
        fit(one, x, y, 2 * ROWS * size, epochs=1)
    assert furthest(model, one) < 1e-5


def test_fp16_compression_stays_close_to_one_big_batch(hvd, keras, rank: int, size: int) -> None:
    x, y = data(size)
    model = network(keras, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), compression=hvd.Compression.fp16))
    fit(model, share(x, rank, size), share(y, rank, size), ROWS)
    one = network(keras, keras.optimizers.SGD(0.1))
    fit(one, x, y, ROWS * size)
    assert 1e-6 < furthest(model, one) < 5e-3


def test_local_layers_and_variables_are_not_reduced(hvd, keras, rank: int, size: int) -> None:
    x, y = data(size)
    model = network(keras, "sgd")
    weights = model.get_weights()
    last = model.layers[-1]
    wrapped = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=last)
    wrapped.register_local_var(model.layers[0].bias)
    model.compile(optimizer=wrapped, loss="mse")
    model.set_weights(weights)
    fit(model, share(x, rank, size), share(y, rank, size) + rank, ROWS, epochs=1)
    hidden, bias, kernel = (np.asarray(each) for each in (*model.layers[0].get_weights(), last.get_weights()[0]))
    gathered = [hvd.allgather(each[None]) for each in (hidden, bias, kernel)]
    alike = [bool(np.allclose(each[0], each[-1], atol=1e-6)) for each in gathered]
    assert alike == [True, size == 1, size == 1]


def test_the_gradient_of_a_local_variable_is_divided_and_others_are_averaged(
    hvd, keras, backend, rank: int, size: int
) -> None:
    """This also holds if apply_gradients() applies the gradients directly."""
    for scale in (True, False):
        options = {"scale_local_gradients": scale}
        wrapped = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), **options)
        model = network(keras, "sgd")
        shared, local = model.trainable_variables[1], model.trainable_variables[3]
        wrapped.register_local_var(local)
        before = [np.array(model.get_weights()[i]) for i in (1, 3)]
        gradients = [tensor_of(keras, np.full(each.shape, rank + 1.0, "float32")) for each in (shared, local)]
        wrapped.apply_gradients(zip(gradients, (shared, local)))
        steps = [a - model.get_weights()[i] for a, i in zip(before, (1, 3))]
        np.testing.assert_allclose(steps[0], (size + 1) / 2, rtol=1e-6)
        np.testing.assert_allclose(steps[1], (rank + 1.0) / (size if scale else 1), rtol=1e-6)


def test_an_infinite_gradient_on_one_rank_skips_the_step_on_all_ranks(hvd, keras, backend, rank: int) -> None:
    home = keras.optimizers if hasattr(keras, "ops") else keras.mixed_precision
    wrapped = hvd.DistributedOptimizer(home.LossScaleOptimizer(keras.optimizers.SGD(1.0)))
    model = network(keras, "sgd")
    variables = model.trainable_variables
    before = model.get_weights()
    for value, moves in ((np.inf if rank == 0 else 1.0, False), (1.0, True)):
        gradients = [tensor_of(keras, np.full(each.shape, value, "float32")) for each in variables]
        if backend == "jax":
            wrapped.build(variables)
            state = [each.value for each in wrapped.variables], gradients, [each.value for each in variables]
            after = wrapped.stateless_apply(*state)[0]
        else:
            wrapped.apply_gradients(zip(gradients, variables))
            after = model.get_weights()
        steps = [float(np.abs(a - np.asarray(b)).max()) for a, b in zip(before, after)]
        assert all((step > 0) == moves for step in steps)


@pytest.mark.parametrize("place", ["inside", "outside", "compile"])
def test_an_infinite_gradient_of_a_local_variable_skips_the_step_on_all_ranks(
    hvd, keras, backend, place: str, rank: int
) -> None:
    if backend == "jax":
        pytest.skip("applies gradients by a call outside of a program")
    home = keras.optimizers if hasattr(keras, "ops") else keras.mixed_precision
    plain = keras.optimizers.SGD(1.0)
    chosen = hvd.PartialDistributedOptimizer(home.LossScaleOptimizer(plain) if place == "inside" else plain)
    keras.mixed_precision.set_global_policy("mixed_float16" if place == "compile" else "float32")
    try:
        model = network(keras, home.LossScaleOptimizer(chosen) if place == "outside" else chosen)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    chosen.register_local_var(model.trainable_variables[-1])
    before = model.get_weights()
    for infinite, moves in ((np.inf if rank == 0 else 1.0, False), (1.0, True)):
        values = [1.0, 1.0, 1.0, infinite]
        pairs = zip(model.trainable_variables, values)
        gradients = [tensor_of(keras, np.full(each.shape, value, "float32")) for each, value in pairs]
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        steps = [float(np.abs(a - b).max()) for a, b in zip(before, model.get_weights())]
        assert all((step > 0) == moves for step in steps)
        assert _scale_of(model.optimizer) == 2.0**14  # half of the default


OTHER_PLACES = (
    *(("inside", 1), ("outside", 2), ("compile", 2)),
    *(("inside of mixed_float16", 1), ("inside of mixed_float16", 2)),
)


@pytest.mark.parametrize(
    ("place", "passes"),
    [
        ("inside", 2),
        ("outside", 1),
        ("compile", 1),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHER_PLACES),
    ],
)
def test_a_batch_that_overflows_on_one_rank_is_skipped_by_all_as_in_one_process(
    hvd, keras, backend, rank: int, size: int, place: str, passes: int
) -> None:
    """The scaler is inside of the distributed optimizer, around it, or put around it by ``compile()``."""
    is_inside = place.startswith("inside")
    policy = "mixed_float16" if place in ("compile", "inside of mixed_float16") else "float32"
    if backend == "jax" and is_inside and passes > 1:
        pytest.skip("refused on JAX")
    home = keras.optimizers if hasattr(keras, "ops") else keras.mixed_precision
    x, y = data(size, steps=4)
    y.reshape(4, size, ROWS, 1)[2, -1] = 1e37  # of the last rank in the third batch

    def trained(optimizer, x, y, rows):
        keras.mixed_precision.set_global_policy(policy)
        try:
            model = network(keras, optimizer, jit_compile=False)
            weights = model.get_weights()
            fit(model, x, y, rows, epochs=2)
        finally:
            keras.mixed_precision.set_global_policy("float32")
        return model, weights

    plain = keras.optimizers.SGD(0.05)
    if is_inside:
        plain = home.LossScaleOptimizer(plain)
    chosen = hvd.DistributedOptimizer(plain, backward_passes_per_step=passes)
    if place == "outside":
        chosen = home.LossScaleOptimizer(chosen)
    model, weights = trained(chosen, share(x, rank, size), share(y, rank, size), ROWS)
    ends = hvd.allgather(np.concatenate([np.ravel(each) for each in model.get_weights()])[None])
    assert np.isfinite(ends).all() and np.ptp(ends, axis=0).max() == 0
    assert max(np.abs(a - b).max() for a, b in zip(weights, model.get_weights())) > 0
    scale = _scale_of(model.optimizer)
    assert np.ptp(hvd.allgather(np.array([scale]))) == 0 and scale < 2.0**15
    if passes == 1 or is_inside:  # outside, the scaler counts batches instead of steps
        plain = keras.optimizers.SGD(0.05 * passes)
        one, _ = trained(plain if place == "compile" else home.LossScaleOptimizer(plain), x, y, ROWS * size * passes)
        assert furthest(model, one) < (1e-5 if policy == "float32" else 1e-3)
        assert scale == _scale_of(one.optimizer)


def _scale_of(scaler) -> float:
    return float(np.asarray(scaler.loss_scale if hasattr(scaler, "loss_scale") else scaler.dynamic_scale))


def test_a_wrapped_optimizer_keeps_the_name_and_settings_of_the_original(hvd, keras) -> None:
    plain = keras.optimizers.SGD(0.25, momentum=0.5)
    wrapped = hvd.DistributedOptimizer(plain)
    assert type(wrapped).__name__ == "SGD" and isinstance(wrapped, type(plain)) and type(wrapped) is not type(plain)
    assert wrapped.get_config() == plain.get_config()
    assert wrapped._name == "DistributedSGD"
    assert hvd.DistributedOptimizer(plain, name="mine")._name == "mine"
    network(keras, wrapped).fit(*data(1), batch_size=4, verbose=0)
    assert isinstance(wrapped.variables, list) and list(wrapped.variables()) == list(wrapped.variables)


def test_invalid_arguments_are_refused(hvd, keras) -> None:
    def wrap(**options):
        return hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), **options)

    for options in (
        {"op": hvd.Adasum},
        {"op": 77},
        {"op": hvd.Sum, "gradient_predivide_factor": 2.0},
        {"backward_passes_per_step": 0},
        {"groups": -1},
        {"groups": [["kernel"]]},
    ):
        with pytest.raises(ValueError):
            wrap(**options)
    with pytest.raises(ValueError, match="none of Keras"):
        hvd.DistributedOptimizer("sgd")
    with pytest.raises(ValueError, match="local_layers"):
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=["dense"])
    with pytest.warns(DeprecationWarning):
        wrap(num_groups=2)


def test_signatures_match_the_table() -> None:
    from conftest import BINDING
    from farandole.common.signatures import differences

    assert [each for part in ("", ".callbacks", ".elastic") for each in differences(BINDING + part)] == []
