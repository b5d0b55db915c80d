"""Order freedom over process sets: operations of every kind in flight in several sets at once, disjoint, overlapping
and the global one, under the same names, submitted by each rank in an order of its own; every result is compared with
NumPy's.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple

import farandole.numpy as hvd
import numpy
import pytest
from test_stress import Task, tasks

Place = Tuple[int, int]  # number of the set, and of the task in it


@pytest.fixture(scope="module")
def groups() -> Iterator[List[hvd.ProcessSet]]:
    """The global set, its halves, and, where there are enough ranks, two that overlap with both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1")
        hvd.shutdown()
        hvd.init()
        everybody = list(range(hvd.size()))
        wanted = [everybody[: len(everybody) // 2], everybody[len(everybody) // 2 :], everybody[1:], everybody[:-1]]
        distinct = [each for place, each in enumerate(wanted) if each not in [[], everybody, *wanted[:place]]]
        yield [hvd.global_process_set, *(hvd.add_process_set(ranks) for ranks in distinct)]
        hvd.barrier()
        hvd.shutdown()
    hvd.init()


@pytest.mark.parametrize("seed", range(2))
def test_every_order_in_several_sets_at_once(seed: int, groups: List[hvd.ProcessSet], rank: int) -> None:
    ranks: List[List[int]] = [list(group.ranks or []) for group in groups]
    work: Dict[Place, Task] = {}
    for number, members in enumerate(ranks):
        if rank in members:
            # Names are equal in all sets; what travels under them is not.
            for place, task in enumerate(tasks(100 + seed, 250 + 50 * number, len(members))):
                work[number, place] = task
    own: Any = numpy.random.default_rng([seed, rank, 17])
    places = list(work)
    for _ in range(2):  # names are negotiated in the first round, and known in the second
        handles: Dict[Place, int] = {}
        for place in own.permutation(len(places)):
            number, _task = key = places[int(place)]
            members = ranks[number]
            seat = members.index(rank), len(members), members
            handles[key] = work[key].submit(*seat, process_set=groups[number])
        for place in own.permutation(len(places)):
            number, _task = key = places[int(place)]
            work[key].check(hvd.synchronize(handles[key]), ranks[number].index(rank), len(ranks[number]))
