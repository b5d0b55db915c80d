"""Compressors with error feedback under the optimizer and under allreduce, on real ranks."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import by_hand
import horovod.torch as hvd
import pytest
import torch
from horovod.torch.compression import GradientCompressor

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


own = example("custom_compression")

MAKERS: Dict[str, Callable[[], GradientCompressor]] = {
    "powersgd": lambda: hvd.Compression.powersgd(rank=2),
    "topk": lambda: hvd.Compression.topk(ratio=0.1),
    "pair": lambda: hvd.Compression.custom(own.Rounded),
    "generator": lambda: hvd.Compression.custom(own.signs),
}
each_kind = pytest.mark.parametrize("kind", list(MAKERS))


def model_of(width: int = 48) -> torch.nn.Sequential:
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(40, width), torch.nn.Tanh(), torch.nn.Linear(width, 32))


def batch(rank: int, step: int, rows: int = 3) -> torch.Tensor:
    return torch.randn(rows, 40, generator=torch.Generator().manual_seed(100 * step + rank))


def trained(compression: Any, rank: int, steps: int = 4, passes: int = 1, **options: Any) -> torch.nn.Sequential:
    model = model_of()
    if callable(options.get("groups")):
        options["groups"] = options["groups"](model)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        model.named_parameters(),
        compression=compression,
        backward_passes_per_step=passes,
        **options,
    )
    for step in range(steps):
        optimizer.zero_grad()
        for number in range(passes):
            model(batch(rank, step * passes + number)).square().mean().backward()
        optimizer.step()
    return model


def trained_by_hand(kind: str, size: int, steps: int = 4, passes: int = 1, op: int = hvd.Average) -> Any:
    """Simulates all ranks in one process and exchanges their gradients with ``by_hand``."""
    model = model_of()
    compressors = [MAKERS[kind]() for _ in range(size)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        given: List[Dict[str, torch.Tensor]] = []
        for rank in range(size):
            model.zero_grad()
            for number in range(passes):
                model(batch(rank, step * passes + number)).square().mean().backward()
            given.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
        for name, parameter in model.named_parameters():
            parameter.grad = by_hand.exchange(compressors, name, [gradients[name] for gradients in given], op)[0]
        optimizer.step()
    return model


def assert_close(model: torch.nn.Module, expected: torch.nn.Module) -> None:
    for (key, value), other in zip(model.named_parameters(), expected.parameters()):
        # Sums that are rounded differently may change a sign or a selected entry: few entries, and by little.
        off = (value - other).abs() > 1e-4 + 1e-3 * other.abs()
        assert off.float().mean() < 0.05 and (value - other).abs().max() < 0.05, key


def assert_the_same_everywhere(tensor: torch.Tensor, name: str, size: int) -> None:
    gathered = hvd.allgather(tensor.detach().contiguous().unsqueeze(0), name=name)
    assert all(torch.equal(row, gathered[0]) for row in gathered) and len(gathered) == size


# ---- the optimizer ----


OPTIONS: List[Dict[str, Any]] = [
    {},
    {"groups": 2},
    {"groups": lambda model: [list(model.parameters())]},
    {"gradient_predivide_factor": 2.0},
    {"sparse_as_dense": True},
    {"passes": 2},
    {"op": hvd.Sum},
]


@several_ranks
@each_kind
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
def test_training_matches_the_simulated_ranks(
    kind: str, options: Dict[str, Any], rank: int, size: int, name: str
) -> None:
    model = trained(MAKERS[kind](), rank, **options)
    alike = {key: options[key] for key in ("passes", "op") if key in options}
    assert_close(model, trained_by_hand(kind, size, **alike))
    for key, value in model.named_parameters():
        assert_the_same_everywhere(value, f"{name}.{key}", size)


@several_ranks
def test_a_low_rank_gradient_trains_as_without_compression(rank: int, size: int) -> None:
    """The three images of a rank give a gradient of matrix rank three at most."""
    if size > 4:
        pytest.skip("the gradients would have too high a rank")
    lossless = trained(hvd.Compression.powersgd(rank=3 * size), rank, steps=3)
    plain = trained(hvd.Compression.none, rank, steps=3)
    for value, other in zip(lossless.parameters(), plain.parameters()):
        torch.testing.assert_close(value, other, rtol=1e-3, atol=1e-4)


@several_ranks
def test_powersgd_starts_are_equal_on_all_ranks_and_errors_differ(rank: int, size: int, name: str) -> None:
    compression = hvd.Compression.powersgd(rank=2)
    trained(compression, rank)
    state = compression.state_dict()
    assert sorted(state["starts"]) == sorted(state["errors"]) == ["0.weight", "2.weight"]
    for key in ("0.weight", "2.weight"):
        assert_the_same_everywhere(state["starts"][key], f"{name}.{key}.start", size)
        errors = hvd.allgather(state["errors"][key].unsqueeze(0), name=f"{name}.{key}.error")
        assert not torch.equal(errors[0], errors[1])


@several_ranks
def test_gradients_of_either_memory_layout_give_the_same_update(rank: int) -> None:
    """A gradient keeps its layout, and the updates of both layouts are equal."""
    moved = []
    for layout in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(1)
        layer = torch.nn.Conv2d(8, 16, 3).to(memory_format=layout)  # type: ignore[call-overload]
        start = layer.weight.detach().clone()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(layer.parameters(), lr=1.0),
            layer.named_parameters(),
            compression=hvd.Compression.powersgd(rank=2),
        )
        for step in range(2):
            optimizer.zero_grad()
            x = torch.randn(2, 8, 5, 5, generator=torch.Generator().manual_seed(10 * step + rank))
            layer(x.to(memory_format=layout)).square().mean().backward()
            optimizer.step()
        assert layer.weight.grad is not None and layer.weight.grad.is_contiguous(memory_format=layout)
        moved.append(layer.weight.detach() - start)
    torch.testing.assert_close(moved[0], moved[1], rtol=1e-3, atol=1e-4)


@several_ranks
@pytest.mark.parametrize("as_dense", [False, True])
def test_sparse_gradients_are_compressed_only_if_made_dense(as_dense: bool, rank: int, size: int) -> None:
    """Sparse gradients are sent uncompressed unless sparse_as_dense converts them first."""
    torch.manual_seed(3)
    table = torch.nn.Embedding(size + 200, 16, sparse=True)
    start = table.weight.detach().clone()
    compression = hvd.Compression.topk(ratio=0.1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=1.0),
        [("weight", table.weight)],
        sparse_as_dense=as_dense,
        compression=compression,
    )
    table(torch.tensor([rank, size])).sum().backward()
    optimizer.step()
    moved = (start - table.weight.detach())[: size + 1, 0]
    torch.testing.assert_close(moved, torch.tensor([1.0 / size] * size + [1.0]))
    assert bool(compression.bytes_on_wire().sent) == as_dense


@several_ranks
def test_a_second_optimizer_refuses_the_compressor_of_the_first(rank: int) -> None:
    compression = hvd.Compression.topk()
    first, second = model_of(), model_of()
    kept = hvd.DistributedOptimizer(torch.optim.SGD(first.parameters(), lr=0.1), compression=compression)
    with pytest.raises(ValueError, match="is used by another optimizer"):
        hvd.DistributedOptimizer(torch.optim.SGD(second.parameters(), lr=0.1), compression=compression)
    del kept


@pytest.mark.parametrize("op", [hvd.Min, hvd.Max, hvd.Product])
@each_kind
def test_reductions_other_than_average_and_sum_cannot_be_compressed(kind: str, op: int) -> None:
    model = model_of()
    with pytest.raises(ValueError, match="supports Average and Sum only"):
        hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), compression=MAKERS[kind](), op=op)
    with pytest.raises(ValueError, match="supports Average and Sum only"):
        hvd.allreduce(torch.ones(40, 40), name="unwilling", compression=MAKERS[kind](), op=op)


@pytest.mark.parametrize("bad", [hvd.Compression.powersgd, hvd.Compression.topk, "fp16", None])
def test_an_object_that_is_no_compressor_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="is no compressor"):
        hvd.DistributedOptimizer(torch.optim.SGD(model_of().parameters(), lr=0.1), compression=bad)


# ---- allreduce ----


def matrices(size: int) -> Tuple[List[torch.Tensor], List[torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    made = torch.randn(2, size, 40, 40, generator=generator)
    return list(made[0]), list(made[1])


@each_kind
@pytest.mark.parametrize("grouped", [False, True])
def test_allreduce_keeps_error_feedback_by_name(kind: str, grouped: bool, rank: int, size: int, name: str) -> None:
    pair = matrices(size)
    compression, compressors = MAKERS[kind](), [MAKERS[kind]() for _ in range(size)]
    for _ in range(3):
        if grouped:
            own_matrices = [matrix_by_rank[rank] for matrix_by_rank in pair]
            reduced = hvd.grouped_allreduce(
                own_matrices, name=name, compression=compression, op=hvd.Sum, prescale_factor=0.5
            )
        else:
            reduced = [
                hvd.allreduce(
                    matrix_by_rank[rank],
                    name=f"{name}.{number}",
                    compression=compression,
                    op=hvd.Sum,
                    prescale_factor=0.5,
                )
                for number, matrix_by_rank in enumerate(pair)
            ]
        for number, matrix_by_rank in enumerate(pair):
            expected = by_hand.exchange(compressors, f"{name}.{number}", matrix_by_rank, hvd.Sum, prescale=0.5)[0]
            torch.testing.assert_close(reduced[number], expected, rtol=0.02, atol=0.02 if kind == "pair" else 1e-4)
            assert_the_same_everywhere(reduced[number], f"{name}.same", size)


def test_a_compressed_allreduce_needs_a_name_and_a_detached_tensor() -> None:
    compression = hvd.Compression.topk()
    for call in (hvd.allreduce, lambda tensor, **options: hvd.grouped_allreduce([tensor], **options)):
        with pytest.raises(ValueError, match="name="):
            call(torch.ones(40, 40), compression=compression)
        with pytest.raises(ValueError, match="detach"):
            call(torch.ones(40, 40, requires_grad=True), name="recorded", compression=compression)
    for scatter in (hvd.reducescatter, lambda tensor, **options: hvd.grouped_reducescatter([tensor], **options)):
        with pytest.raises(ValueError, match="allreduces only"):
            scatter(torch.ones(40, 40), name="scattered", compression=compression)


# ---- bytes ----


def test_bytes_on_wire_counts_sent_and_received_bytes(size: int, name: str) -> None:
    tensor = torch.ones(40, 50)
    raw = tensor.numel() * 4
    wanted = [
        (hvd.Compression.measured(hvd.Compression.none), raw, raw),
        (hvd.Compression.measured(hvd.Compression.fp16), raw // 2, raw // 2),
        (hvd.Compression.measured(hvd.Compression.bf16), raw // 2, raw // 2),
        (hvd.Compression.powersgd(rank=3), 4 * 3 * (40 + 50), 4 * 3 * (40 + 50)),
        (hvd.Compression.topk(ratio=0.05), 8 * 100, 8 * 100 * size),
        (hvd.Compression.custom(own.Rounded), raw // 2, raw // 2),
        (hvd.Compression.custom(own.signs), 2000 // 8 + 4, (2000 // 8 + 4) * size),
    ]
    for number, (compression, sent, received) in enumerate(wanted):
        assert compression.bytes_on_wire() == (0, 0, 0) and compression.bytes_on_wire().ratio == 1.0
        for times in (1, 2):
            hvd.allreduce(tensor, name=f"{name}.{number}", compression=compression)
            assert compression.bytes_on_wire() == (raw * times, sent * times, received * times)
        assert compression.bytes_on_wire().ratio == raw / sent
        assert hvd.Compression.measured(compression) is compression


@several_ranks
@pytest.mark.parametrize("kind", ["none", "fp16", "bf16"])
def test_the_optimizer_counts_sent_and_received_bytes(kind: str, rank: int) -> None:
    compression = hvd.Compression.measured(getattr(hvd.Compression, kind))
    model = trained(compression, rank, steps=2)
    raw = 2 * sum(4 * parameter.numel() for parameter in model.parameters())
    sent = raw if kind == "none" else raw // 2
    assert compression.bytes_on_wire() == (raw, sent, sent)


@several_ranks
def test_the_result_of_compress_is_passed_to_decompress(rank: int) -> None:
    """A compressor may change a tensor in place and undo that when it has been reduced."""

    class Tripled:
        @staticmethod
        def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, None]:
            return tensor.mul_(3), None

        @staticmethod
        def decompress(tensor: torch.Tensor, ctx: None) -> torch.Tensor:
            return tensor / 3

    for value, other in zip(trained(Tripled, rank).parameters(), trained(hvd.Compression.none, rank).parameters()):
        torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-5)


# ---- the examples ----


@pytest.mark.parametrize("kind", ["pair", "generator"])
def test_the_example_compressors_reduce_the_loss_tenfold(kind: str) -> None:
    assert own.train(MAKERS[kind](), steps=1) > 10 * own.train(MAKERS[kind](), steps=60)


@several_ranks
def test_the_comparison_example_makes_a_row_for_each_compressor() -> None:
    compare = example("compare_compression")
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(64, 1, 28, 28, generator=generator)
    digits = torch.utils.data.TensorDataset(images, torch.randint(0, 10, (64,), generator=generator))
    for title, make in compare.COMPRESSORS.items():
        line = compare.row(title, make, 1, digits, digits, epochs=1, batch_size=8)
        assert line.startswith(f"| {title} | ") and line.count("|") == 7
