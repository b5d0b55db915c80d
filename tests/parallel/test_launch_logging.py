"""What a job logs about its life, in both formats, the names of its threads, and the cores to which they are pinned."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Dict, List

from launched import needs_launcher, run_script

pytestmark = needs_launcher

# Prints the cores of each thread of the runtime, by its name.
THREADS = """
import json, os
import farandole.numpy as hvd, numpy

def print_threads():
    cores = {}
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as file:
                cores.setdefault(file.read().strip(), set()).update(os.sched_getaffinity(int(task)))
        except (FileNotFoundError, ProcessLookupError):
            pass  # the thread has ended
    of_runtime = {name: sorted(all_cores) for name, all_cores in cores.items() if name.startswith("fd-")}
    print("threads", json.dumps(of_runtime), flush=True)
"""

# The set fails once on rank 0, before any of its operations can complete. Rank 2 is not in it.
SET_RESTARTS = (
    THREADS
    + """
hvd.init(process_sets="dynamic")
pair = hvd.add_process_set([0, 1])
hvd.barrier()  # the set has started on both ranks before its first message, at which it fails
while pair.included():
    try:
        hvd.allreduce(numpy.ones(4), name="sum", process_set=pair)
        break
    except hvd.HorovodInternalError as error:
        assert "process set 1 was restarted" in str(error), error
print_threads()
hvd.remove_process_set(pair)
hvd.barrier()  # the set is removed on every rank
hvd.shutdown()
"""
)
OF_EVERY_RANK = [
    r"the link with the rendezvous at 127\.0\.0\.1:\d+ is up",
    r"the data paths of the global set are connected: local \(allreduce, .*\); there is no fast path",
    r"joined the job as rank {rank} of 3 on \S+ in generation 1",
    r"left generation 1 in order: .+",
    r"the link with the rendezvous at 127\.0\.0\.1:\d+ is down",
]
OF_EACH_LINK = [
    r"the link with rank {peer} at 127\.0\.0\.1:\d+ is up",
    r"the link with rank {peer} at 127\.0\.0\.1:\d+ is down",
]
OF_THE_SET = [
    r"process set 1 started with ranks \[0, 1\]",
    r"process set 1 restarts, because a part of it failed on rank 0: .* into the negotiator.*",
    r"process set 1 ended",
]
OF_EACH_START_OF_THE_SET = r"the data paths of process set 1 are connected: local \(allreduce, .*"


def expected_events(rank: int) -> Dict[str, int]:
    """How often each event is logged. Every rank has a link with rank 0."""
    events = [event.format(rank=rank) for event in OF_EVERY_RANK]
    events += [event.format(peer=peer) for event in OF_EACH_LINK for peer in ([1, 2] if rank == 0 else [0])]
    counts = dict.fromkeys(events, 1)
    if rank < 2:
        counts.update(dict.fromkeys(OF_THE_SET, 1))
        counts[OF_EACH_START_OF_THE_SET] = 2
    return counts


DIES = (
    THREADS
    + """
import signal
hvd.init()
hvd.allreduce(numpy.ones(4))
print_threads()
hvd.barrier()
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    hvd.allreduce(numpy.ones(4))
except hvd.HorovodInternalError:
    pass
"""
)


def threads_of(rank: int, output: str) -> Dict[str, List[int]]:
    found = re.findall(rf"^\[{rank}\]<stdout>:threads (.*)$", output, re.M)
    assert len(found) == 1, output
    cores: Dict[str, List[int]] = json.loads(found[0])
    return cores


def test_level_debug_logs_each_event_in_the_life_of_a_job_once(tmp_path: Path) -> None:
    job = run_script(
        3,
        tmp_path,
        SET_RESTARTS,
        HOROVOD_LOG_LEVEL="debug",
        HOROVOD_LOG_HIDE_TIME="1",
        HOROVOD_THREAD_AFFINITY="0",
        FARANDOLE_FAST_PATH="0",
        FARANDOLE_TESTING="1",
        FARANDOLE_TEST_FAULT="set=1,rank=0,actor=negotiator,message=1",
    )
    assert job.returncode == 0, job.stdout
    assert "no effect" not in job.stdout, job.stdout
    every_event = {event for rank in (0, 1, 2) for event in expected_events(rank)}
    for rank in (0, 1, 2):
        lines = re.findall(rf"^\[{rank}\]<stdout>:\[D [a-z_]+\.cpp:\d+\](?: \[{rank}\])?: (.*)$", job.stdout, re.M)
        logged = Counter(event for line in lines for event in every_event if re.fullmatch(event, line))
        assert logged == expected_events(rank), job.stdout
        # The affinity list is too short, so the threads may use all cores of the process.
        threads = threads_of(rank, job.stdout)
        assert {"fd-loop", "fd-lane", *(["fd-lane/1"] if rank < 2 else [])} <= threads.keys(), threads
        assert all(cores == sorted(os.sched_getaffinity(0)) for cores in threads.values()), threads
        refusals = re.findall(
            rf"^\[{rank}\]<stderr>:\[E thread_pinning\.cpp:\d+\] \[{rank}\]: thread affinity "
            rf"\(HOROVOD_THREAD_AFFINITY\) = 0 has 1 entry for 3 ranks of the host, so no thread of local rank {rank} "
            r"on \S+ is pinned to a core; list one core id for each rank of the host$",
            job.stdout,
            re.M,
        )
        assert len(refusals) == 1, job.stdout


def test_json_logs_have_one_object_per_line_and_threads_run_on_the_cores_of_their_local_rank(tmp_path: Path) -> None:
    usable = sorted(os.sched_getaffinity(0))
    cores = [usable[-1], usable[0]]
    job = run_script(
        2,
        tmp_path,
        DIES,
        HOROVOD_LOG_LEVEL="debug",
        HOROVOD_THREAD_AFFINITY=",".join(map(str, cores)),
        FARANDOLE_LOG_FORMAT="json",
        FARANDOLE_EXIT_GRACE="60",
    )
    assert job.returncode == 137, job.stdout
    assert re.search(r"\.cpp:\d+\]", job.stdout) is None, job.stdout  # a line in the text format
    objects = [json.loads(line) for line in re.findall(r"^(?:\[\d\]<std(?:out|err)>:)?(\{.*)$", job.stdout, re.M)]
    for line in objects:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["time"]), line
        assert line["level"] in ("debug", "info", "warning", "error") and line["file"].endswith(".cpp"), line
        assert isinstance(line["line"], int) and line["text"], line
    texts = {rank: [line["text"] for line in objects if line.get("rank") == rank] for rank in (0, 1, None)}
    assert "all 2 ranks started" in texts[None], job.stdout
    for rank in (0, 1):
        assert f"pinned the event loop and the lanes of local rank {rank} to core {cores[rank]}" in texts[rank]
        threads = threads_of(rank, job.stdout)
        assert {"fd-loop": [cores[rank]], "fd-lane": [cores[rank]]}.items() <= threads.items(), threads
    killed = r"was killed by signal 9 \(Killed\)"
    for event in (rf"lost rank 1 on \S+: {killed}", rf"left generation 1: rank 1 on \S+ {killed}; .*"):
        assert len([text for text in texts[0] if re.fullmatch(event, text)]) == 1, job.stdout
