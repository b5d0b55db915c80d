"""Parameters that some ranks or all do not use in a step: the ranks train like one process on the whole batch, in which
a parameter that no sample uses has no gradient."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import by_hand
import horovod.torch as hvd
import pytest
import torch
from horovod.torch.compression import Allgather, Allreduce, GradientCompressor

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
STEPS = 6


class Experts(torch.nn.Module):
    """A body, and experts of which each batch uses some: the first is used by one rank in each step, the second by all
    ranks or by none, the third late, and the fourth never."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.body = torch.nn.Linear(4, 6)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(6, 40) for _ in range(4))

    def forward(self, step: int, rank: int, size: int) -> torch.Tensor:
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(100 * step + rank))
        hidden = torch.tanh(self.body(x))
        used = (rank == step % size, step % 2 == 0, step >= 4, False)
        total: torch.Tensor = hidden.square().mean()
        for expert, is_used in zip(self.experts, used):
            if is_used:
                total = total + expert(hidden).square().mean()
        return total


def train(rank: int, size: int, make: Callable[[Any], Any], passes: int = 1, **options: Any) -> Any:
    """The optimizer, and the model that it has trained, of one of several ranks; alone if ``rank`` is negative."""
    model = Experts()
    optimizer = make(model.parameters())
    if rank >= 0:
        optimizer = hvd.DistributedOptimizer(
            optimizer, model.named_parameters(), backward_passes_per_step=passes, **options
        )
    for step in range(STEPS):
        optimizer.zero_grad()
        for number in range(passes):
            for part in range(size) if rank < 0 else [rank]:
                (model(step + number, part, size) / (size if rank < 0 else 1)).backward()
        optimizer.step()
    return model, optimizer


def assert_same(trained: Any, expected: Any) -> None:
    """The same weights, and the same state, for the same parameters."""
    (model, optimizer), (other_model, other) = trained, expected
    for (name, value), (_, wanted) in zip(model.named_parameters(), other_model.named_parameters()):
        assert (value.grad is None) == (wanted.grad is None), name
        torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
        state: Dict[str, Any] = optimizer.state[value]
        assert state.keys() == other.state[wanted].keys(), name
        for key, entry in state.items():
            torch.testing.assert_close(entry, other.state[wanted][key], rtol=1e-4, atol=1e-5)


OPTIMIZERS: Dict[str, Callable[[Any], Any]] = {
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.05, weight_decay=0.1),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.05),
}


@pytest.mark.parametrize(
    ("optimizer", "passes", "options"),
    [
        ("momentum", 1, {}),
        ("momentum", 1, {"groups": 2}),
        ("momentum", 1, {"gradient_predivide_factor": 2.0}),
        ("momentum", 2, {"groups": 2}),
        ("adam", 1, {"groups": 2}),
        ("adam", 2, {}),
        ("adamw", 1, {}),
    ],
    ids=str,
)
def test_an_unused_parameter_and_its_state_stay_as_in_one_process(
    optimizer: str, passes: int, options: Any, rank: int, size: int
) -> None:
    expected = train(-1, size, OPTIMIZERS[optimizer], passes)
    assert_same(train(rank, size, OPTIMIZERS[optimizer], passes, **options), expected)


def test_an_unused_parameter_stays_as_it_is_with_sums(rank: int, size: int) -> None:
    expected = train(-1, size, OPTIMIZERS["adam"])
    summed = train(rank, size, lambda parameters: _scaled(OPTIMIZERS["adam"](parameters), size), op=hvd.Sum)
    assert_same(summed, expected)


def _scaled(optimizer: Any, size: int) -> Any:
    """Divides the gradients by the number of ranks before the step."""

    def divide(stepping: Any, *_: Any) -> None:
        for group in stepping.param_groups:
            for each in group["params"]:
                if each.grad is not None:
                    each.grad.div_(size)

    optimizer.register_step_pre_hook(divide)
    return optimizer


class Levels(GradientCompressor):
    """Rounds to multiples of a step on which ranks agree first, by an operation from which no rank can be absent."""

    def exchange(self, name: str, gradient: torch.Tensor, how: Any) -> Any:
        largest = yield Allreduce(gradient.abs().max().reshape(1), "largest", op=hvd.Max)
        step = (largest / 1000).clamp(min=1e-30)
        levels = yield Allreduce((gradient / step).round())
        return levels * step


class Bits(GradientCompressor):
    """Gathers gradients without loss, in messages that look like the indices of sparse gradients with rows."""

    def exchange(self, name: str, gradient: torch.Tensor, how: Any) -> Any:
        gathered = yield Allgather(gradient.double().view(torch.int64).reshape(-1, 1))
        stacked = gathered.view(torch.float64).reshape(-1, *gradient.shape)
        return stacked.sum(0).mul_(how.factor).to(gradient.dtype)


class Halves(GradientCompressor):
    """Sends each half in a message of its own, the second one in two rounds."""

    def exchange(self, name: str, gradient: torch.Tensor, how: Any) -> Any:
        flat = gradient.reshape(-1)
        middle = len(flat) // 2
        firsts, second = yield [Allgather(flat[None, :middle]), Allreduce(flat[middle:] / 2)]
        second += yield Allreduce(flat[middle:] / 2)
        return torch.cat([firsts.sum(0) * how.factor, second]).view(gradient.shape)


@pytest.mark.parametrize("name", ["fp16", "topk", "powersgd", "levels", "bits", "halves"])
def test_an_unused_parameter_stays_as_it_is_with_compression(name: str, rank: int, size: int) -> None:
    compressions = {
        "fp16": lambda: hvd.Compression.fp16,
        "topk": lambda: hvd.Compression.topk(0.5, min_elements=8),
        "powersgd": lambda: hvd.Compression.powersgd(1, min_elements=8),
        "levels": Levels,
        "bits": Bits,
        "halves": Halves,
    }
    model, optimizer = train(rank, size, OPTIMIZERS["adam"], compression=compressions[name](), groups=2)
    untouched = Experts()
    for each, other in zip(model.experts[3].parameters(), untouched.experts[3].parameters()):
        assert torch.equal(each, other)
        assert each.grad is None and not optimizer.state[each]
    assert not torch.equal(model.experts[0].weight, untouched.experts[0].weight)
    steps = {optimizer.state[each]["step"].item() for each in model.experts[1].parameters()}
    assert steps == {STEPS / 2}
    flat = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
    assert all(torch.equal(each, flat) for each in hvd.allgather(flat.unsqueeze(0), name="parameters"))


def test_adasum_leaves_a_parameter_that_no_rank_used_as_it_is(rank: int, size: int) -> None:
    if size & (size - 1):
        pytest.skip("Adasum needs a power of two")
    model, optimizer = train(rank, size, OPTIMIZERS["momentum"], op=hvd.Adasum)
    untouched = Experts()
    for each, other in zip(model.experts[3].parameters(), untouched.experts[3].parameters()):
        assert torch.equal(each, other)
        assert not optimizer.state[each]
    assert not torch.equal(model.experts[0].weight, untouched.experts[0].weight)
    flat = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
    assert all(torch.equal(each, flat) for each in hvd.allgather(flat.unsqueeze(0), name="parameters"))


@several_ranks
def test_in_a_process_set_an_unused_parameter_stays_as_it_is(rank: int, size: int) -> None:
    all_but_the_last = hvd.add_process_set(list(range(size - 1)))
    if rank < size - 1:
        expected = train(-1, size - 1, OPTIMIZERS["momentum"])
        assert_same(train(rank, size - 1, OPTIMIZERS["momentum"], process_set=all_but_the_last), expected)
    hvd.remove_process_set(all_but_the_last)


@several_ranks
def test_a_rank_that_has_joined_contributes_nothing_either(rank: int, size: int) -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = hvd.DistributedOptimizer(OPTIMIZERS["momentum"]([parameter]), [("weight", parameter)])
    if rank == 0:
        hvd.join()
    else:
        optimizer.step()
        assert parameter.grad is None and not optimizer.state[parameter]
        hvd.join()
    assert torch.equal(parameter, torch.ones(3))


class Tables(torch.nn.Module):
    """Embeddings of words, which every batch uses, and of users and places, which some batches use."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.words = torch.nn.Embedding(6, 3, sparse=sparse)
        self.users = torch.nn.Embedding(5, 3, sparse=sparse)
        self.places = torch.nn.Embedding(4, 3, sparse=sparse)
        self.scale = torch.nn.Linear(3, 3)

    def forward(self, step: int, rank: int, size: int) -> torch.Tensor:
        value = self.words(torch.tensor([step % 6, 1])).sum(0)
        if step == 2 or (step != 4 and rank == step % size):
            value = value + self.users(torch.tensor([2, (step + rank) % 5])).sum(0)
        if step != 3 and rank != step % size:
            value = value + self.places(torch.tensor([rank % 4] if step else [], dtype=torch.int64)).sum(0)
        if step == 1:
            value = self.scale(value)
        total: torch.Tensor = value.square().sum()
        return total


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"groups": 2},
        {"backward_passes_per_step": 2},
        {"sparse_as_dense": True},
        {"compression": hvd.Compression.fp16},
        {"compression": hvd.Compression.powersgd(1, min_elements=10)},
        {"compression": hvd.Compression.powersgd(1, min_elements=10), "groups": 2},
        {"compression": hvd.Compression.topk(0.4, min_elements=12)},
        {"compression": hvd.Compression.topk(0.4, min_elements=12), "groups": 2},
        {"compression": hvd.Compression.topk(0.4, min_elements=12), "backward_passes_per_step": 2},
        {"compression": Bits()},
        {"compression": Bits(), "groups": 1},
        {"compression": Halves()},
        {"compression": Halves(), "groups": 2},
    ],
    ids=lambda each: ", ".join(f"{key}={type(value).__name__}" for key, value in each.items()) or "plain",
)
@several_ranks
def test_a_sparse_gradient_that_some_ranks_or_all_lack_is_reduced_as_in_one_process(
    options: Any, rank: int, size: int
) -> None:
    passes = options.get("backward_passes_per_step", 1)
    model, expected = Tables(True), Tables(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    reference = torch.optim.SGD(expected.parameters(), lr=0.05, momentum=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), **options)
    for step in range(STEPS):
        for each in (optimizer, reference):
            each.zero_grad()
        for number in range(passes):
            model(step + number, rank, size).backward()
            for part in range(size):
                (expected(step + number, part, size) / size).backward()
        for each in (optimizer, reference):
            each.step()
        for (name, value), other in zip(model.named_parameters(), expected.parameters()):
            assert (value.grad is None) == (other.grad is None), f"step {step}: {name}"
            is_rounded = "compression" in options
            tolerance = {"rtol": 1e-2, "atol": 1e-2} if is_rounded else {"rtol": 1e-4, "atol": 1e-5}
            torch.testing.assert_close(value, other, **tolerance)


@pytest.mark.parametrize("options", [{}, {"groups": 1}], ids=["singly", "in a group"])
@several_ranks
def test_sparse_adam_gets_a_sparse_gradient_of_a_table_that_its_rank_has_not_used_yet(
    options: Any, rank: int, size: int
) -> None:
    """With `sparse_as_dense`. The last rank uses the second table late; and in one step no rank does."""

    def loss(tables: Any, step: int, part: int) -> torch.Tensor:
        total: torch.Tensor = tables[0](torch.tensor([part % 6, 5])).square().sum()
        if step not in (1, 3) and (step > 3 or part != size - 1):
            total = total + tables[1](torch.tensor([step % 4, part % 4])).square().sum()
        return total

    def tables() -> Any:
        torch.manual_seed(4)
        return torch.nn.ModuleList(torch.nn.Embedding(rows, 3, sparse=True) for rows in (6, 4))

    model, expected = tables(), tables()
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), sparse_as_dense=True, **options)
    reference = torch.optim.SparseAdam(list(expected.parameters()), lr=0.1)
    for step in range(STEPS):
        for each in (optimizer, reference):
            each.zero_grad()
        loss(model, step, rank).backward()
        for part in range(size):
            (loss(expected, step, part) / size).backward()
        for each in (optimizer, reference):
            each.step()
        for (name, value), other in zip(model.named_parameters(), expected.parameters()):
            assert (value.grad is None) == (other.grad is None), f"step {step}: {name}"
            torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-5)


COMPRESSIONS: Dict[str, Callable[[], Any]] = {
    "none": lambda: hvd.Compression.none,
    "topk": lambda: hvd.Compression.topk(0.25, min_elements=1),
    "bits": Bits,
    "halves": Halves,
}
each_compression = pytest.mark.parametrize("compression", list(COMPRESSIONS))


@each_compression
@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
@several_ranks
def test_two_ranks_that_lack_the_gradients_of_each_other_do_not_wait_for_each_other(
    sparse: bool, compression: str, rank: int, size: int
) -> None:
    tables: List[torch.nn.Embedding] = [torch.nn.Embedding(4, 2, sparse=sparse) for _ in range(size)]
    named = [(f"table.{number}", each.weight) for number, each in enumerate(tables)]
    hvd.broadcast_parameters(dict(named), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([each for _, each in named], lr=1.0), named, compression=COMPRESSIONS[compression]()
    )
    before = [each.detach().clone() for _, each in named]
    tables[rank](torch.tensor([rank % 4])).sum().backward()
    optimizer.step()
    for number, (each, (_, after)) in enumerate(zip(before, named)):
        each[number % 4] -= 1 / size
        torch.testing.assert_close(after.detach(), each)


@each_compression
@several_ranks
def test_a_gradient_that_is_sparse_on_one_rank_and_dense_on_another_is_an_error_on_all(
    compression: str, rank: int
) -> None:
    table = torch.nn.Embedding(4, 2, sparse=rank == 0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=1.0),
        [(f"table.{compression}", table.weight)],
        compression=COMPRESSIONS[compression](),
    )
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(hvd.MismatchError, match=f"table.{compression}"):
        optimizer.step()


@each_compression
@several_ranks
def test_after_gradients_that_are_sparse_on_some_ranks_only_the_names_can_be_used_again(
    compression: str, rank: int, size: int
) -> None:
    """Ranks with a sparse gradient request its values, too, and ranks with a dense one other messages."""
    name = f"again.{compression}"
    tables = {is_sparse: torch.nn.Embedding(4, 2, sparse=is_sparse) for is_sparse in (True, False)}

    def step(is_sparse: bool) -> None:
        table = tables[is_sparse]
        table.zero_grad()
        table.weight.data.zero_()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(table.parameters(), lr=1.0), [(name, table.weight)], compression=COMPRESSIONS[compression]()
        )
        try:
            (table(torch.tensor([1])) * (rank + 1)).sum().backward()
            optimizer.step()
        finally:
            optimizer.let_go()
        expected = torch.zeros(4, 2)
        expected[1] = -(size + 1) / 2
        torch.testing.assert_close(table.weight.detach(), expected)

    def fail(is_sparse: bool) -> None:
        with pytest.raises(hvd.MismatchError, match=name):
            step(is_sparse)

    for attempt in range(2):
        for _ in range(4):  # small dense messages then use the fast path
            step(attempt == 0)
            step(attempt == 1)
        fail(rank == 0)
        fail(rank != 0)
        fail(rank == 0)


@several_ranks
def test_errors_of_topk_wait_for_a_dense_gradient(rank: int, size: int) -> None:
    """A step in which others have a sparse gradient, or no rank has one, does not touch them. In a step in which others
    have a dense gradient, they are sent as if this rank had zeros."""
    parameter = torch.nn.Parameter(torch.zeros(6, 4))
    compression = hvd.Compression.topk(0.25, min_elements=1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([parameter], lr=0.0), [("weight", parameter)], compression=compression
    )
    simulated = [hvd.Compression.topk(0.25, min_elements=1) for _ in range(size)]

    def of_rank(number: int, step: int) -> torch.Tensor:
        return torch.randn(6, 4, generator=torch.Generator().manual_seed(10 * step + number))

    for step, kind in enumerate(["dense on all", "sparse on one", "on none", "dense on one", "sparse on one"]):
        given = [of_rank(each, step) if each == 0 or kind == "dense on all" else None for each in range(size)]
        if kind == "on none":
            given = [None] * size
        parameter.grad = None if given[rank] is None else of_rank(rank, step)
        if parameter.grad is not None and kind == "sparse on one":
            parameter.grad = parameter.grad.to_sparse(1)
        optimizer.step()
        if kind == "on none":
            assert parameter.grad is None
            continue
        assert parameter.grad is not None
        assert parameter.grad.is_sparse == (kind == "sparse on one")
        if kind == "sparse on one":
            expected = of_rank(0, step) / size
        else:
            filled = [torch.zeros(6, 4) if each is None else each for each in given]
            expected = by_hand.exchange(simulated, "weight", filled)[0]
        torch.testing.assert_close(parameter.grad.to_dense(), expected, msg=lambda text, kind=kind: f"{kind}: {text}")
        torch.testing.assert_close(compression.state_dict(), simulated[rank].state_dict())


@several_ranks
def test_zeros_take_part_in_an_operation_that_does_not_add(rank: int) -> None:
    layer = torch.nn.Linear(2, 1)
    hvd.broadcast_parameters(layer.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(layer.parameters(), lr=0.1), layer.named_parameters(), op=hvd.Max
    )
    if rank == 0:
        layer(torch.tensor([[3.0, -3.0]])).sum().backward()
    optimizer.synchronize()
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[3.0, 0.0]]


@several_ranks
def test_sparse_gradients_are_not_added_if_another_operation_is_requested(rank: int) -> None:
    table = torch.nn.Embedding(3, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=0.1), table.named_parameters(), op=hvd.Max
    )
    with pytest.raises(NotImplementedError, match="op=Average or op=Sum only"):
        table(torch.tensor([rank])).sum().backward()
    optimizer.let_go()
