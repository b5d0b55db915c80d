"""Sessions whose workers change: ``scale()`` adds and removes them, and an elastic session replaces them."""

from __future__ import annotations

import os
import signal
from typing import Any, Tuple

import farandole
import pytest
from launched import assert_gone, needs_launcher, wait_until
from test_launch_functions import nothing_is_left
from test_launch_sessions import read_rank

__all__ = ["nothing_is_left"]

pytestmark = needs_launcher


def place_in_job() -> Tuple[int, int, int, float, Any]:
    """Process, rank and size, a sum over the ranks, and the name that an earlier call has left."""
    import farandole.numpy as hvd
    import numpy

    total = float(hvd.allreduce(numpy.full(4, hvd.rank()), op=hvd.Sum)[0])
    state = farandole.session.state
    before = getattr(state, "name", None)
    state.name = f"first rank {hvd.rank()}" if before is None else before
    return os.getpid(), hvd.rank(), hvd.size(), total, before


place_in_job.__module__ = "__main__"


def test_workers_are_added_and_removed_while_others_stay() -> None:
    with farandole.session(2) as workers:
        table = workers.put(bytes(1000))
        first = workers.run(place_in_job)
        workers.scale(4)
        second = workers.run(place_in_job)
        assert [each[1:] for each in second] == [
            (0, 4, 6, "first rank 0"), (1, 4, 6, "first rank 1"), (2, 4, 6, None), (3, 4, 6, None),
        ]  # fmt: skip
        assert [each[0] for each in second[:2]] == [each[0] for each in first]
        assert [(each.rank, each.process) for each in workers.workers] == [
            (rank, each[0]) for rank, each in enumerate(second)
        ]
        assert workers.run(len, table) == [1000] * 4
        later = workers.submit(place_in_job)
        workers.scale(1)
        assert [each[2] for each in later.result(0)] == [4] * 4
        assert workers.run(place_in_job) == [(first[0][0], 0, 1, 0, "first rank 0")]
        assert_gone([each[0] for each in second[1:]])


def test_workers_of_an_elastic_session_are_replaced() -> None:
    def die() -> None:
        import farandole.numpy as hvd
        import numpy

        if hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(numpy.ones(4))

    with farandole.session(3, min_np=1, cooldown_range=(1, 1)) as workers:
        table = workers.put(bytes(1000))
        first = [each[0] for each in workers.run(place_in_job)]
        with pytest.raises(RuntimeError) as raised:
            workers.run(die)
        assert str(raised.value).startswith(
            "Rank 1 on host localhost was killed by signal 9 (Killed) before its function returned\n"
            "Also failed: rank 0 on host "
        )
        second = workers.run(place_in_job)
        assert [each[1:] for each in second] == [
            (0, 3, 3, "first rank 0"), (1, 3, 3, "first rank 2"), (2, 3, 3, None),
        ]  # fmt: skip
        assert [each[0] for each in second[:2]] == [first[0], first[2]]
        assert workers.run(len, table) == [1000] * 3

        os.kill(second[0][0], signal.SIGKILL)  # between two calls, and the one with rank 0
        wait_until(lambda: second[0][0] not in [each.process for each in workers.workers], "the session knows of it")
        third = workers.run(place_in_job)
        assert [each[2:] for each in third] == [(3, 3, "first rank 2"), (3, 3, "first rank 2"), (3, 3, None)]
        assert [each[0] for each in third[:2]] == [each[0] for each in second[1:]]


@pytest.mark.slow
def test_the_last_worker_of_an_elastic_session_is_replaced_also_after_code_0() -> None:
    with farandole.session(1, min_np=1, cooldown_range=(1, 1)) as workers:
        first = workers.run(place_in_job)
        with pytest.raises(RuntimeError, match="^Rank 0 on host localhost exited with code 0 before its function ret"):
            workers.run(os._exit, 0)
        second = workers.run(place_in_job)
        assert second[0][0] != first[0][0] and second[0][1:] == (0, 1, 0, None)


@pytest.mark.slow
def test_too_few_workers_end_an_elastic_session_after_its_timeout() -> None:
    # After the cooldown, another worker would start.
    with farandole.session(2, min_np=2, initialize=False, elastic_timeout=3, cooldown_range=(600, 1200)) as workers:
        processes = workers.run(os.getpid)
        with pytest.raises(RuntimeError, match="^Rank 1 on host localhost was killed by signal 9"):
            workers.run(lambda: os.kill(os.getpid(), signal.SIGKILL), ranks=[1])
        with pytest.raises(
            RuntimeError,
            match=r"^the session has ended: the launcher ended with exit code 1\n(.*\n)*.* waited 3 s \(--el",
        ):
            workers.run(read_rank)
        assert_gone(processes)


@pytest.mark.slow
def test_a_number_of_workers_for_which_there_are_too_few_slots_is_refused_after_a_while() -> None:
    with farandole.session(1, hosts="localhost:1", max_np=2, initialize=False, start_timeout=15) as workers:
        with pytest.raises(
            RuntimeError, match=r"^the session has 1 of the 2 workers for which scale\(\) has waited 15 s"
        ):
            workers.scale(2)
        assert workers.run(read_rank) == [0]
