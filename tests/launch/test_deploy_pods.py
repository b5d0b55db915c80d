"""The manifests of docs/deploy as pods: namespaces, each with the names, user, rights and secret of a pod."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import textwrap
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest
from deploy import KUBERNETES, Container, container_of, kustomized, objects_of
from launched import DEADLINE_S, Job, wait_until
from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import SshHosts
from workers import SUMS, TRAINING, exit_code, lines_about, only, python

REFUSE_PTRACE = str(Path(__file__).with_name("refuse_ptrace.py"))
SECRET = Path("/run/secrets/farandole/secret")

# The workers of any job: fixed or elastic.
SUM = """
import numpy, farandole.numpy as hvd

hvd.init()
total = hvd.allreduce(numpy.ones(1000), op=hvd.Sum, name="sum")
assert (total == hvd.size()).all()
print(f"the sum of {hvd.size()} ranks is right", flush=True)
"""


# Lets other users reach paths below a closed folder on a host: the interpreter and the tree. All else in it disappears.
OPEN = """
set -e
closed=$1
shift
mkdir -p /run/closed
mount --rbind "$closed" /run/closed
mount -t tmpfs -o mode=755 none "$closed"
for path; do
  mkdir -p "$path"
  mount --bind "/run/closed${path#"$closed"}" "$path"
done
"""


def closed_folder(path: Path) -> Optional[Path]:
    """The first folder on this path that other users cannot enter."""
    return next((each for each in reversed([path, *path.parents]) if not each.stat().st_mode & 0o001), None)


class Pods:
    """Three pods: that of the launcher, agent-0 and agent-1. The names of the headless Service appear later."""

    def __init__(self, hosts: SshHosts) -> None:
        self.hosts = hosts
        # The folder of the test belongs to root.
        hosts.shared.parent.chmod(0o755)
        below: Dict[str, List[str]] = {}
        for path in (Path(sys.base_prefix), Path(__file__).parents[2]):
            if closed := closed_folder(path):
                below.setdefault(str(closed), []).append(str(path))
        for closed, paths in below.items():
            for number in range(len(hosts.names)):
                self._run(number, shlex.join(["sh", "-c", OPEN, "open", closed, *paths]))

    def write(self, script: str) -> None:
        """Puts the script into the working directory of all pods."""
        (self.hosts.shared / "train.py").write_text(textwrap.dedent(script))

    def start(self, number: int, container: Container) -> Process:
        """Starts the container as a kubelet would: as the first process of its own process namespace."""
        self._mount_secret(number, container.group)
        own_folder = f"/run/user/{container.user}"
        self._run(number, f"mkdir -p {own_folder} && chown {container.user} {own_folder} && chmod 700 {own_folder}")
        folders = [str(Path(FARANDOLE).parent), str(Path(sys.executable).parent), os.environ["PATH"]]
        environment = {"PATH": ":".join(folders), "HOME": str(self.hosts.shared), "XDG_RUNTIME_DIR": own_folder}
        apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        user = ["setpriv", f"--reuid={container.user}", f"--regid={container.group}", "--clear-groups"]
        rights = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", sys.executable, REFUSE_PTRACE]
        command = [*apart, *user, *rights, *container.command]
        return self.hosts.start(number, command, {**environment, **container.environment})

    def _mount_secret(self, number: int, group: int) -> None:
        """A file of root that the group may read, as Kubernetes mounts it with fsGroup and mode 0440."""
        steps = [f"mkdir -p {SECRET.parent}", f"cp {self.hosts.secret} {SECRET}"]
        self._run(number, " && ".join([*steps, f"chown 0:{group} {SECRET}", f"chmod 0440 {SECRET}"]))

    def _run(self, number: int, line: str) -> None:
        process = self.hosts.start(number, ["sh", "-c", line])
        assert process.end(DEADLINE_S) == 0, process.text

    def publish(self, *numbers: int) -> None:
        """Lets the name of these pods appear in the headless Service."""
        for number in numbers:
            self.hosts.add_name(f"{self.hosts.names[number]}.farandole", number)

    def evict(self, number: int) -> None:
        """Sends SIGTERM to the first process of a pod."""
        os.kill(only(self.hosts.processes(number), lambda each: number_in_pod(each.pid) == 1), signal.SIGTERM)


def number_in_pod(pid: int) -> int:
    """The process id in the process namespace of the pod; 0 outside of a pod."""
    found = re.search(r"^NSpid:\s+\d+\s+(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found.group(1)) if found else 0


@pytest.fixture
def pods(permitted: None, launcher_command: None, made_hosts: List[SshHosts], tmp_path: Path) -> Pods:
    made = SshHosts(tmp_path, ("launcher", "agent-0", "agent-1"))
    made_hosts.append(made)
    made.make()
    return Pods(made)


def begun_on(job: Process, size: int, count: int) -> List[str]:
    """Waits until so many members have begun generations of this size; the hosts of these members."""
    found = job.read_matches(rf"BEGIN of {size} on (\S+) step \d+ pid \d+\n", count, DEADLINE_S)
    return [match.group(1) for match in found]


def test_the_pods_of_an_indexed_job_compute_the_sums(pods: Pods) -> None:
    base = kustomized(KUBERNETES / "indexed-job")
    pods.write(SUMS)
    pods.publish(0, 1, 2)
    # The names resolve before the launcher listens, because they are published for pods that are not ready.
    agents = [pods.start(number, container_of(base, "agent")) for number in (1, 2)]
    for agent in agents:
        agent.read_until("the launcher cannot be reached; trying again until", DEADLINE_S)
    job = pods.start(0, container_of(base, "launcher"))
    assert exit_code(job) == 0, job.text
    assert sorted(re.findall(r"local 0 of 1 on (\S+)", job.text)) == ["agent-0", "agent-1"], job.text
    for agent in agents:
        assert agent.end(DEADLINE_S) == 0, agent.text


@pytest.mark.slow
def test_an_evicted_pod_leaves_an_elastic_job_and_its_replacement_joins(pods: Pods) -> None:
    base = kustomized(KUBERNETES / "elastic")
    enough = pods.hosts.shared / "enough"
    pods.write(TRAINING.replace("sys.argv[1]", repr(str(enough))))
    agents = [pods.start(number, container_of(base, "agent")) for number in (1, 2)]
    for agent in agents:
        agent.read_until("launcher.farandole.*; trying again until", DEADLINE_S)
    pods.publish(0, 1, 2)
    job = pods.start(0, container_of(base, "launcher"))
    assert sorted(begun_on(job, 2, 2)) == ["agent-0", "agent-1"], job.text
    pods.evict(2)
    assert agents[1].end(container_of(base, "agent").grace_s) == 0, agents[1].text
    agents[1] = pods.start(2, container_of(base, "agent"))
    assert sorted(begun_on(job, 2, 4)[2:]) == ["agent-0", "agent-1"], job.text
    steps = [int(step) for step in re.findall(r"BEGIN of 2 on \S+ step (\d+)", job.text)]
    assert steps[2] == steps[3] > 0, job.text
    enough.touch()
    assert exit_code(job) == 0, job.text
    assert job.text.count("DONE on agent-") == 2 and "was lost" not in job.text, job.text
    for agent in agents:
        assert agent.end(DEADLINE_S) == 0, agent.text


# ---- the MPI operator ----

# Makes /etc/ssh what it is in the image, which has no host keys, and runs the command of a container.
IN_IMAGE = """
set -e
mkdir /run/image
cp -r /etc/ssh/sshd_config /etc/ssh/sshd_config.d /run/image
mount -t tmpfs none /etc/ssh
cp -r /run/image/* /etc/ssh
exec "$@"
"""


def start_sshd_of_worker(hosts: SshHosts, number: int, container: Dict[str, Any]) -> Process:
    """Replaces the sshd of a host by the command of a worker of the MPI operator, as root."""
    hosts.stop_sshd(number)
    command = [*container["command"], *container["args"]]
    server = hosts.start(number, ["unshare", "--mount", "sh", "-c", IN_IMAGE, "image", *command])
    server.read_until("Server listening on 0.0.0.0 port 22", DEADLINE_S)
    return server


WORKERS = {f"train-worker-{number}.train-worker.default.svc": number + 1 for number in range(2)}


@pytest.mark.parametrize(
    "manifest, notice",
    [
        ("mpijob.yaml", "does not exist yet, and is tried again"),
        pytest.param("mpijob-elastic.yaml", "cannot be used, and is tried again", marks=pytest.mark.slow),
    ],
    ids=["fixed", "elastic"],
)
def test_the_launcher_of_the_mpi_operator_waits_for_the_names_of_its_workers(
    launch: Callable[..., Process], hosts: SshHosts, manifest: str, notice: str
) -> None:
    # As a mounted Secret, which sshd accepts without StrictModes only.
    hosts.identity.with_suffix(".pub").rename(hosts.identity.with_name("authorized_keys"))
    hosts.identity.parent.chmod(0o1777)
    hosts_of_operator = hosts.shared / "mpi"
    hosts_of_operator.mkdir()
    (hosts_of_operator / "hostfile").write_text("".join(f"{name} slots=1\n" for name in WORKERS))
    script = hosts_of_operator / "discover_hosts.sh"
    script.write_text("#!/bin/sh\n" + "".join(f"echo {name}\n" for name in WORKERS))
    script.chmod(0o555)
    (hosts.shared / "train.py").write_text(textwrap.dedent(SUM))
    (described,) = objects_of(KUBERNETES / "mpi-operator" / manifest)
    replicas = described["spec"]["mpiReplicaSpecs"]
    (container,) = replicas["Launcher"]["template"]["spec"]["containers"]
    (worker,) = replicas["Worker"]["template"]["spec"]["containers"]
    servers = [start_sshd_of_worker(hosts, number, worker) for number in WORKERS.values()]
    arguments = [each.replace("/etc/mpi/", f"{hosts_of_operator}/") for each in container["args"]]
    settings: Dict[str, str] = {each["name"]: each["value"] for each in container["env"]}
    settings["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"  # as in each pod
    rsh = settings.pop("FARANDOLE_RSH").replace("ssh ", f"ssh -F {hosts.ssh_config} ", 1)
    job = launch(*arguments[:-2], sys.executable, arguments[-1], settings=settings, rsh=rsh)
    job.read_until(rf"{next(iter(WORKERS))} {notice}", DEADLINE_S)
    for name, number in WORKERS.items():
        hosts.add_name(name, number)
    assert exit_code(job) == 0, job.text
    assert "the sum of" in job.text and (manifest != "mpijob.yaml" or "the sum of 2 ranks" in job.text), job.text
    for server in servers:
        assert "Accepted publickey for root" in server.stop()


@pytest.fixture
def kubexec(hosts: SshHosts) -> Path:
    """The operator's script over a `kubectl exec` that gives commands the environment of a container, and no input."""
    environments = hosts.shared / "environments"
    environments.mkdir()
    for number, name in enumerate(hosts.names):
        (environments / f"enter-{name}").write_text(shlex.join(hosts.entering(number)))
        (environments / name).write_text("")
    script = hosts.shared / "kubexec.sh"
    script.write_text(
        f"#!/bin/sh\nPOD_NAME=$1\nshift\n"
        f'exec $(cat {environments}/enter-$POD_NAME) env -i PATH="$PATH" TEST_RUN_MARK="$TEST_RUN_MARK" '
        f'$(cat {environments}/$POD_NAME) /bin/sh -c "$*" <&-\n'
    )
    script.chmod(0o755)
    return script


def give_secret(hosts: SshHosts, name: str) -> None:
    """Sets FARANDOLE_SECRET_FILE in the container of this host."""
    (hosts.shared / "environments" / name).write_text(f"FARANDOLE_SECRET_FILE={hosts.secret}")


@pytest.mark.slow
def test_kubexec_starts_workers_with_a_secret_file_on_both_sides(
    launch: Callable[..., Process], hosts: SshHosts, kubexec: Path
) -> None:
    for name in ("b", "c"):
        give_secret(hosts, name)
    settings = {"OMPI_MCA_plm_rsh_agent": str(kubexec), "FARANDOLE_SECRET_FILE": str(hosts.secret)}
    job = launch("-np", "3", "-H", "a:1,b:1,c:1", *python(hosts.shared, SUM), rsh="", settings=settings)
    assert exit_code(job) == 0, job.text
    assert job.text.count("the sum of 3 ranks is right") == 3, job.text


@pytest.mark.slow
def test_the_launcher_asks_for_a_secret_file_where_the_remote_shell_passes_no_input(
    launch: Callable[..., Process], hosts: SshHosts, kubexec: Path
) -> None:
    # The container of b has no file, and the file of c is of no use, because the launcher does not use it.
    give_secret(hosts, "c")
    job = launch("-np", "2", "-H", "b:1,c:1", "true", rsh="", settings={"OMPI_MCA_plm_rsh_agent": str(kubexec)})
    assert exit_code(job) == 1, job.text
    assert lines_about(job, "b") and lines_about(job, "c"), job.text
    assert "passes no input. Put the same secret into a file" in job.text, job.text
    assert "set FARANDOLE_SECRET_FILE on both" in job.text, job.text
    assert "which the launcher's FARANDOLE_SECRET_FILE must hold too" in job.text, job.text


# ---- rights ----


def test_workers_of_one_pod_exchange_tensors_without_the_right_to_trace_each_other(
    launcher_command: None, tmp_path: Path
) -> None:
    job = Job([REFUSE_PTRACE, FARANDOLE, "run", "-np", "2", *python(tmp_path, SUMS)], program=sys.executable)
    assert job.end() == 0, job.text
    assert "local 1 of 2" in job.text, job.text
    wait_until(lambda: job.process.poll() is not None, "the launcher ends")
