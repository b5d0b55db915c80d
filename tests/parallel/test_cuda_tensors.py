"""The binding of PyTorch hands CUDA tensors to the runtime as they are: PyTorch's own where it sees a GPU, else
tensors that are like them (cuda_tensors.py)."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List

import horovod.torch as hvd
import pytest
import torch
from cuda_tensors import ARE_REAL, TYPE, new_stream, on_gpu, values_on_gpu
from farandole import _native
from farandole.torch import gpu

needs_other_memory = pytest.mark.skipif(
    ARE_REAL, reason="needs tensors that claim to be in other memory, which PyTorch's CUDA tensors cannot"
)


@pytest.fixture(autouse=True)
def stream() -> Iterator[None]:
    with new_stream():
        yield


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> List[torch.Tensor]:
    """The tensors of which PyTorch has made copies in host memory."""
    made: List[torch.Tensor] = []
    copy = TYPE.cpu

    def counted(self: torch.Tensor, *arguments: object) -> torch.Tensor:
        if self.is_cuda:
            made.append(self)
        return copy(self, *arguments)

    monkeypatch.setattr(TYPE, "cpu", counted)
    return made


def tensor(rank: int, count: int = 3) -> Any:
    return on_gpu(torch.full((count,), rank + 1.0))


def total(size: int) -> float:
    return size * (size + 1) / 2


def test_a_tensor_is_reduced_in_its_own_memory(name: str, rank: int, size: int, copies: List[torch.Tensor]) -> None:
    given = tensor(rank)
    result = hvd.synchronize(hvd.allreduce_async_(given, name=name, op=hvd.Sum))
    assert result is given
    assert values_on_gpu(given) == [total(size)] * 3
    assert ARE_REAL or given.tolist() == [-77.0] * 3  # the memory of the host that stands behind such a tensor
    assert copies == []


def test_a_new_tensor_has_the_result(name: str, rank: int, size: int, copies: List[torch.Tensor]) -> None:
    given = tensor(rank)
    result = hvd.allreduce(given, name=name, op=hvd.Sum)
    assert isinstance(result, TYPE)
    assert values_on_gpu(result) == [total(size)] * 3
    assert values_on_gpu(given) == [rank + 1.0] * 3
    assert copies == []


def test_a_group_is_reduced_in_place(name: str, rank: int, size: int, copies: List[torch.Tensor]) -> None:
    given = [tensor(rank, count) for count in (1, 2, 3)]
    hvd.grouped_allreduce_(given, name=name, op=hvd.Sum)
    assert [values_on_gpu(each) for each in given] == [[total(size)] * count for count in (1, 2, 3)]
    assert copies == []


def test_a_root_broadcasts(name: str, rank: int, size: int, copies: List[torch.Tensor]) -> None:
    given = tensor(rank)
    hvd.broadcast_(given, size - 1, name=name)
    assert values_on_gpu(given) == [float(size)] * 3
    assert copies == []


def test_rows_are_gathered_into_host_memory(name: str, rank: int, size: int, copies: List[torch.Tensor]) -> None:
    gathered = hvd.allgather(tensor(rank, rank + 1), name=name)
    assert gathered.tolist() == [each + 1.0 for each in range(size) for _ in range(each + 1)]
    assert copies == []


@needs_other_memory
def test_without_a_driver_pytorch_copies_through_host_memory(
    name: str,
    rank: int,
    size: int,
    copies: List[torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    messages_of: Callable[[str], List[str]],
) -> None:
    said = messages_of("farandole.torch")
    gpu._why_out_of_reach.cache_clear()
    monkeypatch.setattr(_native, "why_no_devices", lambda: "there is no NVIDIA driver")
    try:
        for step in range(2):
            given = tensor(rank)
            given.on_device.kind = 10
            hvd.allreduce_(given, name=f"{name}.{step}", op=hvd.Sum)
            assert given.tolist() == [total(size)] * 3
    finally:
        gpu._why_out_of_reach.cache_clear()
    assert len(copies) == 2
    assert said == [
        "PyTorch copies GPU tensors through host memory, and waits for each copy: there is no NVIDIA driver"
    ]


@needs_other_memory
def test_memory_that_the_runtime_refuses_is_no_reason_to_copy(
    name: str, rank: int, size: int, copies: List[torch.Tensor]
) -> None:
    given = tensor(rank)
    given.on_device.kind = 10
    with pytest.raises(NotImplementedError, match="neither in host memory nor on a CUDA device"):
        hvd.allreduce_(given, name=name, op=hvd.Sum)
    assert copies == []
