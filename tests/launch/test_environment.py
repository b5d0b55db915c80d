"""What a worker on another host gets from its launcher: variables, arguments and directory, none of them through a
command line."""

from __future__ import annotations

import os
import sys
from typing import Callable, Dict

import pytest
from launched import wait_until
from namespaces import Process
from namespaces.ssh_hosts import SshHosts
from workers import UNTIL_FILE, exit_code, lines_about, lines_of, pids_of, python

# Each worker writes its environment to a file in the folder of its argument.
WRITES_ENVIRONMENT = """
import os, sys
with open(f"{sys.argv[1]}/environment.{os.environ['HOROVOD_RANK']}", "wb") as file:
    file.write(b"\\0".join(name + b"=" + value for name, value in os.environb.items()))
"""


def environment_of(hosts: SshHosts, rank: int) -> Dict[bytes, bytes]:
    entries = (hosts.shared / f"environment.{rank}").read_bytes().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries)


def test_variables_with_any_bytes_and_sizes_are_forwarded(launch: Callable[..., Process], hosts: SshHosts) -> None:
    # Linux takes at most 128 KiB for one variable; these are a megabyte together.
    given = {f"LARGE_{number}": chr(ord("a") + number) * 127_000 for number in range(8)}
    given["EVERY_BYTE"] = os.fsdecode(bytes(range(1, 256)) * 16)
    given["MANY_LINES"] = "one\ntwo\r\n\n'three' \"four\" $five `six` \\ = ;\n"
    given["EMPTY"] = ""
    given["MY_OLDPWD"] = given["A_PYTHON_BASH_FUNC"] = "kept"
    job = launch(
        "-np", "2", "-H", "a:1,b:1", *python(hosts.shared, WRITES_ENVIRONMENT, str(hosts.shared)), settings=given
    )
    assert exit_code(job) == 0, job.text
    for rank in range(2):
        received = environment_of(hosts, rank)
        for name, value in given.items():
            assert received[name.encode()] == os.fsencode(value), f"{name} of rank {rank}"


def test_variables_of_one_host_are_not_forwarded(launch: Callable[..., Process], hosts: SshHosts) -> None:
    local = {
        "CUDA_VISIBLE_DEVICES": "0",
        "THEIR_CUDA_VISIBLE_DEVICES": "1",
        "OLDPWD": "/of/launcher",
        "_HOROVOD_SECRET_KEY": "old",
        "BASH_FUNC_module%%": "() { :; }",
    }
    job = launch(
        "-np", "2", "-H", "a:1,b:1", *python(hosts.shared, WRITES_ENVIRONMENT, str(hosts.shared)), settings=local
    )
    assert exit_code(job) == 0, job.text
    on_this_host, on_b = environment_of(hosts, 0), environment_of(hosts, 1)
    for name, value in local.items():
        assert on_b.get(name.encode()) != value.encode(), f"{name} came to b"
        if "SECRET" not in name:
            assert on_this_host.get(name.encode()) == value.encode(), f"{name} did not come to the local worker"
    assert on_b[b"PYTHONUNBUFFERED"] == b"1"
    assert on_b[b"HOROVOD_CONTROLLER"] == b"gloo"


# The worker tells the test the job's secret, which it inherits in a file.
TELLS_SECRET = (
    """
import os, sys
for name in ("FARANDOLE_SECRET_FD", "FARANDOLE_SECRET_FILE"):
    if value := os.environ.get(name):
        file = open(value if name.endswith("FILE") else int(value), "rb", closefd=False)
        with open(f"{sys.argv[2]}/secret.{os.environ['HOROVOD_RANK']}", "wb") as copy:
            copy.write(os.pread(file.fileno(), 4096, 0))
"""
    + UNTIL_FILE
)


def test_no_command_line_has_the_secret_a_variable_or_an_argument(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    enough = hosts.shared / "enough"
    told = hosts.shared / "told"
    told.mkdir()
    job = launch(
        *("-np", "2", "-H", "a:1,b:1"),
        *python(hosts.shared, TELLS_SECRET, str(enough), str(told), "ARGUMENT-OF-THE-WORKER"),
        settings={"VARIABLE_OF_THE_JOB": "VALUE-OF-THE-VARIABLE"},
    )
    workers = pids_of(job, 2)
    secrets = [file.read_bytes() for file in told.iterdir()]
    assert len(secrets) == 2 and len(set(secrets)) == 1 and len(secrets[0]) >= 16
    for number in (0, 1):
        processes = hosts.processes(number)
        assert len(processes) >= 2
        for process in processes:
            text = f"{process} on {hosts.names[number]}"
            for secret in (secrets[0].decode(errors="replace").strip(), secrets[0].hex()):
                assert secret not in process.command, text
            assert "VARIABLE_OF_THE_JOB" not in process.command and "VALUE-OF-THE-VARIABLE" not in process.command, text
            # The launcher's own command line, which its process keeper shares, holds the argument.
            if process.pid not in workers.values() and " run " not in process.command:
                assert "ARGUMENT-OF-THE-WORKER" not in process.command, text
    assert "VALUE-OF-THE-VARIABLE" not in hosts.log(1).read_text()
    enough.touch()
    assert exit_code(job) == 0, job.text


def test_arguments_arrive_unchanged(launch: Callable[..., Process], hosts: SshHosts) -> None:
    given = [
        "",
        "two words",
        "it's",
        '"',
        "$HOME",
        "`id`",
        "*",
        "\\",
        "new\nline",
        ";exit 3",
        "-x",
        os.fsdecode(b"\xff\xfe"),
    ]
    script = "import os, sys; print([os.fsencode(word) for word in sys.argv[1:]])"
    job = launch("-np", "2", "-H", "a:1,b:1", sys.executable, "-c", script, *given)
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 0) == lines_of(job, 1) == [str([os.fsencode(word) for word in given])], job.text


@pytest.mark.parametrize("name", ["folder", "a 'folder' with $signs; and \"quotes\""])
def test_workers_run_in_the_directory_of_the_launcher(
    launch: Callable[..., Process], hosts: SshHosts, name: str
) -> None:
    folder = hosts.shared / name
    folder.mkdir()
    job = launch("-np", "2", "-H", "a:1,b:1", "/bin/pwd", folder=folder)
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 0) == lines_of(job, 1) == [str(folder)], job.text
    assert "warning" not in job.text.lower(), job.text


def test_a_directory_that_a_host_lacks_is_named_and_the_job_runs_in_the_home_directory(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    folder = hosts.shared / "outer" / "inner"
    folder.mkdir(parents=True)
    hosts.hide(1, folder.parent)
    job = launch("-np", "2", "-H", "a:1,b:1", "/bin/pwd", folder=folder)
    assert exit_code(job) == 0, job.text
    assert (lines_of(job, 0), lines_of(job, 1)) == ([str(folder)], [str(hosts.home)]), job.text
    warnings = [line for line in lines_about(job, "b") if "warning" in line.lower()]
    assert len(warnings) == 1 and str(folder) in warnings[0], job.text


def test_output_folders_are_written_on_the_host_of_the_launcher(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    folder = hosts.shared / "output"
    folder.mkdir()
    hosts.hide(1, folder)
    job = launch("-np", "2", "-H", "a:1,b:1", "--output-filename", str(folder), "sh", "-c", "hostname; hostname >&2")
    assert exit_code(job) == 0, job.text
    wait_until((folder / "rank.1" / "stderr").exists, "the output of rank 1 is written")
    for rank, host in enumerate("ab"):
        for stream in ("stdout", "stderr"):
            assert host in (folder / f"rank.{rank}" / stream).read_text()
