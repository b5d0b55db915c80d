#!/usr/bin/env python3
"""Compares what this folder requires with what this machine has: python3 check.py, with the Python that will train.

It prints one line for each requirement, and exits with 1 if the machine lacks one.
"""

# Older interpreters must be able to read this file, or they could not say that they are too old.
import ctypes
import glob
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig

FOLDER = os.path.dirname(os.path.abspath(__file__))
LIBRARIES = {"GLIBCXX": "libstdc++.so.6", "CXXABI": "libstdc++.so.6", "GCC": "libgcc_s.so.1"}


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    with open(os.path.join(FOLDER, "bundle.json")) as file:
        bundle = json.load(file)
    print("bundle: Farandole {farandole}, {commit}, for {platform}".format(**bundle))
    problems = 0
    for requirement, problem in checks(bundle):
        print("{} {}{}".format("[ ]" if problem else "[X]", requirement, ": " + problem if problem else ""))
        problems += bool(problem)
    if problems:
        print("This machine does not fit: see the lines with [ ].")
        return 1
    print(f"This machine fits. Next: source {FOLDER}/activate, then farandole check")
    return 0


def checks(bundle):
    """Pairs of a requirement and the reason why this machine does not meet it; the reason is empty if it does."""
    yield "processor and system: " + bundle["platform"], platform_problem(bundle)
    wrong_python = python_problem(bundle)
    yield "Python: " + pythons(bundle), wrong_python
    for name, version in sorted(bundle["symbols"].items()):
        problem = glibc_problem(version) if name == "GLIBC" else library_problem(LIBRARIES[name], name + "_" + version)
        yield f"{name} {version}", problem
    yield "the command farandole", failure([os.path.join(FOLDER, "bin", "farandole"), "--version"])
    if not wrong_python:
        yield "the package farandole", package_problem()


def pythons(bundle):
    oldest = dotted(bundle["python"]["oldest"])
    return "CPython " + (oldest if bundle["python"]["newest"] else oldest + " or newer")


def platform_problem(bundle):
    own = sysconfig.get_platform()
    return "" if own == bundle["platform"] else f"this machine is {own}; make a bundle on such a machine"


def python_problem(bundle):
    version = list(sys.version_info[:2])
    fits = bundle["python"]["oldest"] <= version <= (bundle["python"]["newest"] or version)
    if fits and sys.implementation.name == "cpython":
        return ""
    own = f"{platform.python_implementation()} {dotted(version)}"
    return f"{sys.executable} is {own}; run check.py with another, or make a bundle for it: tools/bundle --python PATH"


def glibc_problem(version):
    own = (os.confstr("CS_GNU_LIBC_VERSION") or "unknown").split(" ")[-1]
    if own != "unknown" and numbers(own) >= numbers(version):
        return ""
    return f"this machine has glibc {own}; make the bundle on a machine with that version or an older one"


def library_problem(library, symbol):
    """Reads the library that this interpreter loads, which is not always the system's."""
    try:
        ctypes.CDLL(library)
    except OSError as problem:
        return f"{library} cannot be loaded: {problem}"
    with open("/proc/self/maps") as maps:
        (path,) = {line.split(None, 5)[5].strip() for line in maps if "/" + library in line}
    with open(path, "rb") as file:
        content = file.read()
    kind = symbol.split("_")[0]
    offered = set(re.findall(rf"\0({kind}_[0-9][0-9.]*)(?=\0)".encode(), content))
    if symbol.encode() in offered:
        return ""
    newest = max((name.decode() for name in offered), key=lambda name: numbers(name.split("_")[1]), default="none")
    return f"{path} offers {newest} at most; let Python load a newer {library}, or make the bundle on an older system"


def package_problem():
    python = os.path.join(FOLDER, "python")
    if not glob.glob(glob.escape(os.path.join(python, "farandole", "_native")) + ".*so"):
        return f"its native module has not been compiled yet; run {sys.executable} {FOLDER}/compile.py once"
    program = "import sys; sys.path.insert(0, sys.argv[1]); from farandole import _native"
    return failure([sys.executable, "-B", "-c", program, python])


def failure(command):
    """What a command that does not succeed says."""
    ran = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    output, _ = ran.communicate()
    return "" if ran.returncode == 0 else "it does not start: " + output.strip()


def numbers(version):
    return [int(part) for part in re.findall(r"\d+", version)]


def dotted(version):
    return ".".join(str(part) for part in version)


if __name__ == "__main__":
    sys.exit(main())
