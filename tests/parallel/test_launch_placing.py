"""``farandole.runner.placing``: jobs in a cluster of child processes, whose places misbehave."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Callable, List, Optional

import pytest
from farandole.runner import placing, placing_mpi, program
from launched import DEADLINE_S, wait_until

EXAMPLE = Path(__file__).parents[2] / "docs/examples/placer.py"
LOOPBACK = placing.Options(address="127.0.0.1", start_timeout_s=240)


def rank_and_size() -> Any:
    import farandole.numpy as hvd

    hvd.init()
    return hvd.rank(), hvd.size(), hvd.local_rank(), os.environ["HOROVOD_HOSTNAME"]


class Places:
    """Child processes as places; ``begin`` starts the agent of a place, or something else."""

    def __init__(self, names: List[str], begin: Optional[Callable[[str, List[str], str], Any]] = None) -> None:
        self.names, self.begin = names, begin or run_agent
        self.agents: List[subprocess.Popen[str]] = []
        self.seen: List[str] = []
        self.problem: Optional[Exception] = None
        self.wake: Callable[[], None] = lambda: None
        self.on_connected: Callable[[str], None] = lambda place: None
        self.outcomes: List[bool] = []

    def start(self, launcher: str, secret: str) -> None:
        for name in self.names:
            self.agents.append(self.begin(name, placing.agent_command(launcher, name, 240), secret))

    def connected(self, place: str) -> None:
        self.seen.append(place)
        self.on_connected(place)

    def lost(self, problem: Exception) -> Exception:
        return problem

    def close(self, has_succeeded: bool) -> None:
        self.outcomes.append(has_succeeded)
        for agent in self.agents:
            assert agent.stdin is not None
            agent.stdin.close()
            agent.wait(DEADLINE_S)


def run_agent(name: str, words: List[str], secret: str) -> subprocess.Popen[str]:
    agent = subprocess.Popen(words, stdin=subprocess.PIPE, text=True)
    assert agent.stdin is not None
    agent.stdin.write(secret + "\n")
    agent.stdin.flush()
    return agent


def run_nothing(name: str, words: List[str], secret: str) -> subprocess.Popen[str]:
    """A place that takes its work and never begins with it."""
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE, text=True)


def test_a_function_runs_in_each_place() -> None:
    places = Places(["b", "a", "c"])
    results = placing.run(rank_and_size, (), {}, places, placing.Sizes(3), LOOPBACK)
    assert results == [(rank, 3, rank, name) for rank, name in enumerate("abc")]
    assert sorted(places.seen) == ["a", "b", "c"] and places.outcomes == [True]


@pytest.mark.slow
def test_a_place_that_never_starts_is_counted() -> None:
    places = Places(["a", "b"], lambda name, *rest: (run_agent if name == "a" else run_nothing)(name, *rest))
    options = placing.Options(address="127.0.0.1", start_timeout_s=12)
    with pytest.raises(placing.PlacesMissing) as caught:
        placing.run(rank_and_size, (), {}, places, placing.Sizes(2), options)
    assert str(caught.value) == "places have no agent: 1 of 2 have started within 12 s (a)"
    assert places.outcomes == [False]


def test_a_place_that_dies_before_its_agent_has_connected_can_be_reported_by_the_placer() -> None:
    def die(name: str, words: List[str], secret: str) -> subprocess.Popen[str]:
        process = run_nothing(name, words, secret)
        process.kill()
        process.wait(DEADLINE_S)
        places.problem = OSError(f"place {name} died with code {process.returncode}")
        places.wake()
        return process

    places = Places(["a"], die)
    with pytest.raises(OSError, match="place a died with code -9"):
        placing.run(rank_and_size, (), {}, places, placing.Sizes(1), LOOPBACK)
    assert places.outcomes == [False]


def test_an_agent_that_is_killed_ends_a_job_of_fixed_size_with_its_place(tmp_path: Path) -> None:
    started = tmp_path / "started"

    def train() -> None:
        import time

        import farandole.numpy as hvd

        hvd.init()
        started.touch()
        time.sleep(600)

    def kill_first() -> None:
        wait_until(started.exists, "a worker trains")
        places.agents[0].send_signal(signal.SIGKILL)

    import threading

    places = Places(["a", "b"])
    killer = threading.Thread(target=kill_first)
    killer.start()
    with pytest.raises(RuntimeError, match="host a was lost"):
        placing.run(train, (), {}, places, placing.Sizes(2), LOOPBACK)
    killer.join(DEADLINE_S)


@pytest.mark.slow
def test_a_place_of_an_elastic_job_may_end_and_come_again(tmp_path: Path) -> None:
    def train() -> Any:
        import farandole.numpy as hvd

        hvd.init()
        state = hvd.elastic.NumPyState(is_complete=0)

        @hvd.elastic.run
        def loop(state: Any) -> None:
            import numpy

            while not state.is_complete:
                (tmp_path / f"size-{hvd.size()}").touch()
                complete = (tmp_path / "again").exists() and hvd.size() == 2
                state.is_complete = int(hvd.broadcast(numpy.array([complete]), 0, name="complete")[0])
                state.commit()

        loop(state)
        return hvd.size()

    def end_and_come_again() -> None:
        wait_until((tmp_path / "size-2").exists, "both workers train")
        places.agents[1].send_signal(signal.SIGKILL)
        wait_until((tmp_path / "size-1").exists, "one worker trains")
        places.agents.append(run_agent("b.1", *begun["b"]))
        (tmp_path / "again").touch()

    import threading

    begun: Any = {}

    def begin(name: str, words: List[str], secret: str) -> Any:
        begun[name] = [words[:-5] + ["b.1", *words[-4:]] if name == "b" else words, secret]
        return run_agent(name, words, secret)

    places = Places(["a", "b"], begin)
    other = threading.Thread(target=end_and_come_again)
    other.start()
    results = placing.run(train, (), {}, places, placing.Sizes(2, fewest=1, most=2), LOOPBACK)
    other.join(DEADLINE_S)
    assert results[0] == 2 and sorted(places.seen) == ["a", "b", "b.1"]


@pytest.mark.parametrize("sizes", [(0,), (2, 3), (2, 0), (3, 1, 2)])
def test_sizes_must_be_in_order(sizes: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        placing.Sizes(*sizes)


@pytest.mark.slow
def test_the_example_runs() -> None:
    ran = subprocess.run([sys.executable, str(EXAMPLE)], check=True, capture_output=True, text=True, timeout=DEADLINE_S)
    assert sorted(ran.stdout.splitlines()) == ["[4.0, 4.0]", "left is there", "right is there"]
    assert importlib.util.find_spec("farandole.runner.placing")


def test_the_remote_shell_of_mpirun_may_lie_in_a_folder_with_a_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "path_of_launcher", lambda: "/my env/bin/farandole")
    places = placing_mpi._ConnectedPlaces(Places([]), 1, lambda *_: [], placing_mpi._Mpirun([]))
    places.attach(types.SimpleNamespace(process_id=7, wake=lambda: None))  # type: ignore[arg-type]
    assert shlex.split(places.remote_shell) == ["/my env/bin/farandole", "rsh", "--job", "tail-7"]


def own_folder(path: Path) -> str:
    """Options for mpirun and its daemons, which else share a folder with all jobs of the machine that end meanwhile."""
    return f"-mca orte_tmpdir_base {path}"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")
def test_mpirun_starts_the_workers_through_the_agents_of_the_places(tmp_path: Path) -> None:
    def describe() -> Any:
        import farandole.numpy as hvd

        hvd.init()
        return hvd.rank(), hvd.size(), hvd.local_rank(), os.environ["OMPI_COMM_WORLD_RANK"], os.environ["GIVEN"]

    places = Places(["b", "a"])
    results = placing_mpi.run(
        describe, (), {}, places, placing.Sizes(2), LOOPBACK, f"-x GIVEN=1 {own_folder(tmp_path)}"
    )
    assert results == [(rank, 2, rank, str(rank), "1") for rank in range(2)]
    assert places.outcomes == [True] and all(agent.returncode == 0 for agent in places.agents)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")
def test_a_place_that_is_lost_under_mpirun_is_named_by_the_cluster(tmp_path: Path) -> None:
    class Cluster(Places):
        def lost(self, problem: Exception) -> Exception:
            assert "was lost" in str(problem)
            return RuntimeError("the cluster has ended a place")

    def end_the_agent_of_the_place() -> None:
        process, agent = os.getpid(), 0
        while process > 1:
            name, _, fields = Path(f"/proc/{process}/stat").read_text().partition("(")[2].rpartition(")")
            if name == "farandole":
                agent = process
            process = int(fields.split()[1])  # its parent
        os.kill(agent, signal.SIGKILL)
        signal.pause()

    places = Cluster(["a"])
    with pytest.raises(RuntimeError, match="the cluster has ended a place"):
        placing_mpi.run(end_the_agent_of_the_place, (), {}, places, placing.Sizes(1), LOOPBACK, own_folder(tmp_path))
    assert places.outcomes == [False]
