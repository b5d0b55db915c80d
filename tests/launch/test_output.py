"""The output of workers on other hosts: all bytes arrive, in order, with bounded memory at the launcher."""

from __future__ import annotations

import hashlib
import os
import re
import select
import signal
import subprocess
from pathlib import Path
from typing import Callable, List, Tuple

import pytest
from launched import DEADLINE_S, wait_until
from namespaces import Process
from namespaces.ssh_hosts import SshHosts
from workers import exit_code, lines_of, python

MIB = 1 << 20

# Rank 1 prints as many lines of 1,000 bytes as its argument says, once the file of the third argument exists; rank 0
# prints 1,000 lines.
FLOOD = """
import os, sys, time
lines = int(sys.argv[1])
end = time.monotonic() + 240
if os.environ["HOROVOD_RANK"] == "0":
    for number in range(1000):
        print(f"line {number} of a", flush=True)
else:
    out = sys.stdout.buffer
    while not os.path.exists(sys.argv[3]):
        assert time.monotonic() < end
        time.sleep(0.01)
    for number in range(lines):
        out.write(b"%09d " % number + b"x" * 989 + b"\\n")
        if number % 1000 == 0:
            with open(sys.argv[2], "w") as written:
                written.write(str(number))
    out.flush()
"""


def expected_digest(lines: int) -> str:
    digest = hashlib.sha256()
    for number in range(lines):
        digest.update(b"%09d " % number + b"x" * 989 + b"\n")
    return digest.hexdigest()


def digests(path: Path) -> Tuple[str, List[bytes]]:
    """The digest of the lines of rank 1 without their prefix, and the lines of rank 0, in what the launcher wrote."""
    digest, others = hashlib.sha256(), []
    with path.open("rb") as file:
        for line in file:
            if line.startswith(b"[1]<stdout>:"):
                digest.update(line[len(b"[1]<stdout>:") :].lstrip(b" "))
            elif line.startswith(b"[0]<stdout>:"):
                others.append(line[len(b"[0]<stdout>:") :].strip())
    return digest.hexdigest(), others


def memory_of(pid: int, field: str) -> int:
    """A figure of /proc/PID/status in bytes."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found.group(1)) * 1024


@pytest.mark.parametrize("lines", [200_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_the_output_of_a_remote_rank_arrives_completely_and_no_line_of_another_is_lost(
    launch: Callable[..., Process], hosts: SshHosts, lines: int
) -> None:
    output = hosts.shared / "output"
    command = python(hosts.shared, FLOOD, str(lines), str(hosts.shared / "written"), str(hosts.shared))
    job = launch("-np", "2", "-H", "a:1,b:1", *command, shell=f">{output}")
    assert exit_code(job) == 0, job.text
    digest, others = digests(output)
    assert others == [b"line %d of a" % number for number in range(1000)]
    assert digest == expected_digest(lines)


@pytest.mark.slow
def test_a_reader_that_stops_holds_the_worker_back_and_then_gets_all_bytes(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    lines, pipe, written = 100_000, hosts.shared / "pipe", hosts.shared / "written"
    os.mkfifo(pipe)
    go = hosts.shared / "go"
    command = python(hosts.shared, FLOOD, str(lines), str(written), str(go))
    job = launch("-np", "2", "-H", "a:1,b:1", *command, shell=f">{pipe}")
    reader = open_for_writer(pipe)
    try:
        first = os.read(reader, 64)
        before = memory_of(job.pid, "VmHWM")
        go.touch()
        wait_until(written.exists, "the worker prints")
        wait_until(lambda: held_back(written.read_text), "the worker is held back")
        assert int(written.read_text()) < lines - 1000, "all output was taken, though nothing reads it"
        assert memory_of(job.pid, "VmHWM") - before < 32 * MIB
        received = hosts.shared / "received"
        with received.open("wb") as copy:
            copy.write(first)
            copy.flush()
            subprocess.run(["cat"], stdin=reader, stdout=copy, check=True, timeout=DEADLINE_S)
    finally:
        os.close(reader)
    assert exit_code(job) == 0, job.text
    digest, others = digests(received)
    assert others == [b"line %d of a" % number for number in range(1000)]
    assert digest == expected_digest(lines)


def open_for_writer(pipe: Path) -> int:
    """Opens a named pipe for reading, and returns its descriptor when the first output can be read."""
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # without the flag, the call waits for ever for a writer
    ready, _, _ = select.select([reader], [], [], DEADLINE_S)
    assert ready, f"nothing was written to {pipe.name} within {DEADLINE_S} s"
    os.set_blocking(reader, True)
    return reader


def held_back(progress: Callable[[], str]) -> bool:
    """Whether the workers have made no progress between a few looks."""
    looks = []
    for _ in range(20):
        looks.append(progress())
        select.select([], [], [], 0.05)
    return len(set(looks)) == 1 and looks[0] != ""


def test_a_job_whose_launcher_has_no_standard_output_succeeds(launch: Callable[..., Process], hosts: SshHosts) -> None:
    errors = hosts.shared / "errors"
    job = launch("-np", "2", "-H", "a:1,b:1", "sh", "-c", "echo out; echo err >&2", shell=f">&- 2>{errors}")
    assert exit_code(job) == 0, errors.read_text()
    said = errors.read_text()
    assert all(f"[{rank}]<stderr>:err\n" in said for rank in range(2)), said
    assert said.count("output is lost") == 1, said


# A worker prints a line, and once the file of its argument exists it prints without end.
ENDLESS_OUTPUT = 'echo ready; while ! test -e "$0"; do sleep 0.05; done; exec yes'


@pytest.mark.slow
def test_many_ranks_that_print_without_end_do_not_fill_the_memory_of_the_launcher(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    ranks, pipe, go = 64, hosts.shared / "pipe", hosts.shared / "go"
    os.mkfifo(pipe)
    job = launch("-np", str(ranks), "-H", f"b:{ranks}", "sh", "-c", ENDLESS_OUTPUT, str(go), shell=f">{pipe}")
    reader = open_for_writer(pipe)

    def printed() -> str:
        """The bytes that each worker has written; "" until all print."""
        workers = [each.pid for each in hosts.processes(1) if each.command == "yes"]
        written = [re.findall(r"^wchar: (\d+)$", Path(f"/proc/{pid}/io").read_text(), re.MULTILINE) for pid in workers]
        return str(written) if len(workers) == ranks else ""

    try:
        received = b""
        while received.count(b"ready") < ranks:
            received += os.read(reader, MIB)
        before = memory_of(job.pid, "VmHWM")
        go.touch()
        wait_until(lambda: held_back(printed), "the workers are held back")
        assert memory_of(job.pid, "VmHWM") - before < 32 * MIB
        os.kill(job.pid, signal.SIGTERM)
        subprocess.run(["cat"], stdin=reader, stdout=subprocess.DEVNULL, check=True, timeout=DEADLINE_S)
    finally:
        os.close(reader)
    assert exit_code(job) == 143, job.text


@pytest.mark.slow
def test_bytes_that_are_not_utf_8_arrive_as_those_of_a_local_worker(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    script = r"printf '\377\376 \303\050 \000 end\n\344\275\240\n10%%\r20%%\rdone\nno newline'"
    output = hosts.shared / "output"
    job = launch("-np", "2", "-H", "a:1,b:1", "sh", "-c", script, shell=f">{output}")
    assert exit_code(job) == 0, job.text
    lines = re.split(rb"[\r\n]+", output.read_bytes())
    local = [line[3:] for line in lines if line.startswith(b"[0]<")]
    remote = [line[3:] for line in lines if line.startswith(b"[1]<")]
    assert remote == local and len(remote) == 6, output.read_bytes()
    assert remote[-1].endswith(b"no newline") and remote[1].endswith("你".encode())


@pytest.mark.slow
def test_a_line_of_many_megabytes_arrives_whole(launch: Callable[..., Process], hosts: SshHosts) -> None:
    script = f"import sys; sys.stdout.write('y' * {100 * MIB} + '\\n')"
    output = hosts.shared / "output"
    job = launch("-np", "2", "-H", "a:1,b:1", *python(hosts.shared, script), shell=f">{output}")
    assert exit_code(job) == 0, job.text
    assert output.read_bytes().count(b"y") == 2 * 100 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["1", "2"], ids=["stdout", "stderr"])
def test_a_worker_may_close_an_output_stream_and_continue(
    launch: Callable[..., Process], hosts: SshHosts, closed: str
) -> None:
    other = "2" if closed == "1" else "1"
    script = f"echo before >&{closed}; exec {closed}>&-; hostname >&{other}"
    job = launch("-np", "2", "-H", "a:1,b:1", "sh", "-c", script)
    assert exit_code(job) == 0, job.text
    streams = {"1": "stdout", "2": "stderr"}
    for rank, host in enumerate("ab"):
        assert lines_of(job, rank, streams[closed]) == ["before"], job.text
        assert lines_of(job, rank, streams[other]) == [host], job.text


@pytest.mark.slow
def test_the_two_streams_of_a_remote_worker_stay_apart(launch: Callable[..., Process], hosts: SshHosts) -> None:
    errors = hosts.shared / "errors"
    job = launch("-np", "2", "-H", "a:1,b:1", "sh", "-c", "echo out; echo err >&2", shell=f"2>{errors}")
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 1) == ["out"] and "err" not in job.text, job.text
    assert re.search(r"^\[1\]<stderr>: ?err$", errors.read_text(), re.MULTILINE), errors.read_text()


@pytest.mark.slow
def test_timestamps_precede_the_prefix_of_remote_lines(launch: Callable[..., Process]) -> None:
    job = launch("-np", "2", "-H", "a:1,b:1", "--prefix-output-with-timestamp", "hostname")
    assert exit_code(job) == 0, job.text
    for rank, host in enumerate("ab"):
        assert re.search(
            rf"^\w{{3}} \w{{3}} [ \d]\d \d\d:\d\d:\d\d \d{{4}}\[{rank}\]<stdout>: ?{host}$", job.text, re.M
        )


@pytest.mark.slow
def test_the_job_goes_on_when_the_reader_of_its_output_is_gone(launch: Callable[..., Process], hosts: SshHosts) -> None:
    pipe, errors = hosts.shared / "pipe", hosts.shared / "errors"
    os.mkfifo(pipe)
    command = python(hosts.shared, FLOOD, "20000", str(hosts.shared / "written"), str(hosts.shared))
    job = launch("-np", "2", "-H", "a:1,b:1", *command, shell=f">{pipe} 2>{errors}")
    os.close(open_for_writer(pipe))
    assert exit_code(job) == 0, errors.read_text()
    assert "output is lost" in errors.read_text()
