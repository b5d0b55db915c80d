"""Operations of the interface that are not offered yet: each says so when it is called."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import torch

from farandole.common.basics import HorovodBasics
from farandole.common.operations import later, public
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.torch.compression import Compression

Average = HorovodBasics.Average


@public
def alltoall_async(
    tensor: torch.Tensor,
    splits: Union[torch.Tensor, Sequence[int], None] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    raise later("alltoall")


@public
def alltoall(
    tensor: torch.Tensor,
    splits: Union[torch.Tensor, Sequence[int], None] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    raise later("alltoall")


@public
def reducescatter_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    raise later("reducescatter")


@public
def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    raise later("reducescatter")


@public
def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    raise later("grouped_reducescatter")


@public
def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[torch.Tensor]:
    raise later("grouped_reducescatter")
