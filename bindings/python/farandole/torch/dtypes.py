"""The element types that the runtime supports, with their numbers in the native module."""

from __future__ import annotations

import torch

NUMBERS = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 3,
    torch.int32: 4,
    torch.int64: 5,
    torch.float16: 6,
    torch.bfloat16: 7,
    torch.float32: 8,
    torch.float64: 9,
    torch.bool: 10,
}
if hasattr(torch, "uint16"):  # from PyTorch 2.3 on
    NUMBERS[torch.uint16] = 2
    NUMBERS = dict(sorted(NUMBERS.items(), key=lambda item: item[1]))
