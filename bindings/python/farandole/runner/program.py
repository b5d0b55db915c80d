"""The program ``farandole`` of this installation, as a child process."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals by which users and schedulers end a launcher."""


def ending_signals() -> List[signal.Signals]:
    """Those that this process does not ignore. nohup, and the shell of a script for a command in the background, start
    a program with some of them ignored; they must stay so."""
    return [each for each in FORWARDED if signal.getsignal(each) is not signal.SIG_IGN]


def path_of_launcher() -> str:
    """The program ``farandole``: that of the distribution that this package is part of, else the one beside the
    interpreter, else the first on PATH."""
    name = "farandole"
    beside = Path(sys.executable).with_name(name)
    for candidate in [*_installed(name), beside]:
        if candidate.is_file():
            return str(candidate)
    on_path = shutil.which(name)
    if on_path is None:
        raise FileNotFoundError(
            f"the program farandole is neither in {beside.parent} nor on PATH; install Farandole again"
        )
    return on_path


def _installed(name: str) -> Sequence[Path]:
    """The program in the list of files of the distribution, if this package belongs to it."""
    try:
        distribution = metadata.distribution("farandole")
    except metadata.PackageNotFoundError:
        return []
    package = Path(str(distribution.locate_file("farandole"))).resolve()
    if package != Path(__file__).resolve().parents[1]:
        return []
    programs = [entry for entry in distribution.files or [] if entry.name == name and entry.parent.name == "bin"]
    return [Path(str(entry.locate())).resolve() for entry in programs]


def run_launcher(words: Sequence[str], environment: Optional[Dict[str, str]] = None) -> int:
    """Runs ``farandole run`` with these words until it ends, and passes signals on to it. Returns its exit code."""
    process = subprocess.Popen([path_of_launcher(), "run", *words], env=environment)
    previous: Dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for each in ending_signals():
                previous[each] = signal.signal(each, lambda caught, _: process.send_signal(caught))
        code = process.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def output_of(*words: str, environment: Optional[Dict[str, str]] = None) -> str:
    """What ``farandole`` prints with these words; ``ValueError`` with its error message if it refuses them."""
    ran = subprocess.run([path_of_launcher(), *words], check=False, capture_output=True, text=True, env=environment)
    if ran.returncode != 0:
        raise ValueError(ran.stderr.strip())
    return ran.stdout
