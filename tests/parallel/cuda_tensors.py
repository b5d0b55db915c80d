"""Tensors in the memory of a GPU: PyTorch's own CUDA tensors where it sees a GPU; else tensors that are like them as
far as the binding looks at them, over the arrays of ``device_arrays``.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Optional, Tuple

import torch
from device_arrays import IS_STAND_IN, OWN, DeviceArray, Stream, exchange_capsule

ARE_REAL = not IS_STAND_IN and torch.cuda.is_available()
"""Whether the tensors are PyTorch's own. It cannot use the stand-in driver."""


class CudaTensor(torch.Tensor):
    """A tensor whose values are in the memory of a GPU (``on_device``). The host memory that PyTorch gives it
    has other values, and is written only by ``copy_``, which stands for a copy to the GPU by PyTorch itself."""

    __dlpack_c_exchange_api__ = exchange_capsule
    on_device: DeviceArray

    @staticmethod
    def of(values: torch.Tensor) -> CudaTensor:
        made: CudaTensor = torch.Tensor._make_subclass(CudaTensor, torch.full_like(values, -77))
        made.on_device = DeviceArray(values.numpy())
        return made

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, arguments: Tuple[Any, ...] = (), keywords: Optional[dict] = None
    ) -> Any:
        if function is torch.empty_like:
            return cls.of(torch.zeros(arguments[0].shape, dtype=arguments[0].dtype))
        return super().__torch_function__(function, types, arguments, keywords or {})

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    def detach(self) -> CudaTensor:
        return self

    def cpu(self, *_: Any) -> torch.Tensor:
        """The copy that PyTorch makes, behind the current stream."""
        return torch.from_numpy(self.on_device.read())


TYPE = torch.Tensor if ARE_REAL else CudaTensor


def on_gpu(values: torch.Tensor) -> torch.Tensor:
    """A tensor with these values on the GPU of this rank."""
    return values.to(f"cuda:{OWN}") if ARE_REAL else CudaTensor.of(values)


def values_on_gpu(tensor: Any) -> list:
    """The values, behind the current stream. ``tensor`` must be on a GPU."""
    assert tensor.is_cuda
    return tensor.tolist() if ARE_REAL else tensor.on_device.read().tolist()


@contextlib.contextmanager
def new_stream() -> Iterator[None]:
    """A stream of this rank's GPU, which is the current one meanwhile."""
    if ARE_REAL:
        torch.cuda.set_device(OWN)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            yield
        stream.synchronize()
        return
    with Stream() as made:
        yield
    made.synchronize()
    made.destroy()
