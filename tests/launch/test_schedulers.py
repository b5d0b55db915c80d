"""Jobs inside an allocation of Slurm, LSF or PBS, which take their hosts from the scheduler.

Slurm is real: a cluster of the hosts a and b. The programs of LSF are scripts on PATH that really start the commands on
the hosts.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Callable, Dict, Iterator, List

import pytest
import slurm_cluster
from launched import DEADLINE_S
from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import RUNTIME, SshHosts
from workers import PLACE, SUMS, TRAINING, add_program, begun, exit_code, lines_of, python

# A rank of jsrun finds its job by itself, and writes its place and a sum.
RANK_OF_JSRUN = """
import os, sys
import numpy, farandole.numpy as hvd

hvd.init()
total = hvd.allreduce(numpy.full(1000, hvd.rank() + 1.0), op=hvd.Sum)
with open(f"{sys.argv[1]}/rank{hvd.rank()}", "w") as file:
    file.write(f"{os.uname().nodename} {hvd.size()} {hvd.local_size()} {total[-1]}")
hvd.shutdown()
"""


@pytest.fixture
def slurm(hosts: SshHosts, tmp_path: Path) -> Iterator[Dict[str, str]]:
    """A cluster of the hosts a and b; the environment of its commands, which are on PATH."""
    if reason := slurm_cluster.why_not():
        pytest.skip(reason)
    with slurm_cluster.on_hosts(hosts, tmp_path / "slurm", 2) as environment:
        yield {
            **environment,
            "PATH": f"{slurm_cluster.PROGRAMS / 'bin'}:{os.environ['PATH']}",
            "HOME": str(hosts.home),
            "XDG_RUNTIME_DIR": RUNTIME,
        }


def in_allocation(hosts: SshHosts, slurm: Dict[str, str], *arguments: str, **settings: str) -> Process:
    """Starts `farandole run` on host a in an allocation of two slots on each host."""
    allocation = ["salloc", "--quiet", "--nodes=2", "--ntasks-per-node=2"]
    return hosts.start(0, [*allocation, FARANDOLE, "run", *arguments], {**slurm, **settings})


def test_in_an_allocation_of_slurm_the_hosts_come_from_it_and_one_step_starts_the_agents(
    hosts: SshHosts, slurm: Dict[str, str]
) -> None:
    job = in_allocation(hosts, slurm, *python(hosts.shared, SUMS))
    assert exit_code(job) == 0, job.text
    places = [lines_of(job, rank) for rank in range(4)]
    assert places == [["local 0 of 2 on a"], ["local 1 of 2 on a"], ["local 0 of 2 on b"], ["local 1 of 2 on b"]]
    assert hosts.connections(1) == 0  # no ssh

    # With fewer processes than slots, and from a host that is not in the allocation, one step has all agents. Its tasks
    # get all CPUs, although a task of the job has fewer.
    hosts_of_step = 'echo "$SLURM_STEP_NODELIST $SLURM_STEP_NUM_TASKS $SLURM_CPUS_ON_NODE $HOROVOD_RANK $HOROVOD_SIZE"'
    of_job = {**slurm, "SLURM_EXACT": "1"}
    allocation = ["salloc", "--quiet", "--nodes=2", "--ntasks-per-node=2"]
    job = hosts.start(2, [*allocation, FARANDOLE, "run", "-np", "3", "sh", "-c", hosts_of_step], of_job)
    assert exit_code(job) == 0, job.text
    assert [lines_of(job, rank) for rank in range(3)] == [[f"a,b 2 2 {rank} 3"] for rank in range(3)], job.text

    # A task of srun does not take the hosts of the others.
    command = ["srun", "--ntasks=1", FARANDOLE, "run", "-np", "2", "sh", "-c", PLACE]
    job = hosts.start(0, command, slurm)
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 1)[0].startswith("place localhost rank 1 of 2 local 1 of 2"), job.text


@pytest.mark.slow
def test_a_failure_in_a_job_of_slurm_names_the_host_and_ends_everything(hosts: SshHosts, slurm: Dict[str, str]) -> None:
    own = Path(FARANDOLE).resolve()
    hosts.hide(1, own.parent)
    job = in_allocation(hosts, slurm, "true", FARANDOLE_REMOTE_PROGRAM="/nonexistent/farandole")
    assert exit_code(job) == 127, job.text
    assert "could not connect to some hosts via srun" in job.text, job.text
    cause = f"the host has none of these programs: {own}, farandole on PATH, /nonexistent/farandole"
    assert f"host b: srun exited with code 127: {cause}" in job.text, job.text
    hosts.show(1, own.parent)

    job = in_allocation(hosts, slurm, "sh", "-c", 'test "$HOROVOD_RANK" != 3 || exit 7; exec sleep 3600')
    assert exit_code(job) == 7, job.text

    job = in_allocation(hosts, slurm, "sh", "-c", 'echo "step $SLURM_JOB_ID"; exec sleep 3600')
    number = job.read_until(r"step (\d+)").group(1)
    run_on(hosts, slurm, "scancel", f"{number}.0")
    assert exit_code(job) != 0, job.text
    assert re.search("host b was lost|Process [23] on b", job.text), job.text


def run_on(hosts: SshHosts, environment: Dict[str, str], *command: str) -> None:
    subprocess.run([*hosts.entering(0), *command], check=True, env={**os.environ, **environment}, timeout=DEADLINE_S)


@pytest.mark.slow
def test_the_signal_before_the_time_limit_of_slurm_is_a_planned_leave(hosts: SshHosts, slurm: Dict[str, str]) -> None:
    script = python(hosts.shared, TRAINING, str(hosts.shared / "enough"))
    job = in_allocation(hosts, slurm, "--min-np", "2", "sh", "-c", 'echo "job $SLURM_JOB_ID"; exec "$@"', "sh", *script)
    number = job.read_until(r"job (\d+)").group(1)
    assert sorted(begun(job, 4, 4)) == ["a", "a", "b", "b"]
    # Slurm sends it to all steps of the job, here to that of the agent on host b, as `sbatch --signal=TERM@60` does.
    run_on(hosts, slurm, "scancel", "--signal=TERM", number)
    assert begun(job, 2, 2) == ["a", "a"], job.text
    assert "was lost" not in job.text, job.text
    (hosts.shared / "enough").touch()
    assert exit_code(job) == 0, job.text
    assert job.text.count("DONE on a") == 2, job.text


@pytest.fixture
def lsf(hosts: SshHosts) -> Dict[str, str]:
    """The environment of a job of LSF on the hosts a and b, with blaunch."""
    list_of_hosts = hosts.shared / "hosts"
    list_of_hosts.write_text("a\na\nb\nb\n")
    add_program(hosts, "blaunch", f'echo "$1" >>{hosts.shared}/launched\nexec {hosts.rsh} "$@"')
    return {
        "LSB_JOBID": "7",
        "LSB_DJOB_HOSTFILE": str(list_of_hosts),
        "PATH": f"{hosts.shared}/programs:{os.environ['PATH']}",
    }


def test_in_a_job_of_lsf_blaunch_starts_the_agents(
    launch: Callable[..., Process], hosts: SshHosts, lsf: Dict[str, str]
) -> None:
    job = launch(*python(hosts.shared, SUMS), rsh="", settings=lsf)
    assert exit_code(job) == 0, job.text
    places = [lines_of(job, rank) for rank in range(4)]
    assert places == [["local 0 of 2 on a"], ["local 1 of 2 on a"], ["local 0 of 2 on b"], ["local 1 of 2 on b"]]
    assert (hosts.shared / "launched").read_text().split() == ["b"]

    (hosts.shared / "programs" / "blaunch").unlink()
    job = launch("true", rsh="", settings=lsf)
    assert exit_code(job) == 127, job.text
    assert "check the remote shell (of LSF): blaunch" in job.text, job.text


def test_in_a_job_of_pbs_ssh_starts_the_agents(launch: Callable[..., Process], hosts: SshHosts) -> None:
    nodes = hosts.shared / "nodes"
    nodes.write_text("b\nc\nb\n")
    pbs = {"PBS_JOBID": "7.server", "PBS_NODEFILE": str(nodes)}
    job = launch("sh", "-c", PLACE, rsh="", settings=pbs)
    assert exit_code(job) == 0, job.text
    assert [lines_of(job, rank)[0].split(" on ")[1] for rank in range(3)] == ["b", "b", "c"], job.text


def add_jsrun(hosts: SshHosts) -> None:
    """The programs of a cluster with CSM. jsrun starts the ranks of its file by the mpirun of Open MPI."""
    add_program(hosts, "csm_allocation_query", 'test "$*" = "-a 42" && echo "isolated_cores: 1\ncompute_nodes: [a, b]"')
    facts = "discovered_cores: 6\n  discovered_sockets: 2\n  discovered_gpus: 2"
    add_program(hosts, "csm_node_attributes_query", f'test "$*" = "-n a" && printf "Record_1:\\n  {facts}\n"')
    add_program(
        hosts,
        "jsrun",
        f"""
        test "$1" = --erf_input || exit 2
        cp "$2" {hosts.shared}/ranks
        hosts=$(sed -n 's/^rank: .* hostname: \\([^;]*\\);.*/\\1/p' "$2" | sort | uniq -c |
            while read count host; do echo "$host:$count"; done | paste -sd,)
        count=$(grep -c "^rank: " "$2")
        test "$3" = --smpiargs && shift 2
        shift 2
        exec /usr/bin/mpirun --allow-run-as-root --oversubscribe --mca plm_rsh_agent "$(command -v blaunch)" \\
            -np "$count" -H "$hosts" -x PATH -x LD_LIBRARY_PATH -x PYTHONPATH -x FARANDOLE_SECRET "$@"
        """,
    )


@pytest.fixture
def csm(hosts: SshHosts, lsf: Dict[str, str]) -> Dict[str, str]:
    """The environment of a job of LSF on a cluster with CSM and jsrun."""
    if not Path("/usr/bin/mpirun").exists():
        pytest.skip("/usr/bin/mpirun is not installed")
    add_jsrun(hosts)
    paths = {name: os.environ.get(name, "") for name in ("LD_LIBRARY_PATH", "PYTHONPATH")}
    return {**lsf, **paths, "CSM_ALLOCATION_ID": "42"}


@pytest.mark.slow
def test_in_a_job_of_lsf_with_jsrun_it_starts_the_ranks_and_they_form_one_job(
    launch: Callable[..., Process], hosts: SshHosts, csm: Dict[str, str]
) -> None:
    job = launch(*python(hosts.shared, RANK_OF_JSRUN, str(hosts.shared)), rsh="", settings=csm)
    assert exit_code(job) == 0, job.text
    said = [(hosts.shared / f"rank{rank}").read_text() for rank in range(4)]
    assert said == ["a 4 2 10.0", "a 4 2 10.0", "b 4 2 10.0", "b 4 2 10.0"], job.text
    ranks = (hosts.shared / "ranks").read_text()
    threads = int(re.findall(r"Thread\(s\) per core: +(\d+)", subprocess.check_output(["lscpu"], text=True))[0])
    last = 2 * threads - 1  # of 6 cores, the system keeps 2; the 2 ranks of a host share the others
    assert f"rank: 2: {{ hostname: b; cpu: {{0-{last}}} ; gpu: * ; mem: * }}" in ranks, ranks

    job = launch("--jsrun", "-np", "2", "sh", "-c", "exit 5", rsh="", settings=csm)
    assert exit_code(job) == 5, job.text

    without_csm = {name: value for name, value in csm.items() if name != "CSM_ALLOCATION_ID"}
    job = launch("--jsrun", "-np", "2", "true", rsh="", settings=without_csm)
    assert exit_code(job) == 2, job.text
    assert "CSM_ALLOCATION_ID is not set" in job.text and "--binding-args" in job.text, job.text


BAD_ALLOCATIONS = [
    (
        {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-", "SLURM_TASKS_PER_NODE": "2"},
        r"SLURM_JOB_NODELIST='n\[1-' cannot be used: .*-H name:slots",
    ),
    ({"SLURM_JOB_ID": "7", "SLURM_TASKS_PER_NODE": "2"}, "SLURM_JOB_NODELIST is not set.*-H name:slots"),
    ({"PBS_JOBID": "7"}, "PBS_NODEFILE is not set.*-H name:slots"),
    ({"PBS_NODEFILE": "/nonexistent/nodes"}, "PBS_NODEFILE='/nonexistent/nodes' cannot be used: .*cannot be read"),
    ({"LSB_JOBID": "7"}, "neither LSB_DJOB_HOSTFILE nor LSB_MCPU_HOSTS is set"),
]


@pytest.mark.parametrize(("variables", "message"), BAD_ALLOCATIONS)
def test_a_wrong_description_of_an_allocation_is_refused_with_variable_value_and_remedy(
    launcher_command: None, variables: Dict[str, str], message: str
) -> None:
    ended = run_launcher(["true"], variables)
    assert ended.returncode == 2, ended.stderr
    assert re.search(message, ended.stderr), ended.stderr


def run_launcher(words: List[str], variables: Dict[str, str]) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HOROVOD_", "SLURM_", "FARANDOLE_"))}
    return subprocess.run(
        [FARANDOLE, "run", *words],
        check=False,
        capture_output=True,
        env={**kept, **variables},
        text=True,
        timeout=DEADLINE_S,
    )


def test_a_remote_shell_with_an_open_quote_is_refused(launcher_command: None) -> None:
    ended = run_launcher(["-np", "1", "-H", "192.0.2.1:1", "true"], {"FARANDOLE_RSH": "ssh -F 'a"})
    assert ended.returncode == 2, ended.stderr
    assert "FARANDOLE_RSH='ssh -F 'a' cannot be split into words: the quote ' is not closed" in ended.stderr


@pytest.mark.slow
def test_a_remote_shell_may_have_quoted_words(launch: Callable[..., Process], hosts: SshHosts) -> None:
    add_program(hosts, "a shell", f'test "$1" = "two words" || exit 9\nshift\nexec {hosts.rsh} "$@"')
    rsh = f"'{hosts.shared}/programs/a shell' \"two words\""
    job = launch("-np", "2", "-H", "a:1,b:1", "hostname", rsh=rsh)
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 1) == ["b"], job.text
