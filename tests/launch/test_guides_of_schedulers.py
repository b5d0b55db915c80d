"""The commands of the guides for jobs of Slurm, LSF and PBS, as a reader would type them on the hosts alpha and beta.

Slurm is real. The programs that submit jobs to LSF and PBS are scripts that run the command as these would.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Callable, Iterator, List

import pytest
import slurm_cluster
from guides import (
    GUIDES,
    LSF_OR_PBS,
    PATH,
    SLURM,
    TRAIN,
    TRAIN_ELASTICALLY,
    Reader,
    assert_all_ranks,
    commands_of,
    hosts,
)
from namespaces.ssh_hosts import SshHosts
from workers import add_program

__all__ = ["hosts"]  # the fixture

ReaderMaker = Callable[[str, Callable[[str], object]], Reader]


@pytest.fixture
def reader_of(hosts: SshHosts) -> Iterator[ReaderMaker]:
    """Makes readers of those commands of a page that a function chooses. After the test, none of them is left."""
    made: List[Reader] = []

    def make(page: str, chosen: Callable[[str], object]) -> Reader:
        made.append(Reader(hosts, page))
        made[-1].left = [command for command in made[-1].left if chosen(command)]
        return made[-1]

    yield make
    assert [reader.left for reader in made] == [[]] * len(made)


@pytest.mark.slow
def test_commands_for_slurm(reader_of: ReaderMaker, hosts: SshHosts, tmp_path: Path) -> None:
    if reason := slurm_cluster.why_not():
        pytest.skip(reason)
    with slurm_cluster.on_hosts(hosts, tmp_path / "slurm", 4) as environment:
        tasks = reader_of("launching", SLURM.match)
        in_jobs = reader_of("schedulers", lambda command: not LSF_OR_PBS.match(command))
        for reader in (tasks, in_jobs):
            reader.variables = {**environment, "PATH": f"{slurm_cluster.PROGRAMS / 'bin'}:{PATH}"}

        of_srun = tasks.take("srun -n 4 --mpi=pmi2")
        assert [command for command in commands_of("mpirun") if SLURM.match(command)] == [of_srun]
        tasks.run_job(of_srun)
        tasks.run_job(tasks.take("srun", "horovodrun -np 4"))
        (hosts.shared / "sweep.py").write_text(TRAIN)
        assert tasks.run(tasks.take("sweep.py")).count("rank 0 of 1\n") == 8

        in_jobs.run_job(in_jobs.take("salloc", "horovodrun python"))
        script = re.search(r"^    #!/bin/sh\n(    .*\n)+", (GUIDES / "schedulers.md").read_text(), re.M)
        assert script
        lines = [line[4:] for line in script.group(0).splitlines()]
        assert lines[-1] == in_jobs.take("horovodrun python train.py")
        (hosts.shared / "job.sh").write_text("\n".join([*lines, ""]))
        in_jobs.run("sbatch --wait --output=output job.sh")
        assert_all_ranks((hosts.shared / "output").read_text(), "sbatch")
        (hosts.shared / "train.py").write_text(TRAIN_ELASTICALLY)
        in_jobs.run_job(in_jobs.take("salloc", "--min-np 2"))


@pytest.mark.slow
def test_commands_for_lsf_and_pbs(reader_of: ReaderMaker, hosts: SshHosts) -> None:
    reader = reader_of("schedulers", LSF_OR_PBS.match)
    slots = hosts.shared / "slots"
    slots.write_text("alpha\n" * 4 + "beta\n" * 4)
    for program, options, job in (
        ("bsub", "-n 8 -R span[ptile=4]", f"LSB_JOBID=7 LSB_DJOB_HOSTFILE={slots}"),
        ("qsub", "-l select=2:ncpus=4:mpiprocs=4 --", f"PBS_JOBID=7.server PBS_NODEFILE={slots}"),
    ):
        count = len(options.split())
        script = f"""
            words="$*"
            test "${{words#"{options} "}}" != "$words" || exit 9
            shift {count}
            export {job}
            exec "$@"
            """
        add_program(hosts, program, script)
    add_program(hosts, "blaunch", f'echo "$1" >>{hosts.shared}/launched\nexec {hosts.rsh} "$@"')
    reader.variables = {"PATH": f"{hosts.shared}/programs:{PATH}"}
    reader.run_job(reader.take("bsub"))
    assert (hosts.shared / "launched").read_text() == "beta\n"
    reader.run_job(reader.take("qsub"))
    assert hosts.connections(1) == 2
