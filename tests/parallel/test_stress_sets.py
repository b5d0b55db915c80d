"""Operations of every kind in flight in several process sets at once: disjoint, overlapping and global.

All sets use the same names, and each rank submits in its own order; every result is compared with NumPy's.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple

import farandole.numpy as hvd
import numpy
import pytest
from test_stress import Task, tasks

Key = Tuple[int, int]  # number of the set, and of the task in it


@pytest.fixture(scope="module")
def groups() -> Iterator[List[hvd.ProcessSet]]:
    """The global set, its two halves, and, with enough ranks, two sets that overlap with both halves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1")
        hvd.shutdown()
        hvd.init()
        all_ranks = list(range(hvd.size()))
        wanted = [all_ranks[: len(all_ranks) // 2], all_ranks[len(all_ranks) // 2 :], all_ranks[1:], all_ranks[:-1]]
        distinct = [ranks for index, ranks in enumerate(wanted) if ranks not in [[], all_ranks, *wanted[:index]]]
        yield [hvd.global_process_set, *(hvd.add_process_set(ranks) for ranks in distinct)]
        hvd.barrier()
        hvd.shutdown()
    hvd.init()


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_operations_in_several_sets_at_once_have_the_results_of_numpy(
    seed: int, groups: List[hvd.ProcessSet], rank: int
) -> None:
    ranks: List[List[int]] = [list(group.ranks or []) for group in groups]
    work: Dict[Key, Task] = {}
    for number, members in enumerate(ranks):
        if rank in members:
            # All sets use the same names with different data.
            for place, task in enumerate(tasks(100 + seed, 250 + 50 * number, len(members))):
                work[number, place] = task
    own: Any = numpy.random.default_rng([seed, rank, 17])
    places = list(work)
    for _ in range(2):  # names are negotiated in the first round and cached in the second
        handles: Dict[Key, int] = {}
        for place in own.permutation(len(places)):
            number, _task = key = places[int(place)]
            members = ranks[number]
            set_rank = members.index(rank), len(members), members
            handles[key] = work[key].submit(*set_rank, process_set=groups[number])
        for place in own.permutation(len(places)):
            number, _task = key = places[int(place)]
            work[key].check(hvd.synchronize(handles[key]), ranks[number].index(rank), len(ranks[number]))
