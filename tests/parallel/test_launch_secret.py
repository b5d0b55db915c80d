"""``FARANDOLE_SECRET``: the job's secret in a variable, which ``init()`` removes from the environment."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List

import pytest
from farandole.runner.functions.job_secret import read_secret
from launched import DEADLINE_S, FARANDOLE, clean_environment, needs_launcher

pytestmark = needs_launcher

WORKER = """
import os
import subprocess
import sys

import farandole.numpy as hvd
import numpy

SECRET = "FARANDOLE_SECRET"
child = "import os, sys; sys.stdout.write(os.environ.get('FARANDOLE_SECRET', 'absent'))"
print("BEFORE", len(os.environ[SECRET]), flush=True)
try:
    hvd.init()
except ValueError as refused:
    print("REFUSED", refused, flush=True)
    sys.exit(3)
print("SUM", float(hvd.allreduce(numpy.ones(1), op=hvd.Sum, name="sum")[0]), flush=True)
print("AFTER", os.environ.get(SECRET, "absent"), os.getenv(SECRET, "absent"), flush=True)
print("CHILD", subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout, flush=True)
print("PRINTENV", subprocess.run(["printenv", SECRET], capture_output=True, text=True).returncode, flush=True)
hvd.shutdown()
"""


class Service:
    """A rendezvous of two workers."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.secret = secrets.token_hex(32)
        file = folder / "secret"
        file.write_text(self.secret)
        file.chmod(0o600)
        self.process = subprocess.Popen(
            [FARANDOLE, "rendezvous", *flags, "--secret-file", str(file)],
            stdout=subprocess.PIPE,
            env=clean_environment(),
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("127.0.0.1:"), line
        self.port = line.strip().split(":")[1]

    def variables(self, rank: int, size: int = 2) -> Dict[str, str]:
        place = {
            "HOROVOD_RANK": str(rank),
            "HOROVOD_SIZE": str(size),
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": self.port,
        }
        return {**clean_environment(), **place}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    started = Service(tmp_path, "--size", "2")
    yield started
    started.process.kill()
    started.process.communicate(timeout=DEADLINE_S)


def start(environment: Dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def outputs(workers: List[subprocess.Popen[str]]) -> List[str]:
    try:
        return [worker.communicate(timeout=DEADLINE_S)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()


def test_workers_join_by_the_variable_and_their_children_do_not_inherit_it(service: Service) -> None:
    workers = [start({**service.variables(rank), "FARANDOLE_SECRET": service.secret + "\n"}) for rank in range(2)]
    for text in outputs(workers):
        assert "BEFORE 65\nSUM 2.0\nAFTER absent absent\nCHILD absent\nPRINTENV 1\n" in text, text
        assert service.secret not in text
    assert [worker.returncode for worker in workers] == [0, 0]


def test_the_file_takes_precedence_over_the_variable_which_is_removed_all_the_same(
    service: Service, tmp_path: Path
) -> None:
    both = {"FARANDOLE_SECRET": secrets.token_hex(32), "FARANDOLE_SECRET_FILE": str(tmp_path / "secret")}
    workers = [start({**service.variables(rank), **both}) for rank in range(2)]
    for text in outputs(workers):
        assert "SUM 2.0\nAFTER absent absent\nCHILD absent\nPRINTENV 1\n" in text, text
    assert [worker.returncode for worker in workers] == [0, 0]


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        ("correct horse", "the secret of FARANDOLE_SECRET can be guessed"),
        ("8d1c0a9b52d87e43f0b1c2a39d84e571", "secret"),
    ],
    ids=["short", "wrong"],
)
def test_a_short_or_wrong_secret_is_refused_and_not_shown(secret: str, reason: str, service: Service) -> None:
    worker = start({**service.variables(0), "FARANDOLE_SECRET": secret, "HOROVOD_START_TIMEOUT": "10"})
    (text,) = outputs([worker])
    assert worker.returncode == 3, text
    assert reason in text.split("REFUSED ")[1]
    assert secret not in text


def test_a_launcher_takes_the_secret_of_a_separate_rendezvous_from_the_variable(tmp_path: Path) -> None:
    service = Service(tmp_path, "-np", "1", "--min-np", "1")
    try:
        ran = subprocess.run(
            [FARANDOLE, "run", "-np", "1", "--min-np", "1", "--rendezvous", f"127.0.0.1:{service.port}"]
            + ["-H", "localhost:1", "sh", "-c", 'echo "variable: ${FARANDOLE_SECRET-absent}"'],
            check=False,
            env={**clean_environment(), "FARANDOLE_SECRET": service.secret},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert "variable: absent" in ran.stdout, ran.stdout + ran.stderr
        assert ran.returncode == 0, ran.stderr
    finally:
        service.process.kill()
        service.process.communicate(timeout=DEADLINE_S)


def test_the_report_of_the_settings_does_not_show_the_secret() -> None:
    secret = secrets.token_hex(32)
    environment = {**clean_environment(), "FARANDOLE_SECRET": secret}
    shown = subprocess.run(
        [FARANDOLE, "settings"], check=True, env=environment, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert "FARANDOLE_SECRET " in shown.stdout and "set (not shown)" in shown.stdout
    assert secret not in shown.stdout + shown.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a file of root")
def test_python_reads_the_secret_files_that_the_launcher_reads() -> None:
    nobody = 65534

    def read_by(user: int, owner: int, group: int, mode: int) -> str:
        os.chown(path, owner, group)
        path.chmod(mode)
        os.setegid(user)
        os.seteuid(user)
        try:
            return read_secret(str(path))
        except ValueError:
            return "refused"
        finally:
            os.seteuid(0)
            os.setegid(0)

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "secret"
        path.write_text("text\n")
        assert read_by(nobody, nobody, nobody, 0o600) == "text"
        assert read_by(0, 0, 0, 0o400) == "text"
        # As Kubernetes mounts a secret for a user of a pod.
        assert read_by(nobody, 0, nobody, 0o440) == "text"
        for mode in (0o640, 0o460, 0o444, 0o450):
            assert read_by(nobody, 0, nobody, mode) == "refused", oct(mode)
        assert read_by(nobody, nobody, nobody, 0o440) == "refused"
        assert read_by(0, 0, nobody, 0o440) == "refused"
        os.mkfifo(f"{folder}/pipe", 0o600)
        with pytest.raises(ValueError, match="must be a file"):
            read_secret(f"{folder}/pipe")
