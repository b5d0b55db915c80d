"""Settings that are refused before a job trains.

They name paths that every process can write into, libraries of the rendezvous, and secrets that are not secret.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from namespaces import Hosts
from results import Results
from training import Training

INIT = "import farandole.numpy as hvd; hvd.init()"
ALONE = {
    "HOROVOD_RANK": "0",
    "HOROVOD_SIZE": "1",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "1",
}
REFUSED = "refused at the start, with the remedy"


@pytest.mark.parametrize("path", ["ucx", "gloo"])
def test_a_path_without_authentication_is_refused_without_a_trusted_network(
    path: str, hosts: Hosts, tmp_path: Path, results: Results
) -> None:
    job = Training(hosts, tmp_path, settings={"FARANDOLE_CPU_PATH": path})
    assert all(worker.end() != 0 for worker in job.workers)
    text = "".join(worker.text for worker in job.workers)
    assert path in text
    assert "FARANDOLE_TRUSTED_NETWORK" in text, text
    assert "training" not in text
    results.add(f"FARANDOLE_CPU_PATH={path} between hosts, whose messages anybody can forge", 1, REFUSED)


def test_the_rendezvous_cannot_make_a_worker_load_a_library(
    hosts: Hosts, tmp_path: Path, undisturbed: str, results: Results
) -> None:
    proof = tmp_path / "loaded"
    library = tmp_path / "hostile.so"
    (tmp_path / "hostile.c").write_text(
        "#include <stdio.h>\n"
        f'__attribute__((constructor)) static void load(void) {{ fclose(fopen("{proof}", "w")); }}\n'
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "hostile.c"], check=True, timeout=240)
    hostile = {"FARANDOLE_CPU_PATH": "plugin", "FARANDOLE_PATH_LIBRARY": str(library)}
    job = Training(hosts, tmp_path, settings={}, rendezvous_settings=hostile)
    codes = [worker.end() for worker in job.workers]
    text = "".join(worker.text for worker in job.workers)
    assert "FARANDOLE_PATH_LIBRARY" in text, text
    assert not proof.exists()
    assert all(code != 0 for code in codes)
    results.add("a rendezvous whose welcome names a library of its own", 1, "not loaded; " + REFUSED)


@pytest.mark.parametrize(
    ("title", "secret", "mode", "reason"),
    [
        ("a short secret", "correct horse", 0o600, "can be guessed"),
        ("a long secret that repeats", "abc" * 14, 0o600, "can be guessed"),
        ("a secret that others can read", secrets.token_hex(32), 0o644, "can be read or written by other users"),
    ],
    ids=["short", "repeats", "can be read"],
)
def test_a_secret_that_can_be_guessed_or_read_is_refused(
    title: str, secret: str, mode: int, reason: str, hosts: Hosts, tmp_path: Path, results: Results
) -> None:
    hosts.secret.write_text(secret)
    hosts.secret.chmod(mode)
    with pytest.raises(EOFError, match=rf"{reason}(.|\n)*(make one with|chmod 600)"):
        hosts.rendezvous(2)
    worker = hosts.start(1, [sys.executable, "-c", INIT], {"FARANDOLE_SECRET_FILE": str(hosts.secret), **ALONE})
    assert worker.end() != 0
    assert reason in worker.text, worker.text
    results.add(f"{title}: given to the rendezvous, to a worker", 2, REFUSED)
