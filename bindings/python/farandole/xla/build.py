"""``farandole build-xla``: compiles the operations that XLA can compile into its programs.

Needs a C++17 compiler (``CXX``, else g++) and about 2 GB of memory, and takes about a minute. The compiled library is
placed in the user's cache and serves the TensorFlow of this environment.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any, List, Optional

from farandole.common.util import require_framework
from farandole.xla import OLDEST, built_path

_LOOK_S = 0.2


def main(words: Optional[List[str]] = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(
        prog="farandole build-xla",
        description=__doc__.split("\n\n")[1],
        epilog="Example: farandole build-xla, then HOROVOD_ENABLE_XLA_OPS=1 python train.py",
    )
    parser.add_argument("--force", action="store_true", help="compile even if it has been done before")
    wanted = parser.parse_args(words)
    try:
        require_framework("tensorflow", OLDEST)
    except ImportError as problem:
        return _complain(str(problem))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    target = built_path(tensorflow.__version__)
    if target.exists() and not wanted.force:
        print(f"{target} is there already (--force compiles it anew)")
        return 0
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler:
        return _complain("no C++ compiler was found: install g++, or name one in CXX")
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        complaint = _compile([compiler, *_arguments(tensorflow), "-o", str(made)], tensorflow.__version__)
        if complaint:
            return _complain(f"the compiler failed:\n{complaint}")
        made.replace(target)  # whole or not at all
    print(f"built {target}\nSet HOROVOD_ENABLE_XLA_OPS=1 to use it.")
    return 0


def headers() -> Path:
    """The folder of the headers, beside the native module; in an editable installation it is not beside this file."""
    from farandole import _native

    return Path(str(_native.__file__)).parent / "include"


def _arguments(tf: Any) -> List[str]:
    include = tf.sysconfig.get_include()
    return [
        "-shared",
        "-fPIC",
        "-O2",
        "-w",  # the headers' warnings are not the user's
        "-fvisibility=hidden",
        *tf.sysconfig.get_compile_flags(),
        f"-I{include}/external/highwayhash",
        f"-I{include}/external/farmhash_archive/src",
        f"-I{headers()}",
        str(Path(__file__).with_name("allreduce.cpp")),
        *tf.sysconfig.get_link_flags(),
        "-l:libtensorflow_cc.so.2",
    ]


def _compile(command: List[str], version: str) -> str:
    """Runs the compiler, and shows the time that it has taken. Returns its messages if it fails, else nothing."""
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    code = running.wait(_LOOK_S)
                    break
                except subprocess.TimeoutExpired:
                    _show(f"\rcompiling against TensorFlow {version}: {time.monotonic() - begun:3.0f} s", sys.stderr)
        except BaseException:
            running.kill()
            running.wait()
            raise
        _show("\n", sys.stderr)
        said.seek(0)
        return said.read() if code else ""


def _show(text: str, where: IO[str]) -> None:
    if where.isatty():
        print(text, end="", file=where, flush=True)


def _complain(why: str) -> int:
    print(f"farandole build-xla: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
