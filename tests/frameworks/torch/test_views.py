"""Values are sent, not memory: views of every kind, and types that the runtime does not know."""

from __future__ import annotations

from typing import Any, Callable, Dict

import horovod.torch as hvd
import pytest
import torch

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")

NEGATED: Dict[str, Callable[[float], torch.Tensor]] = {
    "scalar": lambda x: torch.tensor(complex(1, x)).conj().imag,
    "vector": lambda x: torch.full((4,), complex(1, x)).conj().imag[2:3],
    "strided vector": lambda x: torch.tensor([complex(1, x), complex(2, 2 * x)]).conj().imag,
}


@pytest.mark.parametrize("kind", list(NEGATED))
def test_operations_send_the_values_of_a_negated_view(kind: str, rank: int, size: int) -> None:
    tensor = NEGATED[kind](rank + 1.0)
    assert tensor.is_neg()
    values = tensor.clone()
    total = values / (rank + 1) * sum(range(1, size + 1))
    torch.testing.assert_close(hvd.allreduce(tensor, op=hvd.Sum), total)
    torch.testing.assert_close(hvd.grouped_allreduce([values, tensor], op=hvd.Sum), [total, total])
    torch.testing.assert_close(hvd.broadcast(tensor, 0), values / (rank + 1))
    row = tensor.reshape(1, -1)
    expected = torch.stack([values.reshape(-1) / (rank + 1) * (other + 1) for other in range(size)])
    torch.testing.assert_close(hvd.allgather(row), expected)
    torch.testing.assert_close(hvd.grouped_allgather([row])[0], expected)
    received, _ = hvd.alltoall(row, [1] + [0] * (size - 1))
    torch.testing.assert_close(received, expected if rank == 0 else expected[:0])
    torch.testing.assert_close(hvd.reducescatter(row, op=hvd.Sum), total.reshape(1, -1)[rank:])


@pytest.mark.parametrize("kind", list(NEGATED))
@pytest.mark.parametrize("form", ["allreduce_", "allreduce_async_", "grouped_allreduce_", "broadcast_"])
def test_operations_in_place_write_the_values_of_a_negated_view(form: str, kind: str, rank: int, size: int) -> None:
    tensor = NEGATED[kind](rank + 1.0)
    first = tensor.clone() / (rank + 1)
    other = torch.full((3,), rank + 1.0)
    if form == "allreduce_":
        assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor
    elif form == "allreduce_async_":
        hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum))
    elif form == "grouped_allreduce_":
        hvd.grouped_allreduce_([other, tensor], op=hvd.Sum)
        assert other.tolist() == [sum(range(1, size + 1))] * 3
    else:
        hvd.broadcast_(tensor, 0)
    torch.testing.assert_close(tensor, first * (1 if form == "broadcast_" else sum(range(1, size + 1))))


VIEWS: Dict[str, Callable[[float], torch.Tensor]] = {
    "transposed": lambda x: torch.arange(6.0).mul(x).reshape(2, 3).t(),
    "strided": lambda x: torch.arange(6.0).mul(x)[::2],
    "a part": lambda x: torch.arange(6.0).mul(x)[2:5],
    "negated": NEGATED["vector"],
    "negated and strided": lambda x: torch.full((4,), complex(1, x)).conj().imag,
    "conjugated": lambda x: torch.full((4,), complex(1, x)).conj(),
    "conjugated and transposed": lambda x: torch.full((2, 3), complex(1, x)).conj().t(),
}
OVERLAPPING: Dict[str, Callable[[float], torch.Tensor]] = {
    "as_strided": lambda x: torch.arange(4.0).mul(x).as_strided((2, 3), (1, 1)),
    "unfold": lambda x: torch.arange(5.0).mul(x).unfold(0, 3, 2),
    "expanded": lambda x: torch.full((1, 3), x).expand(2, 3),
}
"""Views of two rows, in which some elements share memory."""
VIEWS.update(OVERLAPPING)


@pytest.mark.parametrize("kind", list(VIEWS))
def test_the_values_of_every_view_are_broadcast(kind: str, rank: int) -> None:
    tensor, expected = VIEWS[kind](rank + 1.0), VIEWS[kind](1.0)
    hvd.broadcast_parameters({"view": tensor}, 0)
    assert torch.equal(tensor, expected)


def test_an_expanded_tensor_of_nan_is_broadcast(rank: int) -> None:
    tensor = torch.full((1, 3), float("nan") if rank == 0 else 1.0).expand(4, 3)
    hvd.broadcast_parameters({"mask": tensor}, 0)
    assert tensor.isnan().all()


@several_ranks
@pytest.mark.parametrize("kind", list(OVERLAPPING))
def test_an_overlapping_parameter_is_named_when_its_memory_cannot_hold_the_values(kind: str, rank: int) -> None:
    tensor = torch.arange(6.0).reshape(2, 3) if rank == 0 else OVERLAPPING[kind](1.0)
    if rank == 0:
        hvd.broadcast_parameters({"mask": tensor}, 0)
        return
    before = tensor.clone()
    with pytest.raises(ValueError, match="mask"):
        hvd.broadcast_parameters({"mask": tensor}, 0)
    assert torch.equal(tensor, before)


FORMS = ["allreduce", "allreduce_", "broadcast", "broadcast_", "allgather", "alltoall", "reducescatter"]
GROUPED = ["grouped_allreduce", "grouped_allreduce_", "grouped_allgather", "grouped_reducescatter"]


@pytest.mark.parametrize("kind", list(OVERLAPPING))
@pytest.mark.parametrize("form", [*FORMS, *GROUPED])
def test_operations_refuse_an_overlapping_tensor_by_its_name(form: str, kind: str) -> None:
    tensor = OVERLAPPING[kind](1.0)
    options = {"root_rank": 0} if "broadcast" in form else {}
    with pytest.raises(ValueError, match=r"mask.* takes contiguous tensors"):
        getattr(hvd, form)([tensor] if form in GROUPED else tensor, name="mask", **options)
    assert torch.equal(tensor, OVERLAPPING[kind](1.0))


NAMES = ["bool", "complex32", "complex64", "complex128", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]
DTYPES = [getattr(torch, name) for name in [*NAMES, "float8_e4m3fnuz", "float8_e8m0fnu"] if hasattr(torch, name)]


def values(dtype: torch.dtype, shape: Any, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    content = torch.randint(0, 2, (*shape, torch.empty((), dtype=dtype).element_size()), dtype=torch.uint8)
    return content.view(dtype).reshape(shape)


def assert_same(tensor: torch.Tensor, expected: torch.Tensor) -> None:
    assert tensor.dtype == expected.dtype and tensor.shape == expected.shape
    assert tensor.reshape(-1).view(torch.uint8).equal(expected.reshape(-1).view(torch.uint8))


@pytest.mark.parametrize("shape", [(), (3, 4), (0, 2)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_type_are_moved(dtype: torch.dtype, shape: Any, rank: int, size: int) -> None:
    tensor, expected = values(dtype, shape, rank), values(dtype, shape, size - 1)
    assert_same(hvd.broadcast(tensor, size - 1, name="rare"), expected)
    assert_same(tensor, values(dtype, shape, rank))
    hvd.broadcast_parameters([("rare", tensor)], size - 1)
    assert_same(tensor, expected)
    rows = values(dtype, (rank + 1, *shape), rank)
    gathered = [values(dtype, (other + 1, *shape), other).view(torch.uint8) for other in range(size)]
    sent = values(dtype, (size, *shape), rank)
    received = [values(dtype, (size, *shape), other)[rank : rank + 1].view(torch.uint8) for other in range(size)]
    assert_same(hvd.alltoall(sent, name="to all"), torch.cat(received).view(dtype))
    for result in (hvd.allgather(rows, name="rows"), hvd.grouped_allgather([torch.ones(1), rows], name="group")[1]):
        assert_same(result, torch.cat(gathered).view(dtype))


def test_conjugated_tensors_are_moved_with_their_gradients(rank: int, size: int) -> None:
    own = torch.full((2, 3), complex(1, rank)).conj()
    root = torch.full((2, 3), complex(1, -(size - 1)))
    assert torch.equal(hvd.broadcast(own, size - 1, name="new"), root)
    assert torch.equal(hvd.allgather(own, name="rows")[2 * rank : 2 * rank + 2], own)
    place = own.clone().conj()
    assert hvd.broadcast_(place, size - 1, name="place") is place and torch.equal(place.resolve_conj(), root.conj())
    leaf = torch.full((2, 3), complex(1, rank), requires_grad=True)
    (hvd.allgather(leaf, name="leaf").abs() ** 2).sum().backward()
    assert torch.allclose(leaf.grad, 2 * leaf.detach())


class Fourier(torch.nn.Module):
    """Matrices of complex numbers, the gradient of one of which is a conjugated view, a complex scalar, and a real
    scalar whose gradient is a negated view."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.matrix = torch.nn.Parameter(torch.randn(3, 2, dtype=torch.complex64))
        self.mirror = torch.nn.Parameter(torch.randn(3, 2, dtype=torch.complex64))
        self.shift = torch.nn.Parameter(torch.randn((), dtype=torch.complex64))
        self.phase = torch.nn.Parameter(torch.randn(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned = torch.complex(torch.ones(()), self.phase).conj()
        return (
            x @ self.matrix + (x * x) @ self.mirror.conj() + self.shift
        ).abs().square().mean() + turned.imag * x.real.mean()


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randn(5, 3, dtype=torch.complex64, generator=torch.Generator().manual_seed(10 * step + rank))


OPTIONS: Dict[str, Callable[[], Dict[str, Any]]] = {
    "plain": dict,
    "groups": lambda: {"groups": 1},
    "fp16": lambda: {"compression": hvd.Compression.fp16},
    "passes": lambda: {"backward_passes_per_step": 2},
    "top-k": lambda: {"compression": hvd.Compression.topk(1.0)},
}


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_complex_parameters_train_like_one_process(kind: str, rank: int, size: int) -> None:
    model, expected = Fourier(), Fourier()
    plain = torch.optim.SGD(expected.parameters(), lr=0.02, momentum=0.9)  # Adam refuses conjugated views
    options = OPTIONS[kind]()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), model.named_parameters(), **options
    )
    passes = options.get("backward_passes_per_step", 1)
    for step in range(3):
        optimizer.zero_grad()
        plain.zero_grad()
        for number in range(passes):
            model(batch(rank, passes * step + number)).backward()
            (sum(expected(batch(other, passes * step + number)) for other in range(size)) / size).backward()
        optimizer.step()
        plain.step()
    close = {"rtol": 2e-2, "atol": 2e-2} if kind == "fp16" else {"rtol": 1e-4, "atol": 1e-5}
    for (name, value), other in zip(model.named_parameters(), expected.parameters()):
        torch.testing.assert_close(value, other, msg=lambda text, name=name: f"{name}: {text}", **close)


def test_the_gradient_of_a_scalar_may_be_a_negated_view(rank: int, size: int) -> None:
    phase = torch.nn.Parameter(torch.tensor(1.0))
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD([phase], lr=1.0), [("phase", phase)])
    phase.grad = torch._neg_view(torch.tensor(-(rank + 1.0)))
    optimizer.synchronize()
    assert phase.grad.item() == pytest.approx((size + 1) / 2)


@pytest.mark.parametrize("kind", ["plain", "groups", "fp16"])
def test_a_gradient_may_be_a_conjugated_view(kind: str, rank: int, size: int) -> None:
    weights = [torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64)) for _ in range(2)]
    named = [(f"weight{number}", weight) for number, weight in enumerate(weights)]
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=1.0), named, **OPTIONS[kind]())
    for weight in weights:
        weight.grad = torch.full((2,), complex(1, rank + 1)).conj()
        assert weight.grad.is_conj()
    optimizer.synchronize()
    for weight in weights:
        torch.testing.assert_close(weight.grad, torch.full((2,), complex(1, -(size + 1) / 2)))


@pytest.mark.parametrize("kind", list(OVERLAPPING))
def test_an_overlapping_gradient_is_replaced_by_the_mean(kind: str, rank: int, size: int) -> None:
    weight = torch.nn.Parameter(torch.zeros(2, 3))
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)])
    plain = torch.arange(6.0).reshape(2, 3)
    weight.grad = OVERLAPPING[kind](1.0) if rank == 0 else plain.clone()
    mean = (OVERLAPPING[kind](1.0) + (size - 1) * plain) / size
    optimizer.synchronize()
    assert torch.equal(weight.grad, mean)


def test_sparse_complex_gradients_are_averaged(rank: int, size: int) -> None:
    sent = torch.sparse_coo_tensor([[rank]], torch.tensor([complex(1, rank)]), (size,))
    mean = hvd.sparse_allreduce_async(sent, "sparse", hvd.Average)().to_dense()
    torch.testing.assert_close(mean, torch.tensor([complex(1, other) / size for other in range(size)]))
