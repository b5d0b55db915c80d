"""broadcast: one rank's tensor for all."""

from __future__ import annotations

from typing import Any

import torch

from farandole.common import job
from farandole.torch.entry import start_in_place, start_new
from farandole.torch.graph import reductions
from farandole.torch.ops.allreduce import averaged
from farandole.torch.ops.recorded import Gradients, recorded_in, wrapper_for

wrapper = wrapper_for(__name__)


def to_root(ctx: Any, gradients: Gradients) -> Gradients:
    """averaged over ranks on the root, zero elsewhere."""
    root_rank, _, process_set = ctx.options
    means = averaged(ctx, gradients, process_set)
    return means if job.where().rank == root_rank else [torch.zeros_like(each) for each in means]


HorovodBroadcast = recorded_in(__name__)("broadcast", start_new, to_root)

broadcast, broadcast_async = wrapper.both("broadcast", start_new, reductions, HorovodBroadcast)
broadcast_, broadcast_async_ = wrapper.both("broadcast_", start_in_place, reductions)
