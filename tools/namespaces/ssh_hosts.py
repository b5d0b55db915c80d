"""Hosts with names that reach one another by ssh, for jobs that a launcher on the first of them starts.

Each host has, besides its network, a host name, a file /etc/hosts, its own /tmp, /dev/shm and /run, and an sshd with a
host key. The folder of the test is shared, as a cluster's file system would be. In it is the home directory of all
users, so that ssh, sshd and login shells read nothing of the machine's own users. ``SshHosts.leftovers`` lists what the
processes of a host leave in its /tmp, its /dev/shm and its process table.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

from namespaces import DEADLINE_S, FARANDOLE, Hosts, Process
from namespaces import why_not as why_no_namespaces

SSHD = "/usr/sbin/sshd"
PORT = 22
NAMES = ("a", "b", "c")
RUNTIME = "/run/user/0"  # the folder of root for files that last no longer than a login

# Runs in the namespaces of a host, with the host's name, its folder and the paths in /tmp that all hosts share.
_SETUP = """
set -e
hostname "$1"
mount -t tmpfs none /dev/shm
mount -t tmpfs none /run
mkdir -m 755 /run/sshd
mkdir -m 755 /run/user
mkdir -m 700 /run/user/0
mount --bind "$2/etc/shadow" /etc/shadow
mount --bind "$2/etc/passwd" /etc/passwd
mount --bind "$2/etc/hosts" /etc/hosts
mount --bind "$2/etc/nsswitch.conf" /etc/nsswitch.conf
mkdir "$2/tmp"
chmod 1777 "$2/tmp"
own=$2
shift 2
for path; do
  mkdir -p "$own/$path"
  mount --bind "$path" "$own/$path"
done
mount --rbind "$own/tmp" /tmp
echo ready
exec sleep infinity
"""


class HostProcess(NamedTuple):
    """A process that runs on a host."""

    pid: int
    parent: int
    command: str


def running_processes() -> Iterator[int]:
    """The ids of all processes of this machine."""
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())


class SshHosts(Hosts):
    """The hosts ``names``, each with an sshd; the launcher belongs on the first of them."""

    not_inherited = (*Hosts.not_inherited, "TMPDIR")  # each host has a /tmp of its own

    def __init__(self, folder: Path, names: Sequence[str] = NAMES, has_only_ipv6: bool = False) -> None:
        super().__init__(len(names), folder, has_only_ipv6=has_only_ipv6)
        self._any_address, self._socket_table = ("::", "tcp6") if has_only_ipv6 else ("0.0.0.0", "tcp")
        self.names = list(names)
        self.home = folder / "home"
        self.shared = folder / "shared"
        self._holders: List[Process] = []
        self._servers: Dict[int, Process] = {}
        self._namespaces: List[int] = []
        self._added_names: Dict[str, int] = {}

    # ---- making and removing ----------------------------------------------------------------------------------------

    def make(self) -> None:
        super().make()
        self.shared.mkdir()
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        make_key(self.identity)
        for number in range(len(self.names)):
            self._write_files(number)
        self.write_known_hosts()
        self._write_ssh_config()
        for number in range(len(self.names)):
            self._hold(number)
        for number in range(len(self.names)):
            self.start_sshd(number)

    def _write_files(self, number: int) -> None:
        etc = self._own(number) / "etc"
        etc.mkdir(parents=True)
        make_key(etc / "host_key")
        lines = [f"{address} {name}" for address, name in zip(self.addresses, self.names)]
        self.write_hosts(number, ["127.0.0.1 localhost", *lines])
        (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
        # The account has no password, and is not locked: it can log in with a key alone.
        (etc / "shadow").write_text("root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n")
        (etc / "shadow").chmod(0o600)
        self.use_shell(number, "/bin/bash")

    def _hold(self, number: int) -> None:
        """Starts the process that keeps the namespaces of a host while nothing else runs on it."""
        command = ["unshare", "--uts", "--mount", "--propagation", "private", "sh", "-c", _SETUP, "setup"]
        arguments = [self.names[number], str(self._own(number)), *self._shared_in_tmp()]
        holder = self._start(super().entering(number), [*command, *arguments])
        holder.read_until("^ready$")
        self._holders.append(holder)
        self._namespaces.append(os.stat(f"/proc/{holder.pid}/ns/net").st_ino)

    def _shared_in_tmp(self) -> List[str]:
        """The paths in /tmp that the hosts need: the folder of the test, and the product where it is in /tmp."""
        needed = [self._folder, Path(__file__).resolve().parents[2], Path(sys.prefix), Path(FARANDOLE).parent]
        return [str(path) for path in needed if Path("/tmp") in path.parents]

    def start_sshd(
        self,
        number: int,
        port: int = PORT,
        keys: Optional[Path] = None,
        lines: Sequence[str] = (),
        clock_ahead_s: int = 0,
    ) -> None:
        """Starts the sshd of a host and waits until it listens. It accepts the public keys of this file. The steady
        clock of its sessions is ahead of that of the machine by so many seconds."""
        own = self._own(number)
        config = own / "sshd_config"
        # The first value of an option counts, so the lines of the caller come first.
        config.write_text(
            "\n".join(
                [
                    *lines,
                    f"Port {port}",
                    f"ListenAddress {self._any_address}",
                    f"HostKey {own}/etc/host_key",
                    f"AuthorizedKeysFile {keys or self.identity.with_suffix('.pub')}",
                    f"PidFile {own}/sshd.pid",
                    "StrictModes no",
                    "UsePAM no",
                    "PermitRootLogin yes",
                    "PermitUserRC no",
                    "PrintMotd no",
                    "LogLevel VERBOSE",
                    "MaxStartups 1000",
                    # A session whose client has become unreachable ends.
                    "ClientAliveInterval 2",
                    "ClientAliveCountMax 15",
                    "",
                ]
            )
        )
        shifted = ["unshare", "--time", "--monotonic", str(clock_ahead_s)] if clock_ahead_s else []
        server = self.start(number, [*shifted, SSHD, "-D", "-f", str(config), "-E", str(self.log(number))])
        self._servers[number] = server
        end = time.monotonic() + DEADLINE_S
        while not self._listens(number, port):
            assert not server.has_ended(), f"sshd of {self.names[number]}: {self.log(number).read_text()}"
            assert time.monotonic() < end, f"sshd of {self.names[number]} does not listen on port {port}"
            time.sleep(0.01)

    def stop_sshd(self, number: int) -> None:
        """Ends the sshd of a host: from now on, the host refuses connections."""
        self._servers.pop(number).kill()

    def _listens(self, number: int, port: int) -> bool:
        return any(local == port and state == "0A" for local, _, state in self._sockets(number))

    def _sockets(self, number: int) -> Iterator[tuple[int, str, str]]:
        """Local port, remote address and state of each TCP socket of a host, of the family of its address."""
        table = Path(f"/proc/{self._holders[number].pid}/net/{self._socket_table}")
        for line in table.read_text().splitlines()[1:]:
            _, local, remote, state = line.split()[:4]
            yield int(local.split(":")[1], 16), remote, state

    def remove(self) -> None:
        end = time.monotonic() + DEADLINE_S
        while left := self.pids():
            for pid in left:
                _kill(pid)
            for process in self._processes:
                process.has_ended()
            if time.monotonic() > end:
                break
            time.sleep(0.01)
        super().remove()

    # ---- files that differ on a host --------------------------------------------------------------------------------

    def use_shell(self, number: int, shell: str) -> None:
        """Makes this program the login shell of root on a host."""
        entries = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("root:")]
        root = f"root:x:0:0:root:{self.home}:{shell}"
        # The file is mounted, so its content is replaced and not the file itself.
        (self._own(number) / "etc" / "passwd").write_text("\n".join([root, *entries, ""]))

    def write_hosts(self, number: int, lines: Sequence[str]) -> None:
        """Replaces the content of /etc/hosts on a host."""
        (self._own(number) / "etc" / "hosts").write_text("\n".join([*lines, ""]))

    def add_name(self, name: str, number: int) -> None:
        """Gives a host one more name, on all hosts."""
        self._added_names[name] = number
        self.write_known_hosts()
        for other in range(len(self.names)):
            with (self._own(other) / "etc" / "hosts").open("a") as file:
                file.write(f"{self.addresses[number]} {name}\n")

    def write_known_hosts(self, more: Optional[Dict[str, int]] = None) -> None:
        """Writes the host keys of all hosts, and of these names too, into the file that ssh reads."""
        numbers = {**{name: number for number, name in enumerate(self.names)}, **self._added_names, **(more or {})}
        keys = {name: (self._own(number) / "etc" / "host_key.pub").read_text() for name, number in numbers.items()}
        known_hosts = self.home / ".ssh" / "known_hosts"
        # A launcher may be running, so ssh finds the old file or the new one.
        unfinished = known_hosts.with_suffix(".unfinished")
        unfinished.write_text("".join(f"{name} {key}" for name, key in keys.items()))
        unfinished.rename(known_hosts)

    def _write_ssh_config(self) -> None:
        config = [
            "Host *",
            f"  Port {PORT}",
            f"  IdentityFile {self.identity}",
            f"  UserKnownHostsFile {self.home}/.ssh/known_hosts",
            "  GlobalKnownHostsFile /dev/null",
            "  IdentitiesOnly yes",
            "  IdentityAgent none",
            "  StrictHostKeyChecking yes",
            "",
        ]
        self.ssh_config.write_text("\n".join(config))

    def hide(self, number: int, folder: Path) -> None:
        """Makes a folder that all hosts share an empty one on this host."""
        self._on(number, "mount", "-t", "tmpfs", "none", str(folder))

    def show(self, number: int, folder: Path) -> None:
        """Undoes ``hide``."""
        self._on(number, "umount", str(folder))

    def _on(self, number: int, *command: str) -> None:
        subprocess.run([*self.entering(number), *command], check=True, capture_output=True, timeout=DEADLINE_S)

    # ---- processes of a host -------------------------------------------------------------------------------------

    def entering(self, number: int, folder: Optional[Path] = None) -> List[str]:
        target = ["--target", str(self._holders[number].pid), "--net", "--uts", "--mount"]
        return ["nsenter", *target, "env", f"--chdir={folder or self.shared}"]

    def launch(
        self,
        *arguments: str,
        settings: Optional[Dict[str, str]] = None,
        folder: Optional[Path] = None,
        shell: str = "",
        rsh: Optional[str] = None,
    ) -> Process:
        """Starts `farandole run` with these arguments on the first host, in the shared folder unless another is given.

        The settings are added to its environment. ``shell`` is appended to the command line: a redirection. ``rsh`` is
        the remote shell, or "" for the one that the launcher takes without FARANDOLE_RSH.
        """
        shell_variable = {"FARANDOLE_RSH": self.rsh if rsh is None else rsh} if rsh != "" else {}
        environment = {"HOME": str(self.home), "XDG_RUNTIME_DIR": RUNTIME, **shell_variable, **(settings or {})}
        command = [FARANDOLE, "run", *arguments]
        if shell:
            command = ["sh", "-c", f"exec {shlex.join(command)} {shell}"]  # the launcher keeps the shell's process id
        return self._start(self.entering(0, folder), command, environment)

    @property
    def rsh(self) -> str:
        """The value of FARANDOLE_RSH with which a launcher reaches the hosts."""
        return f"ssh -F {self.ssh_config}"

    @property
    def ssh_config(self) -> Path:
        return self.home / ".ssh" / "config"

    @property
    def identity(self) -> Path:
        return self.home / ".ssh" / "identity"

    def log(self, number: int) -> Path:
        """The log of a host's sshd."""
        return self._own(number) / "sshd.log"

    def connections(self, number: int) -> int:
        """The number of logins on a host."""
        return self.log(number).read_text().count("Accepted publickey")

    def processes(self, number: int) -> List[HostProcess]:
        """The processes of a host, without the sshd that accepts connections and the one that keeps its namespaces."""
        server = self._servers.get(number)
        expected = {self._holders[number].pid, server.pid if server else 0}
        return [process for process in self._all(number) if process.pid not in expected]

    def pids(self) -> List[int]:
        """The ids of all processes of all hosts."""
        return [each.pid for number in range(len(self._namespaces)) for each in self._all(number)]

    def _all(self, number: int) -> List[HostProcess]:
        found = []
        for pid in running_processes():
            try:
                if os.stat(f"/proc/{pid}/ns/net").st_ino != self._namespaces[number]:
                    continue
                state, parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:  # the process has ended, or even root may not inspect it
                continue
            if state not in ("Z", "X"):
                found.append(HostProcess(pid, int(parent), b" ".join(words).decode(errors="replace").strip()))
        return found

    def dialled_by(self, number: int) -> List[str]:
        """The addresses "IP:PORT" to which processes of a host are connected, apart from those of ssh."""
        found = []
        for local, remote, state in self._sockets(number):
            address, port = remote.split(":")
            if state == "01" and PORT not in (local, int(port, 16)):
                octets = reversed(bytes.fromhex(address))
                found.append(f"{'.'.join(map(str, octets))}:{int(port, 16)}")
        return found

    # ---- leftovers of a host ----------------------------------------------------------------------------------------

    def leftovers(self) -> List[str]:
        """The processes that still run on the hosts, and the files in their /tmp, /dev/shm and runtime folder."""
        found = []
        shared = {Path(path).parts[2] for path in self._shared_in_tmp()}
        for number, name in enumerate(self.names):
            found += [f"{name}: process {each.pid}: {each.command}" for each in self.processes(number)]
            root = Path(f"/proc/{self._holders[number].pid}/root")
            found += [f"{name}: /dev/shm/{each.name}" for each in (root / "dev/shm").iterdir()]
            found += [f"{name}: {RUNTIME}/{each}" for each in self.runtime_files(number)]
            found += [f"{name}: /tmp/{each.name}" for each in (root / "tmp").iterdir() if each.name not in shared]
        return found

    def runtime_files(self, number: int) -> List[str]:
        """The files in the runtime folder of a host, in which launchers keep the records of their jobs."""
        folder = self._runtime(number)
        return [str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()]

    def _runtime(self, number: int) -> Path:
        return Path(f"/proc/{self._holders[number].pid}/root{RUNTIME}")

    def _own(self, number: int) -> Path:
        """The folder with the files of a host."""
        return self._folder / f"host-{self.names[number]}"


def make_key(path: Path) -> None:
    """Generates a key of ssh without a passphrase, and its public key beside it."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def why_not() -> str:
    """Why hosts with ssh cannot be made here; "" when they can."""
    if os.geteuid() != 0:
        return "hosts are namespaces with an sshd each: root is needed"
    for program, package in ((SSHD, "openssh-server"), ("ssh", "openssh-client"), ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            return f"hosts are namespaces with an sshd each: {program} is missing (Debian package {package})"
    return why_no_namespaces()
