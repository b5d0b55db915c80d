"""Ranks that leave right after a change of process sets, which is then still in progress on other ranks."""

from __future__ import annotations

from typing import Callable

from launched import Job, launch, needs_launcher

__all__ = ["launch"]  # the fixture

pytestmark = needs_launcher

LEAVING = """
import farandole.numpy as hvd

for cycle in range(20):
    hvd.init(process_sets="dynamic")
    first_ranks = hvd.add_process_set([0, 1, 2])
    if cycle % 2:
        hvd.remove_process_set(first_ranks)
    hvd.shutdown()
print("ended in order", flush=True)
"""


def test_a_rank_may_leave_right_after_a_change_of_process_sets(launch: Callable[..., Job]) -> None:
    job = launch(4, LEAVING)
    assert job.end() == 0, job.text
    assert job.text.count("ended in order") == 4
