"""Sparse tensors are sent as their entries; entries with the same index add up."""

from __future__ import annotations

import re
from typing import Any

import horovod.torch as hvd
import pytest
import torch
from farandole.common import job
from farandole.common.exceptions import HorovodInternalError

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def entries_of(rank: int, size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """An entry at the index of the rank, and two at indices that all ranks share, the first one in two parts."""
    places = [[rank, size, size, size + 1]]
    values = torch.tensor([rank + 1, 1, 2, 6], dtype=dtype)
    return torch.sparse_coo_tensor(places, values, (size + 3,), check_invariants=True)


def dense_sum(size: int) -> torch.Tensor:
    return torch.tensor([*range(1, size + 1), 3 * size, 6 * size, 0], dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64], ids=str)
def test_a_sparse_sum_adds_entries_of_the_same_index(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    for _ in range(3):
        reduced = hvd.sparse_allreduce_async(entries_of(rank, size, dtype), name, hvd.Sum)()
        assert reduced.is_sparse and reduced.dtype == dtype
        assert torch.equal(reduced.to_dense().to(torch.float64), dense_sum(size))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_a_sparse_average_divides_by_the_number_of_ranks(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    reduced = hvd.sparse_allreduce_async(entries_of(rank, size, dtype), name, hvd.Average)()
    torch.testing.assert_close(reduced.to_dense(), (dense_sum(size) / size).to(dtype), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64], ids=str)
def test_a_sparse_average_of_integers_is_the_sum_divided_and_truncated(
    dtype: torch.dtype, name: str, rank: int, size: int
) -> None:
    values = torch.tensor([-7 if rank == 0 else 0, 127, 1], dtype=dtype)
    tensor = torch.sparse_coo_tensor([[0, 1, 2]], values, (4,), check_invariants=True)
    reduced = hvd.sparse_allreduce_async(tensor, name, hvd.Average)()
    assert reduced.dtype == dtype
    assert reduced.to_dense().tolist() == [-(7 // size), 127, 1, 0]


def test_sparse_rows_of_the_same_index_add_up(name: str, rank: int, size: int) -> None:
    tensor = torch.sparse_coo_tensor([[rank, size]], torch.ones(2, 3), (size + 1, 3), check_invariants=True)
    reduced = hvd.sparse_allreduce_async(tensor, name, hvd.Sum)()
    assert reduced.sparse_dim() == 1 and reduced.dense_dim() == 1
    expected = torch.ones(size + 1, 3)
    expected[size] = size
    assert torch.equal(reduced.to_dense(), expected)


def test_a_rank_without_entries_takes_part(name: str, rank: int, size: int) -> None:
    count = 1 if rank == 0 else 0
    tensor = torch.sparse_coo_tensor(torch.full((1, count), 2), torch.full((count,), 5.0), (4,), check_invariants=True)
    reduced = hvd.sparse_allreduce_async(tensor, name, hvd.Sum)()
    assert reduced.to_dense().tolist() == [0, 0, 5, 0]


def test_several_sparse_operations_may_be_in_flight(name: str, rank: int, size: int) -> None:
    waiting = [hvd.sparse_allreduce_async(entries_of(rank, size), f"{name}.{i}", hvd.Sum) for i in range(10)]
    assert hvd.allreduce(torch.ones(1), name=name, op=hvd.Sum).item() == size
    for finish in reversed(waiting):
        assert torch.equal(finish().to_dense().to(torch.float64), dense_sum(size))


def test_sparse_reductions_other_than_sum_and_average_are_refused(name: str, rank: int, size: int) -> None:
    for op in (hvd.Min, hvd.Max, hvd.Product, hvd.Adasum):
        with pytest.raises(NotImplementedError):
            hvd.sparse_allreduce_async(entries_of(rank, size), name, op)


@several_ranks
def test_a_shape_mismatch_fails_and_the_name_works_again(name: str, rank: int, size: int) -> None:
    width = 3 if rank else 4
    tensor = torch.sparse_coo_tensor([[0]], torch.ones(1, width), (1, width), check_invariants=True)
    finish = hvd.sparse_allreduce_async(tensor, name, hvd.Sum)
    with pytest.raises(HorovodInternalError, match=f"{name}.values"):
        finish()
    reduced = hvd.sparse_allreduce_async(entries_of(rank, size), name, hvd.Sum)()
    assert torch.equal(reduced.to_dense().to(torch.float64), dense_sum(size))


# ---- in the optimizer ----


class Words(torch.nn.Module):
    """A table of vectors, and a dense layer on top."""

    def __init__(self, words: int, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.table = torch.nn.Embedding(words, 4, sparse=sparse)
        self.dense = torch.nn.Linear(4, 2)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.dense(self.table(text)).square().mean()  # type: ignore[no-any-return]


def text_of(rank: int, step: int, words: int) -> torch.Tensor:
    return torch.randint(0, words, (6,), generator=torch.Generator().manual_seed(100 * step + rank))


@pytest.mark.parametrize("as_dense", [False, True])
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("options", [{}, {"op": hvd.Sum}, {"groups": 2}, {"gradient_predivide_factor": 2.0}], ids=str)
def test_an_optimizer_with_sparse_gradients_trains_like_one_process(
    as_dense: bool, passes: int, options: Any, rank: int, size: int
) -> None:
    words, steps = 11, 3
    rate = 0.1 / size if options.get("op") == hvd.Sum else 0.1
    model = Words(words, sparse=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=rate),
        model.named_parameters(),
        backward_passes_per_step=passes,
        sparse_as_dense=as_dense,
        **options,
    )
    one_process = Words(words, sparse=False)
    expected = torch.optim.SGD(one_process.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        expected.zero_grad()
        for number in range(passes):
            model(text_of(rank, step * passes + number, words)).backward()
            losses = [one_process(text_of(other, step * passes + number, words)) for other in range(size)]
            (sum(losses) / size).backward()
        optimizer.step()
        assert model.table.weight.grad is not None and model.table.weight.grad.is_sparse
        expected.step()
    for (key, value), other in zip(model.named_parameters(), one_process.parameters()):
        torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}")


@several_ranks
def test_a_sparse_gradient_mismatch_fails_and_later_operations_work(rank: int, size: int) -> None:
    table = torch.nn.Embedding(5, 3 if rank else 4, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.1), table.named_parameters())
    for _ in range(2):
        table(torch.tensor([1])).sum().backward()
        with pytest.raises(HorovodInternalError, match="weight.values"):
            optimizer.step()
    assert hvd.allreduce(torch.ones(1), name="after", op=hvd.Sum).item() == size


def test_a_call_before_init_asks_for_init(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "runtime", job._NotStarted())
    monkeypatch.setattr(job, "topology", None)
    with pytest.raises(HorovodInternalError, match=re.escape("call init() first")):
        hvd.sparse_allreduce_async(torch.ones(2).to_sparse(), name="early", op=hvd.Sum)
