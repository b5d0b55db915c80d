"""allgather: the tensors of all ranks, one after the other."""

from __future__ import annotations

from typing import Any

from farandole.torch.entry import start_group_unsized, start_unsized
from farandole.torch.graph import gathers
from farandole.torch.ops.allreduce import averaged
from farandole.torch.ops.recorded import Gradients, recorded_in, wrapper_for

wrapper = wrapper_for(__name__)
recorded = recorded_in(__name__)


def own_rows(ctx: Any, gradients: Gradients) -> Gradients:
    """averaged over ranks, then this rank's rows."""
    *_, process_set = ctx.options
    place = process_set.rank() or 0
    means = averaged(ctx, gradients, process_set)
    return [mean.narrow(0, sum(rows[:place]), rows[place]) for mean, rows in zip(means, ctx.rows)]


HorovodAllgather = recorded("allgather", start_unsized, own_rows)
HorovodGroupedAllgather = recorded("grouped_allgather", start_group_unsized, own_rows)

allgather, allgather_async = wrapper.both("allgather", start_unsized, gathers, HorovodAllgather)
grouped_allgather, grouped_allgather_async = wrapper.both(
    "grouped_allgather", start_group_unsized, gathers, HorovodGroupedAllgather
)
