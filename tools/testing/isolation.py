"""Gives each run folders of its own in place of those that all programs of the machine share, and no network.

Every run has a folder for temporary files, TMPDIR. Where the user may mount, which needs root, a run also has a
/dev/shm, names of network namespaces and a network of its own. Only the tests of the run leave files in these
folders, and its part looks for them at its end.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

SHARED_MEMORY = Path("/dev/shm")
NAMESPACES = Path("/run/netns")
# Takes the folder of the run and a command, which keeps the process id. Mounts and namespaces that a test leaves end
# with the last process of the run.
ENTER = f"""
mkdir -p {NAMESPACES} && mount --bind "$0/namespaces" {NAMESPACES} && mount --bind "$0/memory" {SHARED_MEMORY} &&
exec "$@"
"""
# Files that programs keep in TMPDIR: the records of a user's jobs, pytest, Ray, torchrun, TorchInductor, Java, uv.
KEPT = (
    "farandole-[0-9]*",
    "pytest-of-*",
    "ray",
    "_ray_lockfiles",
    "torchelastic_*",
    "torchinductor_*",
    "hsperfdata_*",
    "uv-*.lock",
)
# Files of processes that a test kills: of mpirun, multiprocessing and AutoGraph, with its byte code; of ranks that play
# recipes, and of Chromium.
LEFT_BY_KILLED = ("ompi.*", "pymp-*", "__autograph_*", "__pycache__", "recipe-*", "perfetto-*")


@dataclass(frozen=True)
class Isolation:
    """The folders of a run."""

    temporary: Path
    mounted: Optional[Path]  # the folder of those that replace others of the machine; None where nothing can be mounted

    def entering(self, needs_network: bool = False) -> Tuple[str, ...]:
        """The command that starts a program with these folders. The program keeps the process id."""
        if self.mounted is None:
            return ()
        options, script = (("--mount",), ENTER) if needs_network else (("--mount", "--net"), network() + ENTER)
        return ("unshare", *options, "sh", "-ec", script, str(self.mounted))

    def left(self) -> str:
        """Names the files and namespaces that are left; empty if there are none."""
        found = [str(path) for path in sorted(self.temporary.iterdir()) if not _is_kept(path)]
        if self.mounted:
            found += [f"{SHARED_MEMORY}/{name}" for name in _names(self.mounted / "memory")]
            found += [f"network namespace {name}" for name in _names(self.mounted / "namespaces")]
        return ", ".join(found)[:1000]


def _names(folder: Path) -> List[str]:
    return sorted(each.name for each in folder.iterdir())


def _is_kept(path: Path) -> bool:
    return any(fnmatch.fnmatch(path.name, pattern) for pattern in (*KEPT, *LEFT_BY_KILLED))


@contextlib.contextmanager
def isolation(checkout: Path) -> Iterator[Isolation]:
    """Makes the folders of a run of this checkout, and removes them."""
    with contextlib.ExitStack() as removed:
        temporary = _make(Path(tempfile.gettempdir()), checkout, removed)
        temporary.chmod(0o1777)  # some tests become other users
        yield Isolation(temporary, _make_mounted(checkout, removed) if why_not(checkout) == "" else None)


def _make_mounted(checkout: Path, removed: contextlib.ExitStack) -> Path:
    folder = _make(SHARED_MEMORY, checkout, removed)
    (folder / "memory").mkdir()
    (folder / "memory").chmod(0o1777)
    (folder / "namespaces").mkdir()
    return folder


def _make(place: Path, checkout: Path, removed: contextlib.ExitStack) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_prefix(checkout), dir=place))
    removed.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def remove_stale_folders(checkout: Path) -> None:
    """Removes the folders that runs of a checkout have left because they were killed. No other run of it may be under
    way."""
    for place in (Path(tempfile.gettempdir()), SHARED_MEMORY):
        for folder in place.glob(f"{_prefix(checkout)}*"):
            shutil.rmtree(folder, ignore_errors=True)


def _prefix(checkout: Path) -> str:
    """Of the names of a checkout's folders. It is short, because tests put sockets into TMPDIR."""
    return f"t{hashlib.sha256(os.fsencode(checkout)).hexdigest()[:4]}-"


@functools.cache
def why_not(checkout: Path) -> str:
    """Why runs cannot have mounts and a network of their own, which need root; empty if they can."""
    with contextlib.ExitStack() as removed:
        try:
            tried = Isolation(Path(tempfile.gettempdir()), _make_mounted(checkout, removed))
            command = [*tried.entering(), "true"]
            problem = subprocess.run(command, check=False, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError, json.JSONDecodeError) as error:
            return f"{error}"
        return "" if problem.returncode == 0 else problem.stderr.strip() or "unshare failed"


@functools.cache
def network() -> str:
    """A script that makes the network of a run: the loopback interface, and one that leads nowhere, with the addresses
    of the machine, because its name may stand for them. If it has none, the interface has one for documentation; not
    192.0.2.1, which tests take for that of another machine."""
    shown = subprocess.run(["ip", "-json", "addr", "show", "scope", "global"], check=True, capture_output=True).stdout
    listed = [each for interface in json.loads(shown) for each in interface.get("addr_info", [])]
    addresses = sorted({each["local"] for each in listed if "local" in each}) or ["203.0.113.1"]
    interfaces = ("lo", "machine", "unused")  # both ends of a pair must be up
    return "\n".join(
        [
            "ip link add machine type veth peer name unused",
            *(f"ip link set {interface} up" for interface in interfaces),
            *(f"ip addr add {address} dev machine{' nodad' * (':' in address)}" for address in addresses),
            "",
        ]
    )
