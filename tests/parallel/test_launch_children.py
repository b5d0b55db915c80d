"""Processes that a member starts are not members and do not affect the member."""

from __future__ import annotations

from pathlib import Path

from launched import needs_launcher, run_script

pytestmark = needs_launcher

# The script has no main guard: the child imports it and thereby calls init().
UNGUARDED = """
import multiprocessing, subprocess, sys
import numpy, farandole.numpy as hvd
hvd.init()

def work():
    pass

if multiprocessing.parent_process() is None:
    spawned = multiprocessing.get_context("spawn").Process(target=work)
    spawned.start()
    spawned.join()
    again = "import farandole.numpy as hvd; hvd.init()"
    started = subprocess.run([sys.executable, "-c", again], stderr=subprocess.PIPE, text=True)
    print("CHILDREN", spawned.exitcode, started.returncode, started.stderr.splitlines()[-1], flush=True)
    print("SUM", hvd.allreduce(numpy.ones(2), op=hvd.Sum).tolist(), flush=True)
    hvd.shutdown()
    hvd.init()
    print("AGAIN", hvd.allreduce(numpy.ones(2), op=hvd.Sum).tolist(), flush=True)
"""


def test_init_in_a_child_that_imports_the_script_fails_and_names_the_main_guard(tmp_path: Path) -> None:
    ended = run_script(2, tmp_path, UNGUARDED)
    assert ended.returncode == 0, ended.stdout
    for rank in (0, 1):
        assert f"(rank {rank}) is the member" in ended.stdout, ended.stdout
    assert ended.stdout.count('under `if __name__ == "__main__":`') == 4, ended.stdout
    assert ended.stdout.count("CHILDREN 1 1 ") == 2
    assert ended.stdout.count("SUM [2.0, 2.0]") == ended.stdout.count("AGAIN [2.0, 2.0]") == 2


# Each member starts another job of one rank, without the environment of its own job.
OWN_JOB = """
import os, subprocess, sys
import numpy, farandole.numpy as hvd
hvd.init()
alone = {key: value for key, value in os.environ.items() if not key.startswith(("HOROVOD_", "FARANDOLE_"))}
again = "import farandole.numpy as hvd; hvd.init(); print('SIZE', hvd.size())"
subprocess.run([sys.executable, "-c", again], env=alone, check=True)
hvd.barrier()
"""


def test_a_member_may_start_another_job_in_a_clean_environment(tmp_path: Path) -> None:
    ended = run_script(2, tmp_path, OWN_JOB)
    assert ended.returncode == 0 and ended.stdout.count("SIZE 1") == 2, ended.stdout
