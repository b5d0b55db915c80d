"""Names of ``horovod.runner.mpi_run`` and ``js_run`` that tools replace: each is looked up when a job is launched."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest
from farandole.runner import program
from horovod.runner import _HorovodArgs, js_run, launch, mpi_run
from horovod.runner.common.util import tiny_shell_exec
from horovod.runner.common.util.settings import Settings
from horovod.runner.util import lsf
from launched import DEADLINE_S, FARANDOLE, needs_launcher, wait_until

pytestmark = needs_launcher

SHELL = ("/bin/sh", "-c")
VERSIONS = {
    "mpirun (Open MPI) 4.1.4": mpi_run._OMPI_IMPL,
    "mpirun (Open MPI) 5.0.3": mpi_run._OMPI_IMPL,
    "OpenRTE 4.0": mpi_run._OMPI_IMPL,
    "mpirun (IBM Spectrum MPI) 10.4": mpi_run._SMPI_IMPL,
    "HYDRA build details:": mpi_run._MPICH_IMPL,
    "Intel(R) MPI Library for Linux* OS": mpi_run._IMPI_IMPL,
    "Some MPI 1.0": mpi_run._UNKNOWN_IMPL,
}


@pytest.fixture(autouse=True)
def tested_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "path_of_launcher", lambda: FARANDOLE)
    for name in ("LSB_JOBID", "CSM_ALLOCATION_ID"):
        monkeypatch.delenv(name, raising=False)


def set_version(monkeypatch: pytest.MonkeyPatch, text: str, code: int = 0) -> List[Any]:
    """Makes ``mpirun --version`` print a text. Returns the commands that are run."""
    seen: List[Any] = []

    def execute(command: Any, env: Optional[Dict[str, str]] = None) -> Tuple[str, int]:
        seen.append(command)
        return text, code

    monkeypatch.setattr(mpi_run.tiny_shell_exec, "execute", execute)
    return seen


def executed(monkeypatch: pytest.MonkeyPatch, settings: Settings, env: Dict[str, str]) -> List[str]:
    """The words of the command line that ``mpi_run`` executes for a function."""
    lines: List[str] = []
    monkeypatch.setattr(mpi_run.safe_shell_exec, "execute", lambda line, **options: lines.append(line) or 0)
    settings.run_func_mode = True
    mpi_run.mpi_run(settings, None, env, ["echo", "two words"])
    (line,) = lines
    return shlex.split(line)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_implementation_is_that_of_the_version(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set_version(monkeypatch, version)
    expected = VERSIONS[version]
    assert mpi_run._get_mpi_implementation({}) == expected
    assert seen == ["mpirun --version"]
    assert mpi_run.mpi_available() == (expected != mpi_run._UNKNOWN_IMPL)
    kinds = (mpi_run.is_open_mpi, mpi_run.is_spectrum_mpi, mpi_run.is_mpich, mpi_run.is_intel_mpi)
    names = (mpi_run._OMPI_IMPL, mpi_run._SMPI_IMPL, mpi_run._MPICH_IMPL, mpi_run._IMPI_IMPL)
    assert [is_kind() for is_kind in kinds] == [name == expected for name in names]
    set_version(monkeypatch, version, 127)
    assert mpi_run._get_mpi_implementation() == mpi_run._MISSING_IMPL and not mpi_run.mpi_available()


def test_a_command_that_is_run_for_its_output() -> None:
    assert tiny_shell_exec.execute("echo a; echo $X >&2; exit 3", {"X": "b"}) == ("a\nb\n", 3)
    assert tiny_shell_exec.execute(["/nonexistent/mpirun"]) is None


def test_an_implementation_has_its_flags_and_its_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    slots, ob1 = ["-bind-to", "none", "-map-by", "slot"], ["-mca", "pml", "ob1", "-mca", "btl", "^openib"]
    sockets = ["-bind-to", "socket", "-map-by", "socket", "-rank-by", "core"]
    for implementation, tcp_flag, flags, binding in (
        (mpi_run._OMPI_IMPL, True, ob1, slots),
        (mpi_run._SMPI_IMPL, False, [], sockets),
        (mpi_run._SMPI_IMPL, True, ["-tcp"], sockets),
        (mpi_run._MPICH_IMPL, None, [], slots),
        (mpi_run._IMPI_IMPL, None, [], []),
    ):
        monkeypatch.setattr(mpi_run, "_get_mpi_implementation", lambda env, name=implementation: name)
        assert mpi_run._get_mpi_implementation_flags(tcp_flag, {}) == (flags, binding, implementation)
    monkeypatch.setattr(mpi_run, "_get_mpi_implementation", lambda env: mpi_run._MISSING_IMPL)
    assert mpi_run._get_mpi_implementation_flags(False) == (None, None, None)


def test_the_command_line_follows_replaced_names(monkeypatch: pytest.MonkeyPatch) -> None:
    set_version(monkeypatch, "mpirun (Open MPI) 5.0.3")
    settings, env = Settings(hosts="a:1,b:1", num_proc=2), {"PATH": "/bin", "PYTHONPATH": ""}
    base, end = ["mpirun", "--allow-run-as-root", "--tag-output", "-np", "2", "-H", "a:1,b:1"], ["echo", "two words"]
    assert executed(monkeypatch, settings, env)[: len(base) + 4] == [*base, "--bind-to", "none", "--map-by", "slot"]

    monkeypatch.setattr(mpi_run, "_get_mpi_implementation", lambda env: mpi_run._MPICH_IMPL)
    hydra = ["mpirun", "-l", "-np", "2", "-ppn", "1", "-hosts", "a,b", "-bind-to", "none", "-map-by", "slot"]
    assert executed(monkeypatch, settings, env) == [*hydra, *end]

    flags = (["--own", "-x 'A=b c'"], ["--bound"], mpi_run._OMPI_IMPL)
    monkeypatch.setattr(mpi_run, "_get_mpi_implementation_flags", lambda tcp_flag, env: flags)
    replaced = executed(monkeypatch, settings, env)
    assert replaced[: len(base) + 4] == [*base, "--bound", "--own", "-x", "A=b c"] and replaced[-2:] == end
    assert not {"-mca", "--bind-to"} & set(replaced)
    settings.binding_args = "--given 'by user'"
    assert executed(monkeypatch, settings, env)[len(base) :][:3] == ["--given", "by user", "--own"]

    monkeypatch.setattr(mpi_run, "_LARGE_CLUSTER_THRESHOLD", 2)
    assert "--prtemca plm_ssh_num_concurrent 2" in " ".join(executed(monkeypatch, settings, env))


@pytest.mark.parametrize(
    ("replaced", "value"),
    [
        (None, None),
        ("_get_mpi_implementation", lambda env: mpi_run._OMPI_IMPL),
        ("_get_mpi_implementation_flags", lambda tcp_flag, env: ([], [], mpi_run._OMPI_IMPL)),
    ],
    ids=["nothing", "the implementation", "the flags"],
)
def test_mpirun_is_asked_for_its_version_once(
    replaced: Optional[str], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, launched = set_version(monkeypatch, "mpirun (Open MPI) 5.0.3"), []
    output_of = program.output_of
    monkeypatch.setattr(
        program, "output_of", lambda *words, **rest: launched.append(words) or output_of(*words, **rest)
    )
    if replaced:
        monkeypatch.setattr(mpi_run, replaced, value)
    mpi_run._asked.cache_clear()
    executed(monkeypatch, Settings(hosts="a:1", num_proc=1), {"PATH": "/bin"})
    assert seen == ["mpirun --version"]
    assert [[word for word in words if "--mpi-version" in word] for words in launched] == [
        ["--mpi-version=mpirun (Open MPI) 5.0.3"]
    ] * 2


class Became(Exception):
    """The process has become another program."""


def test_a_launch_by_mpirun_becomes_its_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    set_version(monkeypatch, "HYDRA build details:")
    monkeypatch.setattr(launch, "mpi_built", lambda verbose=False: True)

    def become(*given: Any) -> None:
        raise Became(*given)

    monkeypatch.setattr(mpi_run.os, "execve", become)
    arguments = _HorovodArgs()
    arguments.use_mpi, arguments.hosts, arguments.num_proc = True, "a:2", 2
    arguments.command, arguments.cache_capacity, arguments.mpi_args = ["echo", "two words"], 77, "-x 'A B'"
    with pytest.raises(Became) as became:
        launch._run(arguments)
    path, words, environment = became.value.args
    assert (path, tuple(words[:2])) == (SHELL[0], SHELL)
    expected = "mpirun -l -np 2 -ppn 2 -hosts a -bind-to none -map-by slot -x 'A B' echo 'two words'"
    assert shlex.split(words[2]) == shlex.split(expected) and "\n" not in words[2]
    assert environment["HOROVOD_CACHE_CAPACITY"] == "77"


RANKS = """overlapping_rs: allow
cpu_index_using: logical

rank: 0: { hostname: h1; cpu: {0-5} ; gpu: * ; mem: * }
rank: 1: { hostname: h1; cpu: {6-11} ; gpu: * ; mem: * }

rank: 2: { hostname: h2; cpu: {0-5} ; gpu: * ; mem: * }
"""
CLUSTER = {
    "using_lsf": True, "get_num_cores": 3, "get_num_threads": 4, "get_num_gpus": 2, "get_num_processes": 3,
    "get_compute_hosts": ["h1", "h2"],
}  # fmt: skip


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CLUSTER.items():
        monkeypatch.setattr(lsf.LSFUtils, name, staticmethod(lambda value=value: value))


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("hosts", ["h1:2,h2:2", None])
def test_a_rank_file_divides_the_cpus_that_lsf_tells(hosts: Optional[str], tmp_path: Path) -> None:
    settings = Settings(hosts=hosts, num_proc=3 if hosts else None)
    assert Path(js_run.generate_jsrun_rankfile(settings)).read_text() == RANKS
    path = tmp_path / "ranks"
    assert js_run.generate_jsrun_rankfile(settings, str(path)) == str(path)
    assert path.read_text() == RANKS


def test_a_temporary_rank_file_is_removed_when_its_process_has_ended() -> None:
    script = """
    from farandole.runner import js_run, program
    from farandole.runner.common.util.settings import Settings
    import sys
    program.path_of_launcher = lambda: sys.argv[1]
    js_run.LSFUtils.get_num_cores = js_run.LSFUtils.get_num_threads = staticmethod(lambda: 2)
    path = js_run.generate_jsrun_rankfile(Settings(hosts="h:1", num_proc=1))
    print(path, "cpu: {0-3}" in open(path).read())
    """
    words = [sys.executable, "-c", "\n".join(line[4:] for line in script.splitlines()), FARANDOLE]
    path, was_whole = subprocess.check_output(words, text=True, timeout=DEADLINE_S).split()
    assert was_whole == "True"
    wait_until(lambda: not os.path.exists(path), "the file is removed")


@pytest.mark.usefixtures("cluster")
def test_js_run_runs_a_text_with_the_rank_file(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, lines = Settings(hosts="h1:2", num_proc=2, tcp_flag=True, extra_mpi_args="-gpu", run_func_mode=True), []
    with pytest.raises(RuntimeError, match="jsrun is not on PATH"):
        js_run.js_run(settings, None, os.environ, "true")
    monkeypatch.setattr(js_run, "is_jsrun_installed", lambda: True)
    monkeypatch.setattr(js_run, "generate_jsrun_rankfile", lambda settings: "/the ranks")
    monkeypatch.setattr(js_run.safe_shell_exec, "execute", lambda line, **options: lines.append(line) or len(lines) - 1)
    js_run.js_run(settings, None, os.environ, "echo \"$X\" | cat && echo '$X'")
    settings.binding_args = "-n 2"
    with pytest.raises(RuntimeError, match="jsrun failed with exit code 1"):
        js_run.js_run(settings, None, os.environ, ["true"])
    command = ["sh", "-c", "echo \"$X\" | cat && echo '$X'"]
    assert [shlex.split(line) for line in lines] == [
        ["jsrun", "--erf_input", "/the ranks", "--smpiargs", "-tcp -gpu", *command],
        ["jsrun", "-n", "2", "--smpiargs", "-tcp -gpu", "true"],
    ]


@pytest.mark.usefixtures("cluster")
def test_jsrun_is_the_default_where_it_can_do_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: List[str] = []
    monkeypatch.setattr(js_run, "is_jsrun_installed", lambda: True)
    monkeypatch.setattr(js_run, "js_run", lambda *given: chosen.append("jsrun"))
    monkeypatch.setattr(launch.gloo_run, "gloo_run", lambda *given: chosen.append("agents"))
    arguments = _HorovodArgs()
    arguments.command = ["true"]
    launch._run(arguments)  # nothing tells the CPUs
    monkeypatch.setenv("CSM_ALLOCATION_ID", "17")
    launch._run(arguments)
    arguments.stdin = 0
    launch._run(arguments)
    assert chosen == ["agents", "jsrun", "agents"]
