"""A cluster of Slurm that a test makes and ends: its daemons, in the folder of the test and on ports of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence

from launched import wait_for
from namespaces.ports import free_ports
from namespaces.ssh_hosts import SshHosts

DEADLINE_S = 240.0
INSTALLED = Path(__file__).resolve().parents[2] / ".setup" / "launchers"
PROGRAMS = INSTALLED / "slurm" / "usr"
LIBRARIES = PROGRAMS / "lib" / "x86_64-linux-gnu"


class Node(NamedTuple):
    """A node of the cluster, on which a slurmd runs. The first one has the controller, too."""

    name: str
    host: str
    """Its host name."""
    address: str
    entering: Sequence[str] = ()
    """The command prefix that runs a command there."""


def why_not() -> str:
    """Why there can be no cluster here; "" when there can."""
    if not (PROGRAMS / "bin" / "srun").exists():
        return f"{PROGRAMS}/bin/srun is not installed; tools/setup --launch installs it"
    return "" if os.getuid() == 0 else "slurmd needs root"


@contextlib.contextmanager
def on_hosts(hosts: SshHosts, folder: Path, cpus: int) -> Iterator[Dict[str, str]]:
    """Runs a cluster on the first two hosts, each with so many CPUs; the environment in which its commands reach it."""
    folder.mkdir()
    nodes = [
        Node(hosts.names[number], hosts.names[number], hosts.addresses[number], hosts.entering(number))
        for number in range(2)
    ]
    # The path of a socket has at most 107 bytes, and those of pytest's folders are long.
    with slurm_cluster(folder, nodes, cpus, "/run/slurmd") as environment:
        yield environment


@contextlib.contextmanager
def slurm_cluster(folder: Path, nodes: Sequence[Node], cpus: int, spool: str) -> Iterator[Dict[str, str]]:
    """Runs a cluster; the environment in which its commands reach it, once all nodes are idle. Each slurmd makes a
    folder `spool` on its node, with its files and sockets."""
    folder.chmod(0o755)
    for name in ("state", "munge"):
        (folder / name).mkdir(mode=0o700)
    key = folder / "munge" / "key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(64))
    controller_port, *node_ports = free_ports(1 + len(nodes))
    settings = {
        "ClusterName": "tests",
        "SlurmctldHost": f"{nodes[0].host}({nodes[0].address})",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge/socket",
        "PluginDir": f"{LIBRARIES}/slurm-wlm",
        "SlurmUser": "root",
        "SlurmctldPort": str(controller_port),
        "StateSaveLocation": f"{folder}/state",
        "SlurmdSpoolDir": spool,
        "SlurmctldPidFile": f"{folder}/slurmctld.pid",
        "SlurmdPidFile": f"{folder}/slurmd-%n.pid",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SwitchType": "switch/none",
        "MpiDefault": "none",
        "ReturnToService": "2",
        "SlurmdParameters": "config_overrides",
    }
    lines = [f"{key}={value}" for key, value in settings.items()]
    for node, port in zip(nodes, node_ports):
        place = f"NodeHostname={node.host} NodeAddr={node.address} Port={port}"
        lines.append(f"NodeName={node.name} {place} CPUs={cpus}")
    names = ",".join(node.name for node in nodes)
    lines.append(f"PartitionName=all Nodes={names} Default=YES State=UP OverSubscribe=YES")
    configuration = folder / "slurm.conf"
    configuration.write_text("\n".join(lines) + "\n")
    # No plugin above uses control groups. Without this file, slurmd looks for them in /sys, where the hosts have none.
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
    environment = {"SLURM_CONF": str(configuration), "LD_LIBRARY_PATH": f"{LIBRARIES}:{LIBRARIES}/slurm-wlm"}
    munge = [f"--{name}={folder}/munge/{name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
    common = ["-D", "-f", str(configuration)]
    controller = list(nodes[0].entering)
    daemons = [
        ("munged", controller, ["munged", "--foreground", "--force", f"--key-file={key}", *munge]),
        ("slurmctld", controller, ["slurmctld-wlm", *common]),
    ]
    stepd = str(PROGRAMS / "sbin" / "slurmstepd-wlm")
    for node in nodes:
        command = ["slurmd-wlm", *common, "-N", node.name, "-d", stepd]
        daemons.append((f"slurmd-{node.name}", list(node.entering), command))
    with contextlib.ExitStack() as running:
        for name, entering, (program, *arguments) in daemons:
            log = running.enter_context((folder / f"{name}.log").open("w"))
            daemon = subprocess.Popen(
                [*entering, str(PROGRAMS / "sbin" / program), *arguments],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            running.callback(daemon.wait, DEADLINE_S)
            running.callback(daemon.terminate)
            if name == "munged":
                _await((folder / "munge" / "socket").exists, folder)
        query = [*controller, str(PROGRAMS / "bin" / "sinfo"), "--noheader", "--Node", "--format=%T"]
        _await(lambda: _said_by(query, environment).split() == ["idle"] * len(nodes), folder)
        yield environment


def _said_by(command: List[str], environment: Dict[str, str]) -> str:
    ended = subprocess.run(
        command, env={**os.environ, **environment}, check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    return ended.stdout


def _await(condition: Callable[[], bool], folder: Path) -> None:
    def logs() -> str:
        return "\n".join(f"{each.name}:\n{each.read_text()[-2000:]}" for each in folder.glob("*.log"))

    assert wait_for(condition, DEADLINE_S), f"the cluster is not ready within {DEADLINE_S} s:\n{logs()}"
