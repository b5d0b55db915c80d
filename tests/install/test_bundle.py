"""tools/bundle makes a folder that runs on another machine, where nothing of this tree can be found."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Iterator, List

import pytest
from bundling import Refused
from bundling import interpreter as interpreters
from bundling.licences import DOCUMENTATION, MISSING, add_licences, packages_of
from other_machine import PYTHON, ROOT, Machine, bundled

OF_THE_MACHINE = re.compile(r"/(ld-linux-x86-64|lib(c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s))\.so\.\d+$")
LIST_LIBRARIES = """\
import ssl, sys, zlib
import horovod.numpy as hvd, numpy
hvd.init()
assert hvd.allreduce(numpy.ones(3), op=hvd.Sum).tolist() == [hvd.size()] * 3
ssl.create_default_context()
files = {line.split(None, 5)[5] for line in open("/proc/self/maps") if ".so" in line}
if hvd.rank() == 0:
    open(sys.argv[1], "w").writelines(sorted(files))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="another machine is made of namespaces, which need root"),
]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine to which the bundle was moved from the folder in which it was made."""
    folder = tmp_path_factory.mktemp("bundle")
    status, output = bundled(folder / "made")
    assert status == 0, output
    (folder / "made").rename(folder / "moved to another folder")
    yield Machine(folder / "machine", folder / "moved to another folder")
    shutil.rmtree(folder)


def test_two_ranks_train_on_another_machine(machine: Machine) -> None:
    machine.trains(machine.bundle)


def test_the_tests_of_the_bundle_run_with_the_pytorch_of_the_machine(machine: Machine) -> None:
    tests = f'"{machine.bundle}/tests/parallel/test_operations.py" -k broadcast'
    output = machine.run(f'PYTHON={PYTHON} "{machine.bundle}/tests/run_tests" -np 2 {tests}')
    assert len(re.findall(r"\d+ passed", output)) == 2 and "failed" not in output, output


def test_the_tests_of_gpus_run_from_the_bundle(machine: Machine) -> None:
    gpu = f'PYTHON={PYTHON} "{machine.bundle}/tests/run_tests" gpu'
    assert "gpu: FAILED: no test has run: there is no NVIDIA driver (libcuda.so.1" in machine.run(gpu, status=1)
    # The stand-ins for the driver and for NCCL lie side by side, as in the build.
    stand_ins = machine.folder / "stand-ins"
    shutil.copytree(ROOT / "build" / "cuda" / "fake", stand_ins)
    stand_in = stand_ins / "driver" / "libcuda.so.1"
    output = machine.run(f"STAND_IN_DRIVER={stand_in} {gpu} --only jobs,tensors --ranks 2")
    rows = [line.split()[:4] for line in output.splitlines() if line.startswith(("jobs  ", "tensors  "))]
    assert rows == [["jobs", "1", "4", "0"], ["tensors", "2", "7", "0"]], output


def test_a_rank_loads_the_bundles_libraries_beside_those_of_python(machine: Machine) -> None:
    script = machine.folder / "libraries.py"
    script.write_text(LIST_LIBRARIES)
    listed = machine.folder / "libraries"
    # The TCP path loads libIPSec_MB by name.
    job = f"FARANDOLE_CPU_PATH=tcp horovodrun -np 2 {PYTHON} {script} {listed}"
    machine.run(f'source "{machine.bundle}/activate"; {job}')
    loaded = [Path(line) for line in listed.read_text().splitlines()]
    own = {path.name for path in loaded if machine.bundle in path.parents}
    assert {"libcaf_core-farandole.so.0.17.6", "libcrypto-farandole.so.3", "libIPSec_MB.so.1"} <= own
    others = {path.name for path in loaded} - own
    assert not [name for name in others if "farandole" in name or name.startswith("_native")]
    # Python's own modules ssl and zlib use the machine's.
    replaced = {name.split(".so")[0].replace("-farandole", "") for name in own}
    assert replaced & {name.split(".so")[0] for name in others} <= {"libcrypto", "libssl", "libz"}


def test_the_files_of_a_bundle_need_no_other_library_of_the_machine(machine: Machine) -> None:
    programs = [path for path in machine.bundle.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    programs = [path for path in programs if path.name != "libfarandole_mpi.so"]
    assert {"farandole", "horovodrun", "libfarandole_gloo.so"} <= {path.name for path in programs}
    for path in programs:
        output = machine.run(f'/lib64/ld-linux-x86-64.so.2 --list "{path}"')
        found = re.findall(r"=> (.+) \(0x", output)
        assert found and "not found" not in output, output
        others = [name for name in found if not OF_THE_MACHINE.search(name)]
        assert all(machine.bundle in Path(name).resolve().parents for name in others), output


def test_each_library_of_a_bundle_has_a_licence(machine: Machine) -> None:
    libraries = json.loads((machine.bundle / "bundle.json").read_text())["libraries"]
    assert "libcrypto-farandole.so.3" in libraries
    for name, packages in libraries.items():
        owners = [package.split()[0] for package in packages.split(", ")] if packages else [name]
        for owner in owners:
            assert (machine.bundle / "licences" / owner).stat().st_size > 100, name


def dpkg_query(folder: Path, answer: str) -> None:
    """A program dpkg-query that has this answer for the owner of each file; %s stands for the file."""
    folder.mkdir()
    program = folder / "dpkg-query"
    program.write_text(f'#!/bin/sh\n[ "$1" = -S ] && printf "{answer}" "$2" || echo "$4 1.0"\n')
    program.chmod(0o755)


def test_a_library_of_several_packages_has_the_licence_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (DOCUMENTATION / "bash" / "copyright").is_file() and (DOCUMENTATION / "dash" / "copyright").is_file()
    dpkg_query(tmp_path / "bin", "diversion by other from: /lib/libx.so\\nbash:amd64, dash:i386: %s\\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    versions, missing = add_licences(tmp_path, {"libx-farandole.so": tmp_path / "libx.so"})
    assert versions == {"libx-farandole.so": "bash 1.0, dash 1.0"} and missing == []
    assert {path.name for path in (tmp_path / "licences").iterdir()} == {"bash", "dash"}


def test_the_packages_of_this_machine_are_found() -> None:
    assert packages_of(Path("/bin/sh").resolve()) == ["dash"]
    assert packages_of(Path("/etc/none")) == []


def test_a_library_of_no_package_has_the_licence_of_its_prefix(tmp_path: Path) -> None:
    library = tmp_path / "lib" / "x86_64-linux-gnu" / "libknown-0.9.so.2"
    for text in (tmp_path / "share/licenses/known/COPYING", tmp_path / "share/doc/libknown-0.9/LICENSE.txt"):
        text.parent.mkdir(parents=True)
        text.write_text(f"the text of {text.name}\n")
    (tmp_path / "share/doc/libknown-0.9/README").write_text("no licence")
    other = library.with_name("libother.so")
    versions, missing = add_licences(tmp_path, {"libknown.so": library, "libother.so": other})
    assert versions == {"libknown.so": "", "libother.so": ""} and missing == [other]
    licences = tmp_path / "licences"
    assert (licences / "libknown.so").read_text() == "the text of COPYING\n\nthe text of LICENSE.txt\n"
    assert (licences / "libother.so").read_text() == MISSING.format(source=other)


def test_licences_are_looked_for_on_machines_without_dpkg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert add_licences(tmp_path, {"libx.so": tmp_path / "libx.so"})[1] == [tmp_path / "libx.so"]


def requiring(machine: Machine, folder: Path, **changes: Any) -> Path:
    """A copy of the bundle's check that requires something else of a machine."""
    folder.mkdir()
    manifest = json.loads((machine.bundle / "bundle.json").read_text())
    manifest.update(changes)
    (folder / "bundle.json").write_text(json.dumps(manifest))
    shutil.copy(machine.bundle / "check.py", folder)
    for name in ("bin", "python"):
        (folder / name).symlink_to(machine.bundle / name)
    return folder / "check.py"


def test_a_machine_that_fits_is_told_the_next_command(machine: Machine) -> None:
    output = machine.run(f'{PYTHON} "{machine.bundle}/check.py"')
    assert "This machine fits. Next: source " in output and "[ ]" not in output, output
    symbols = json.loads((machine.bundle / "bundle.json").read_text())["symbols"]
    assert set(symbols) == {"GLIBC", "GLIBCXX", "CXXABI", "GCC"}
    assert all(f"[X] {name} {version}\n" in output for name, version in symbols.items()), output


def test_a_machine_that_does_not_fit_is_told_what_it_lacks(machine: Machine) -> None:
    symbols = {"GLIBC": "9.1", "GLIBCXX": "3.4.99"}
    older = {"oldest": [3, 9], "newest": [3, 9]}
    check = requiring(machine, machine.folder / "newer", symbols=symbols, platform="linux-s390x", python=older)
    output = machine.run(f"{PYTHON} {check}", status=1)
    for text in (
        "[ ] processor and system: linux-s390x: this machine is linux-",
        "[ ] Python: CPython 3.9: ",
        "run check.py with another, or make a bundle for it: tools/bundle --python PATH",
        "[ ] GLIBC 9.1: this machine has glibc ",
        "[ ] GLIBCXX 3.4.99: /",
        " at most; let Python load a newer libstdc++.so.6",
        "[X] the command farandole",
        "This machine does not fit",
    ):
        assert text in output, f"{text} is not in\n{output}"


def test_a_library_that_is_missing_is_named(machine: Machine) -> None:
    shutil.copytree(machine.bundle / "bin", machine.folder / "alone" / "bin")
    check = requiring(machine, machine.folder / "incomplete", symbols={})
    (check.parent / "bin").unlink()
    (check.parent / "bin").symlink_to(machine.folder / "alone" / "bin")
    output = machine.run(f"{PYTHON} {check}", status=1)
    assert re.search(r"\[ \] the command farandole: .*lib\w+-farandole\.so.*cannot open shared object", output), output


def interpreter(folder: Path, **answers: Any) -> Path:
    """A program that answers as an interpreter does, and can do nothing else."""
    fitting = {
        "implementation": "cpython",
        "version": list(sys.version_info[:3]),
        "platform": sysconfig.get_platform(),
        "suffix": ".none.so",
        "header": str(ROOT / "README.md"),
    }
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n[ $# = 2 ] || exit 3\necho '{json.dumps({**fitting, **answers})}'\n")
    program.chmod(0o755)
    return program


def test_a_module_whose_headers_are_missing_here_is_compiled_on_the_other_machine(
    machine: Machine, tmp_path: Path
) -> None:
    bundle = tmp_path / "sources"
    status, output = bundled("--python", interpreter(tmp_path, header="/none/Python.h"), bundle)
    assert status == 0 and "has no headers here (/none/Python.h does not exist)" in output, output
    check, compiling = f"{PYTHON} {bundle}/check.py", f"{PYTHON} {bundle}/compile.py"
    assert f"[ ] the package farandole: its native module has not been compiled yet; run {PYTHON}" in machine.run(
        check, 1
    )
    assert "/none/c++ cannot be run: No such file" in machine.run(f"CXX=/none/c++ {compiling}", 1)
    assert "must be a compiler for C++20" in machine.run(f"CXX=false {compiling}", 1)
    headers = sysconfig.get_paths()["include"]
    assert f"{headers} has no Python.h; install" in machine.run(f"mount -t tmpfs none {headers}; {compiling}", 1)
    cache = subprocess.run(["ccache", "--get-config", "cache_dir"], check=True, capture_output=True, text=True)
    machine.run(f"CCACHE_DIR={cache.stdout.strip()} CXX='ccache c++' {compiling}")
    assert "This machine fits" in machine.run(check)
    machine.trains(bundle)
    shutil.rmtree(bundle)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"version": [3, 8, 18]}, "is Python 3.8; a bundle needs 3.10 or newer"),
        ({"implementation": "pypy"}, "is pypy; Farandole's native module needs CPython"),
        ({"platform": "linux-s390x"}, "is built for linux-s390x"),
    ],
)
def test_an_interpreter_that_does_not_suit_is_refused(tmp_path: Path, answers: Any, reason: str) -> None:
    status, output = bundled("--python", interpreter(tmp_path, **answers), tmp_path / "out")
    assert status == 1 and reason in output and str(tmp_path / "python") in output, output
    assert [path.name for path in tmp_path.iterdir()] == ["python"]


@pytest.mark.parametrize("program", ["/none/python", "/bin/true", "/etc/passwd"])
def test_what_is_no_interpreter_is_refused(tmp_path: Path, program: str) -> None:
    status, output = bundled("--python", program, tmp_path / "out")
    assert status == 1 and f"--python {program} is not a Python interpreter that runs on this machine: " in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answers", "reason"),
    [({"version": [3, 8, 18]}, "is Python 3.8"), ({"platform": "linux-s390x"}, "is built for"), ({"x": 1}, "runs on")],
)
def test_an_own_interpreter_that_does_not_suit_is_not_called_an_option(
    tmp_path: Path, answers: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreters, "OWN", interpreter(tmp_path, **answers))
    with pytest.raises(Refused) as caught:
        interpreters.examine_own()
    text = str(caught.value)
    assert text.startswith(f"the interpreter of .venv {tmp_path}/python is ") and reason in text
    assert "--python" not in text and text.endswith("tools/setup makes .venv with the python3 of this machine")


def test_a_place_that_is_taken_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out, reason in ((tmp_path, "is not empty"), (tmp_path / "file", "is not a folder")):
        status, output = bundled(out)
        assert status == 1 and f"tools/bundle: {out} " in output and reason in output, output
    assert (tmp_path / "file").read_text() == "mine"
    status, output = bundled(tmp_path / "file" / "out")
    assert status == 1 and f"{tmp_path}/file cannot be made" in output, output


def test_a_disk_with_too_little_space_is_named(tmp_path: Path) -> None:
    command = f'mount -t tmpfs -o size=9m none {tmp_path}; exec "{ROOT}/tools/bundle" {tmp_path}/out'
    ran = subprocess.run(["unshare", "--mount", "sh", "-c", command], check=False, capture_output=True, text=True)
    assert ran.returncode == 1 and f"the disk of {tmp_path} has 9 MiB free" in ran.stderr, ran.stderr


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    place = tmp_path / "place"
    status, output = bundled("--python", interpreter(tmp_path), place / "out")
    assert status == 1 and re.search(r"/compile.py` failed with exit code 3", output), output
    leftovers: List[Path] = list(place.iterdir())
    assert leftovers == []
