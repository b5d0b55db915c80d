#!/usr/bin/env python3
"""Compiles Farandole's native module for the Python that runs this file: python3 compile.py, once.

It needs the headers of this Python, and a compiler for C++20 such as g++ 12; CXX names another one than c++. It takes a
minute or two on two cores. The module is for this version of Python, or for 3.12 and all later versions.
"""

# Older interpreters must be able to read this file, or they could not say that they are too old.
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(FOLDER, "source")
MODULE = os.path.join(FOLDER, "python", "farandole", "_native")


class Failed(Exception):
    """The module cannot be compiled; the text says why, and what the user can do."""


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    try:
        made = compiled()
    except (Failed, OSError) as reason:
        print(f"compile.py: {reason}", file=sys.stderr)
        return 1
    print(f"compile.py: {made} is ready. Next: python3 {FOLDER}/check.py")
    return 0


def compiled():
    """Compiles and links the module, and moves it to its place."""
    with open(os.path.join(SOURCE, "build.json")) as file:
        build = json.load(file)
    check_python(build["python"])
    headers = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(headers, "Python.h")):
        version = "{}.{}".format(*sys.version_info)
        raise Failed(
            f"{headers} has no Python.h; install the headers of Python {version} (Debian: "
            f"python{version}-dev; Red Hat: python{version}-devel), or use a Python that has them, such as conda's"
        )
    suffix, flags = sysconfig.get_config_var("EXT_SUFFIX"), ["-isystem", headers]
    if sys.version_info >= (3, 12):
        suffix, flags = ".abi3.so", [*flags, "-DPy_LIMITED_API=0x030C0000"]
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    print(f"compile.py: compiling {len(build['objects'])} files for Python {sys.version.split()[0]} with {compiler[0]}")
    with tempfile.TemporaryDirectory(prefix=".native-", dir=os.path.dirname(MODULE)) as work:
        commands, objects = [], []
        for source, own_flags in sorted(build["objects"].items()):
            objects.append(os.path.join(work, f"{len(objects)}.o"))
            commands.append([*compiler, *own_flags, *flags, "-c", source, "-o", objects[-1]])
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            list(threads.map(run, commands))
        libraries = [os.path.join(FOLDER, "lib", name) for name in build["libraries"]]
        search = [f"-Wl,-rpath-link,{FOLDER}/lib", "-Wl,-rpath,$ORIGIN/../../lib"]
        result = os.path.join(work, "module")
        run([*compiler, *build["link"], *search, "-o", result, *objects, *build["archives"], *libraries, "-ldl"])
        os.replace(result, MODULE + suffix)
    return MODULE + suffix


def check_python(suitable):
    own = list(sys.version_info[:2])
    if sys.implementation.name != "cpython" or not suitable["oldest"] <= own <= (suitable["newest"] or own):
        raise Failed(f"{sys.executable} is not a Python for which this folder was made; check.py says which are")


def run(command):
    try:
        ran = subprocess.run(
            command,
            check=False,
            cwd=SOURCE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as problem:
        raise Failed(
            f"{command[0]} cannot be run: {problem.strerror}; install a compiler for C++20 (Debian: g++; Red Hat: "
            "gcc-c++), or name one: CXX=g++-12 python3 compile.py"
        ) from None
    if ran.returncode != 0:
        raise Failed(
            f"{command[0]} failed, which must be a compiler for C++20 such as g++ 12 (CXX names another one):\n"
            f"{' '.join(command)}\n{ran.stdout}"
        )


if __name__ == "__main__":
    sys.exit(main())
