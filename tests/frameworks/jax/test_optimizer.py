"""The distributed optimizer, broadcast parameters, and objects."""

from __future__ import annotations

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

RARE_TYPES = ["complex64", "uint32", "float8_e4m3fn", "float8_e5m2"]


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    """Compiling takes most of the time of these tests, whose programs run a few times."""
    name = "jax_disable_most_optimizations"
    before = jax.config.read(name)
    jax.config.update(name, True)
    yield
    jax.config.update(name, before)


def parameters(seed: int = 0):
    draw = np.random.default_rng(seed).standard_normal
    hidden = {"kernel": jnp.asarray(draw((6, 8)), "float32"), "bias": jnp.zeros(8, "float32")}
    return {"hidden": hidden, "out": jnp.asarray(draw((8, 1)), "float32")}


def loss(params, x, y):
    hidden = jnp.tanh(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return jnp.mean((hidden @ params["out"] - y) ** 2)


def batches(size: int, steps: int):
    x = np.random.default_rng(1).standard_normal((steps, size, 4, 6), "float32")
    return x, np.sin(x.sum(axis=-1, keepdims=True))


def trained(optimizer, params, xs, ys, compiled: bool = True):
    def step(params, state, x, y):
        updates, state = optimizer.update(jax.grad(loss)(params, x, y), state, params)
        return optax.apply_updates(params, updates), state

    run = jax.jit(step) if compiled else step
    state = optimizer.init(params)
    for x, y in zip(xs, ys):
        params, state = run(params, state, x, y)
    return params


def assert_alike(one, other, **tolerance) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
        np.testing.assert_allclose(a, b, **(tolerance or {"rtol": 2e-5, "atol": 1e-6}))


@pytest.mark.parametrize("variant", [pytest.param("inside", marks=pytest.mark.slow), "outside", "groups", "predivided"])
def test_training_steps_match_those_of_one_big_batch(variant: str, rank: int, size: int) -> None:
    xs, ys = batches(size, 5)
    options = {"groups": {"groups": 2}, "predivided": {"gradient_predivide_factor": 2.0}}.get(variant, {})
    params = trained(
        hvd.DistributedOptimizer(optax.adam(0.05), name=variant, **options),
        parameters(),
        xs[:, rank],
        ys[:, rank],
        compiled=variant != "outside",
    )
    assert_alike(params, trained(optax.adam(0.05), parameters(), xs.reshape(5, -1, 6), ys.reshape(5, -1, 1)))


def test_fp16_compression_stays_close_to_one_big_batch(rank: int, size: int) -> None:
    xs, ys = batches(size, 3)
    optimizer = hvd.DistributedOptimizer(optax.sgd(0.1), compression=hvd.Compression.fp16)
    params = trained(optimizer, parameters(), xs[:, rank], ys[:, rank])
    assert_alike(
        params, trained(optax.sgd(0.1), parameters(), xs.reshape(3, -1, 6), ys.reshape(3, -1, 1)), rtol=0.02, atol=0.01
    )


@pytest.mark.parametrize("is_mean", [False, True])
def test_several_backward_passes_make_one_step(rank: int, size: int, is_mean: bool) -> None:
    xs, ys = batches(size, 4)
    optimizer = hvd.DistributedOptimizer(
        optax.sgd(0.1), name=f"passes.{is_mean}", backward_passes_per_step=2, average_aggregated_gradients=is_mean
    )
    params = trained(optimizer, parameters(), xs[:, rank], ys[:, rank])
    factor = 1.0 if is_mean else 2.0
    joined_x, joined_y = xs.reshape(2, -1, 6), ys.reshape(2, -1, 1)
    assert_alike(params, trained(optax.sgd(0.1 * factor), parameters(), joined_x, joined_y))


def test_two_optimizers_without_names_train_the_parts_of_one_model(rank: int, size: int) -> None:
    def parts(wrap):
        optimizers = {"first": wrap(optax.adam(0.05)), "second": wrap(optax.sgd(0.1, momentum=0.9))}
        labels = {"hidden": {"kernel": "first", "bias": "second"}, "out": "first"}
        return optax.multi_transform(optimizers, labels)

    xs, ys = batches(size, 5)
    params = trained(parts(hvd.DistributedOptimizer), parameters(), xs[:, rank], ys[:, rank])
    one = trained(parts(lambda each: each), parameters(), xs.reshape(5, -1, 6), ys.reshape(5, -1, 1))
    assert_alike(params, one)


def test_an_infinite_gradient_on_one_rank_skips_the_step_on_all_ranks(rank: int, size: int) -> None:
    optimizer = hvd.DistributedOptimizer(optax.apply_if_finite(optax.sgd(0.1), 5))
    plain = optax.apply_if_finite(optax.sgd(0.1), 5)
    xs, ys = batches(size, 3)
    ys[1, -1] = np.inf
    params = trained(optimizer, parameters(), xs[:, rank], ys[:, rank])
    assert_alike(params, trained(plain, parameters(), xs.reshape(3, -1, 6), ys.reshape(3, -1, 1)))


@pytest.mark.parametrize("kind", ["injected", pytest.param("adafactor", marks=pytest.mark.slow)])
def test_several_passes_with_an_optimizer_that_widens_its_gradients_or_its_state(kind: str) -> None:
    plain = optax.inject_hyperparams(optax.adam)(0.1) if kind == "injected" else optax.adafactor(0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(plain, name=f"widens.{kind}", backward_passes_per_step=2)
    params = {"bias": jnp.ones(3, "float32"), "kernel": jnp.ones((2, 3), "bfloat16")}
    state, expected = optimizer.init(params), plain.init(params)
    for step in range(4):
        updates, state = jax.jit(optimizer.update)(jax.tree.map(jnp.ones_like, params), state, params)
        due, after = plain.update(jax.tree.map(lambda each: jnp.full_like(each, 2), params), expected, params)
        expected = after if step % 2 else expected
        assert_alike(updates, due if step % 2 else jax.tree.map(jnp.zeros_like, due), rtol=0.02)
        assert jax.tree.map(lambda each: each.dtype, (updates, state.inner)) == jax.tree.map(
            lambda each: each.dtype, (due, after)
        )


SEARCHES = {
    "zoom": lambda: optax.lbfgs(memory_size=3),
    "backtracking": lambda: optax.chain(
        optax.sgd(4.0), optax.scale_by_backtracking_linesearch(8, max_learning_rate=2.0, store_grad=True)
    ),
    "polyak": optax.polyak_sgd,
    "sharpness": lambda: optax.contrib.sam(optax.sgd(0.1), optax.sgd(0.5), opaque_mode=True),
}


@pytest.mark.parametrize(
    ("kind", "compiled"),
    [
        pytest.param("zoom", True, marks=pytest.mark.slow),
        ("backtracking", True),
        pytest.param("backtracking", False, marks=pytest.mark.slow),
        pytest.param("polyak", False, marks=pytest.mark.slow),
        pytest.param("sharpness", True, marks=pytest.mark.slow),
    ],
)
def test_optimizers_that_decide_by_the_loss_decide_by_that_of_all_ranks(
    kind: str, compiled: bool, name: str, rank: int, size: int
) -> None:
    """The losses of ranks differ greatly."""
    xs, ys = batches(size, 4)
    ys *= 1 + 4 * np.arange(size, dtype="float32")[:, None, None]

    def trained(optimizer, xs, ys):
        def step(params, state, x, y):
            value, grad = jax.value_and_grad(loss)(params, x, y)
            functions = {
                "sharpness": {"grad_fn": lambda params, _: jax.grad(loss)(params, x, y)},
                "polyak": {"value": value},
            }
            search = {"value": value, "grad": grad, "value_fn": loss, "x": x, "y": y}
            updates, state = optimizer.update(grad, state, params, **functions.get(kind, search))
            return optax.apply_updates(params, updates), state

        params = parameters()
        run = jax.jit(step) if compiled else step
        with jax.enable_x64(False):  # with it, which other tests need, Optax's search fails in one process, too
            state = optimizer.init(params)
            for x, y in zip(xs, ys):
                params, state = run(params, state, x, y)
        return params, state

    found = trained(hvd.DistributedOptimizer(SEARCHES[kind](), name=name), xs[:, rank], ys[:, rank])
    assert_alike(found, trained(SEARCHES[kind](), xs.reshape(4, -1, 6), ys.reshape(4, -1, 1)), rtol=1e-3, atol=1e-4)
    for each in jax.tree.leaves(found):
        of_all = hvd.allgather(jnp.asarray(each)[None], name=name)
        assert (of_all == of_all[0]).all()


@pytest.mark.parametrize(
    ("options", "argument", "remedy"),
    [
        ({"op": hvd.Sum}, "value_fn", "op=Average"),
        ({"backward_passes_per_step": 2}, "grad_fn", "backward_passes_per_step=1"),
        ({}, "obj_fn", "an optimizer that needs none"),
    ],
)
def test_functions_of_the_loss_that_are_not_averaged_are_refused(options, argument: str, remedy: str) -> None:
    optimizer = hvd.DistributedOptimizer(optax.sgd(0.1), **options)
    params = parameters()
    with pytest.raises(ValueError, match=f"was given {argument}.*{remedy}"):
        optimizer.update(params, optimizer.init(params), params, **{argument: lambda params: 0.0})


@pytest.mark.parametrize("op", ["Average", "Sum"])
def test_complex_gradients_are_reduced_as_pairs(op: str, rank: int, size: int) -> None:
    optimizer = hvd.DistributedOptimizer(optax.sgd(1.0), name=f"complex.{op}", op=getattr(hvd, op))
    gradients = {"wave": jnp.full((2, 3), rank + 1j, "complex64"), "scale": jnp.full(2, float(rank))}

    def update(gradients):
        return optimizer.update(gradients, optimizer.init(gradients))[0]

    factor = size if op == "Sum" else 1
    for run in (update, jax.jit(update)):
        updates = run(gradients)
        assert updates["wave"].dtype == "complex64"
        np.testing.assert_allclose(updates["wave"], np.full((2, 3), -factor * ((size - 1) / 2 + 1j)))
        np.testing.assert_allclose(updates["scale"], np.full(2, -factor * (size - 1) / 2))


def test_complex_gradients_have_no_minimum() -> None:
    optimizer = hvd.DistributedOptimizer(optax.sgd(1.0), op=hvd.Min)
    gradients = {"wave": jnp.ones(3, "complex64")}
    with pytest.raises(ValueError, match="not complex64"):
        optimizer.update(gradients, optimizer.init(gradients))


def test_adasum_of_equal_updates_is_the_update(rank: int, size: int) -> None:
    if size & (size - 1):
        return
    xs, ys = batches(1, 3)
    params = trained(hvd.DistributedOptimizer(optax.sgd(0.1), op=hvd.Adasum), parameters(), xs[:, 0], ys[:, 0])
    assert_alike(params, trained(optax.sgd(0.1), parameters(), xs[:, 0], ys[:, 0]))


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="backward_passes_per_step"):
        hvd.DistributedOptimizer(optax.sgd(0.1), backward_passes_per_step=0)
    with pytest.raises(ValueError, match="predivide"):
        hvd.DistributedOptimizer(optax.sgd(0.1), op=hvd.Sum, gradient_predivide_factor=2.0)
    with pytest.raises(ValueError, match="groups"):
        hvd.DistributedOptimizer(optax.sgd(0.1), groups=0)


def test_broadcast_parameters_gives_all_ranks_the_roots_values(rank: int, size: int) -> None:
    root = size - 1
    params = {"net": parameters(rank), "state": optax.adam(0.1).init(parameters(rank)), "epoch": rank, "lr": rank / 2}
    params["key"] = jax.random.key(rank)
    params["rare"] = [jnp.asarray(np.full(3, rank + 1, jnp.dtype(kind))) for kind in RARE_TYPES]
    received = hvd.broadcast_parameters(params, root)
    assert jax.tree.structure(received) == jax.tree.structure(params)
    assert_alike(received["net"], parameters(root), rtol=0)
    assert (received["epoch"], received["lr"]) == (root, root / 2)
    assert [str(each.dtype) for each in received["rare"]] == RARE_TYPES
    assert [each.tolist() for each in received["rare"]] == [[size] * 3] * len(RARE_TYPES)
    assert jax.random.key_data(received["key"]).tolist() == jax.random.key_data(jax.random.key(root)).tolist()


@pytest.mark.parametrize("variant", ["inside", "outside"])
def test_broadcast_parameters_keeps_weak_types_and_random_keys(variant: str, rank: int) -> None:
    params = {"weak": jnp.full(2, float(rank)), "strong": jnp.full(2, rank, "float32"), "key": jax.random.key(rank)}
    half = jnp.ones(2, "bfloat16")

    def products(params):
        received = hvd.broadcast_parameters(params)
        return half * received["weak"], half * received["strong"], jax.random.key_data(received["key"])

    weak, strong, key = (jax.jit(products) if variant == "inside" else products)(params)
    assert (weak.dtype, strong.dtype) == ("bfloat16", "float32")
    assert weak.tolist() == strong.tolist() == [0.0, 0.0] and key.tolist() == [0, 0]


def test_broadcast_parameters_gives_all_ranks_the_weak_types_of_the_root(rank: int, size: int) -> None:
    """The root has read its parameters from a file, and the others have made new ones; or the other way round."""
    weak = [jnp.asarray(2.0), jnp.asarray(1) > 0]
    strong = [each.astype(each.dtype) for each in weak]
    for root in (0, size - 1):
        received = hvd.broadcast_parameters([*strong, *weak] if rank == root else [*weak, *strong], root)
        assert [each.weak_type for each in received] == [False, False, True, True]


def test_an_elastic_state_takes_types_that_steps_of_the_root_have_widened(rank: int) -> None:
    """A worker that joins has the types of a new model."""
    optimizer = optax.inject_hyperparams(optax.lion)(0.1)  # it gives the rate the type of the first parameter
    params = {"first": jnp.ones(2), "w": jnp.ones(2, "bfloat16")}
    state = optimizer.init(params)
    if rank == 0:
        _, state = optimizer.update(params, state, params)
    assert state.inner_state[0].mu["w"].dtype == (params["first"].dtype if rank == 0 else "bfloat16")
    elastic = hvd.elastic.JaxState(state=state, epoch=1.5 if rank == 0 else 0)
    elastic.sync()
    assert elastic.state.inner_state[0].mu["w"].dtype == params["first"].dtype
    assert elastic.epoch == 1.5
    assert hvd.broadcast_parameters([2.5 if rank == 0 else 1]) == [2.5]


def test_numpy_values_keep_their_types_in_broadcast_parameters(rank: int) -> None:
    """Of another kind, and those that JAX has not."""
    sent = {"scalar": np.float64(rank), "text": np.array([f"r{rank}"]), "pair": np.array([(rank, 1.5)], "i4,f8")}
    received = hvd.broadcast_parameters(sent)
    assert {name: type(each) for name, each in received.items()} == {name: type(each) for name, each in sent.items()}
    assert received["scalar"] == 0.0 and received["text"].tolist() == ["r0"] and received["pair"].tolist() == [(0, 1.5)]
    with pytest.raises(ValueError, match="newbyteorder"):
        hvd.broadcast_parameters([np.ones(3, ">f4")])


def test_an_empty_tree_is_broadcast_without_an_operation(rank: int) -> None:
    assert rank > 0 or hvd.broadcast_parameters({"none": None}) == {"none": None}


def test_broadcast_parameters_inside_a_program_gives_all_ranks_the_roots_values(rank: int, size: int) -> None:
    received = jax.jit(lambda params: hvd.broadcast_parameters(params, size - 1))(parameters(rank))
    assert_alike(received, parameters(size - 1), rtol=0)


@pytest.mark.parametrize("way", ["broadcast_object", "broadcast_parameters", "broadcast"])
def test_all_ranks_trace_again_after_values_of_a_weak_type(way: str, name: str) -> None:
    traced = []

    @jax.jit
    def program(value, is_done):
        traced.append((value.weak_type, is_done.weak_type))
        return hvd.allreduce(value) * jnp.ones((), value.dtype), is_done | jnp.zeros((), bool)

    give = {
        "broadcast_object": lambda values: hvd.broadcast_object(values, 0, name),
        "broadcast_parameters": hvd.broadcast_parameters,
        "broadcast": lambda values: [hvd.broadcast(each, 0, f"{name}.{i}") for i, each in enumerate(values)],
    }[way]
    values = give((jnp.asarray(1.0), jnp.asarray(1.0) < 0))
    for _ in range(3):
        values = program(*values)
    assert traced == [(True, True), (False, False)] and values == (1, False)


def test_objects_are_broadcast_and_gathered(rank: int, size: int) -> None:
    assert hvd.broadcast_object({"rank": rank}, size - 1) == {"rank": size - 1}
    assert hvd.allgather_object("x" * rank) == ["x" * other for other in range(size)]


def test_the_two_optimizers_of_a_gan_step_like_those_of_one_big_batch(rank: int, size: int) -> None:
    def forward(network, x):
        return jnp.tanh(x @ network["hidden"]) @ network["out"]

    def loss_of_critic(critic, maker, real, noise):
        real, fake = forward(critic, real), forward(critic, forward(maker, noise))
        return jnp.mean(jax.nn.softplus(-real)) + jnp.mean(jax.nn.softplus(fake))

    def loss_of_maker(maker, critic, noise):
        return jnp.mean(jax.nn.softplus(-forward(critic, forward(maker, noise))))

    def trained_both(of_critic, of_maker, reals, noises):
        @jax.jit
        def step(critic, maker, states, real, noise):
            changes, first = of_critic.update(jax.grad(loss_of_critic)(critic, maker, real, noise), states[0], critic)
            critic = optax.apply_updates(critic, changes)
            changes, second = of_maker.update(jax.grad(loss_of_maker)(maker, critic, noise), states[1], maker)
            return critic, optax.apply_updates(maker, changes), (first, second)

        draw = np.random.default_rng(2).standard_normal
        critic = {"hidden": jnp.asarray(draw((4, 5)), "float32"), "out": jnp.asarray(draw((5, 1)), "float32")}
        maker = {"hidden": jnp.asarray(draw((3, 5)), "float32"), "out": jnp.asarray(draw((5, 4)), "float32")}
        states = of_critic.init(critic), of_maker.init(maker)
        for real, noise in zip(reals, noises):
            critic, maker, states = step(critic, maker, states, real, noise)
        return critic, maker, states

    draw = np.random.default_rng(1).standard_normal
    reals, noises = draw((4, size, 6, 4), "float32"), draw((4, size, 6, 3), "float32")
    plain = optax.sgd(0.1, momentum=0.9), optax.adam(0.02)
    wrapped = [hvd.DistributedOptimizer(each, name=name) for each, name in zip(plain, ("critic", "maker"))]
    assert_alike(
        trained_both(*wrapped, reals[:, rank], noises[:, rank]),
        trained_both(*plain, reals.reshape(4, -1, 4), noises.reshape(4, -1, 3)),
        rtol=1e-4,
        atol=1e-5,
    )
