"""Creates a folder with Farandole, its commands, its tests, and the shared libraries that they need.

The folder runs on another Linux machine of this architecture without installation and without a package registry, and
may be moved. The machine provides Python, its packages (NumPy, PyTorch and so on), libc, libstdc++ and, where they are
used, MPI and UCX.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

from bundling import ROOT, Refused
from bundling.commands import run
from bundling.contents import add_files, add_tests, in_words, install, tree_bytes
from bundling.interpreter import Interpreter, examine_given, examine_own
from bundling.libraries import add_libraries, newest, requirements
from bundling.licences import add_licences
from bundling.sources import remake_module

LEAST_FREE = 150 << 20
"""Bytes that must be free where the bundle is made. It takes 55 MB, and the core in archives as much again."""

EXAMPLES = """\
examples:
  tools/bundle /tmp/farandole                               for the Python of .venv
  tools/bundle --python python3.12 /tmp/farandole           for CPython 3.12 and later
  tools/bundle bundle && tar cJf bundle.tar.xz bundle       a file of 10 MB to copy there

on the other machine, where README.txt in the folder says more:
  python3 bundle/check.py                                   does this machine have what the folder requires?
  source bundle/activate                                    sets PATH and PYTHONPATH of this shell
  horovodrun -np 2 python3 bundle/tests/install/train.py
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools/bundle", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", metavar="PATH", help="the interpreter that the other machine has (default: .venv's)"
    )
    parser.add_argument("out", metavar="OUT", help="the folder to create; if it exists, it must be empty")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # leaves through `finally`
    try:
        make(Path(options.out).absolute(), options.python)
    except Refused as reason:
        print(f"tools/bundle: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def make(out: Path, python: str = "") -> None:
    check_place(out)
    chosen = examine_given(Path(shutil.which(python) or python)) if python else None
    if subprocess.run([ROOT / "tools" / "setup"], check=False).returncode != 0:
        raise Refused("tools/setup failed, so there is no build to bundle; its messages are above")
    # Another tools/setup waits meanwhile, so that it does not replace .venv, the wheel or build/.
    with (ROOT / ".setup" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        fill(out, chosen)


def fill(out: Path, chosen: Optional[Interpreter]) -> None:
    own = examine_own()
    interpreter = chosen or own
    (wheel,) = (ROOT / ".setup" / "wheel").glob("farandole-*.whl")
    with staging(out) as work:
        bundle = work / "bundle"
        bundle.mkdir(mode=0o755)
        say(f"installing {wheel.name} for {interpreter.name}")
        install(wheel, bundle)
        say("adding shared libraries, tests and licences")
        copied = add_libraries(bundle)
        packages, without_licence = add_licences(bundle, copied)
        for source in without_licence:
            say(f"found no licence of {source}; add it to {out}/licences before you pass the bundle on")
        add_tests(bundle)
        symbols = requirements(bundle)
        if interpreter.suffix != own.suffix:
            if interpreter.has_headers:
                say(f"compiling the native module for {interpreter.name}, which takes a minute or two")
            remake_module(interpreter, bundle)
            symbols = newest(symbols, requirements(bundle))
        libraries = {name: packages[name] for name in sorted(copied)}
        description = manifest(interpreter, wheel, symbols, libraries)
        add_files(bundle, description)
        if interpreter.has_headers:
            say("checking that the bundle runs here")
            run("env", "-i", interpreter.path, bundle / "check.py")
        bundle.replace(out)
    say(f"{out} is ready: {tree_bytes(out) / 1e6:.0f} MB; it requires {in_words(description)}")
    if not interpreter.has_headers:
        say(
            f"{interpreter.path} has no headers here ({interpreter.header} does not exist), so the folder has the "
            f"sources of the native module: run {out.name}/compile.py on a machine that has headers and a C++ compiler"
        )
    say(f"README.txt in it says how to use it; `tar cJf bundle.tar.xz -C {out.parent} {out.name}` packs it")


def say(text: str) -> None:
    print(f"bundle: {text}", flush=True)


def check_place(out: Path) -> None:
    """Refuses a place that is not free. The user's files are never deleted."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise Refused(f"{out} exists and is not a folder; name a folder that does not exist or is empty")
    if out.is_dir() and any(out.iterdir()):
        raise Refused(f"{out} is not empty; name a folder that does not exist or is empty")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise Refused(f"{out.parent} cannot be made: {problem.strerror}; name a place where you may write") from None
    free = shutil.disk_usage(out.parent).free
    if free < LEAST_FREE:
        raise Refused(
            f"the disk of {out.parent} has {free >> 20} MiB free, and making a bundle takes {LEAST_FREE >> 20} MiB; "
            "free some, or name a place on another disk"
        )


@contextlib.contextmanager
def staging(out: Path) -> Iterator[Path]:
    """A folder beside OUT, in which the bundle is made: OUT holds a whole bundle or nothing."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as work:
            yield Path(work)
    except OSError as problem:
        full = "; the disk is full" if problem.errno == errno.ENOSPC else ""
        raise Refused(f"{problem.filename or out.parent}: {problem.strerror}{full}; nothing was left there") from None


def manifest(
    interpreter: Interpreter, wheel: Path, symbols: Dict[str, str], libraries: Dict[str, str]
) -> Dict[str, Any]:
    """The description of a bundle and of its requirements that check.py reads."""
    described = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(described, check=False, capture_output=True, text=True).stdout.strip()
    return {
        "farandole": wheel.name.split("-")[1],
        "commit": commit,
        "platform": interpreter.platform,
        "python": interpreter.served(),
        "symbols": symbols,
        "libraries": libraries,
    }


if __name__ == "__main__":
    sys.exit(main())
