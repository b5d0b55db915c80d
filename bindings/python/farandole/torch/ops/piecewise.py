"""Allreduce of a large tensor in 16 bits, as a pipeline of pieces: while one piece is reduced, the next is converted
to 16 bits and the previous one is converted back. Only the conversions of the first and the last piece are not
overlapped.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, Optional, Tuple

import torch

from farandole.common.basics import HorovodBasics
from farandole.common.process_sets import ProcessSet
from farandole.torch.compression import Compression
from farandole.torch.entry import start
from farandole.torch.graph import is_tracing
from farandole.torch.memory import warm_memory

LEAST_BYTES = 16 << 20
"""Below this size, the additional operations cost as much as the overlap saves."""
PIECES = 8
"""The number of pieces does not depend on the tensor's size. Tensors of different sizes then have pieces of different
shapes, which the runtime reports as a mismatch."""


def pays(tensor: torch.Tensor, compression: Any, op: Optional[int]) -> bool:
    """Whether to send a tensor in pieces. Depends on its type, its shape and the arguments, so that all ranks agree.

    Adasum needs the whole tensor: its scales are dot products.
    """
    return (
        compression in (Compression.fp16, Compression.bf16)
        and not is_tracing()
        and op != HorovodBasics.Adasum
        and isinstance(tensor, torch.Tensor)
        and tensor.dtype in (torch.float32, torch.float64)
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
        and tensor.dim() > 0
        and tensor.shape[0] >= PIECES
        and tensor.numel() * tensor.element_size() >= LEAST_BYTES
    )


@torch.no_grad()
def allreduce_in_pieces(
    request: Any, name: Optional[str], tensor: torch.Tensor, compression: Any, process_set: ProcessSet
) -> torch.Tensor:
    """Returns the reduced tensor, of the input's type, in new memory. The calling thread converts and waits.

    :raises HorovodInternalError: as an allreduce of the whole tensor would; no piece is in flight any more then
    """
    narrow = _memory(tensor, compression.dtype)
    reduced = _memory(tensor, tensor.dtype)
    pieces = list(zip(*(each.tensor_split(PIECES) for each in (tensor, narrow, reduced))))
    under_way: Deque[Tuple[Any, torch.Tensor, torch.Tensor]] = deque()

    def land() -> None:
        handle, carried, result = under_way[0]
        handle.finish()
        under_way.popleft()
        result.copy_(carried)

    try:
        for index, (given, carried, result) in enumerate(pieces):
            carried.copy_(given)
            # The second piece waits for the first, whose reduction shows that all ranks have the same shapes.
            while len(under_way) >= (1 if index == 1 else 2):
                land()
            piece_name = name if name is None or index == 0 else f"{name}.{index}"
            under_way.append((start(request, piece_name, carried, carried, process_set), carried, result))
        while under_way:
            land()
    except (RuntimeError, ValueError):
        _settle(under_way)
        raise
    return reduced


def _settle(under_way: Deque[Tuple[Any, torch.Tensor, torch.Tensor]]) -> None:
    """Waits for the pieces in flight, in which other ranks take part. Ignores their errors: one is raised already."""
    for handle, _, _ in under_way:
        try:
            handle.wait()
        except (RuntimeError, ValueError):
            pass


def _memory(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    memory = warm_memory(dtype, tensor.numel())
    return torch.empty(tensor.shape, dtype=dtype) if memory is None else memory.view(tensor.shape)
