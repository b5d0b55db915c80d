"""Extracts the files for the build from wheels that pip cannot install, or that would bring more than is needed:

- ccl: oneCCL's headers, the CPU's static library, and the compiler libraries that it needs;
- cuda: nvcc with its parts, and CUDA's headers, in the layout of a CUDA Toolkit.

python tools/unpack_wheels.py ccl|cuda FOLDER_WITH_WHEELS TARGET
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path, PurePosixPath
from typing import Callable, Dict, Optional

CPU_LIBRARY = "/data/lib/ccl/cpu/lib/libccl.a"
COMPILER_LIBRARIES = ("libimf.so", "libintlc.so.5")
TOOLKIT = "nvidia/cu13/"
# Without the libraries, and without include/cccl: 80 MB that the kernels do not use.
TOOLKIT_PARTS = ("bin/", "include/", "nvvm/")
UNUSED_HEADERS = "include/cccl/"

#: The path of a wheel's file under the target; None if the file is not extracted.
Placing = Callable[[str], Optional[PurePosixPath]]


def place_of_ccl(member: str) -> Optional[PurePosixPath]:
    name = PurePosixPath(member)
    if "/data/include/" in member:
        return PurePosixPath("include", member.partition("/data/include/")[2])
    if member.endswith(CPU_LIBRARY) or name.name in COMPILER_LIBRARIES:
        return PurePosixPath("lib", name.name)
    return place_of_licence(name)


def place_of_cuda(member: str) -> Optional[PurePosixPath]:
    if not member.startswith(TOOLKIT):
        return place_of_licence(PurePosixPath(member))
    path = member[len(TOOLKIT) :]
    if path.startswith(TOOLKIT_PARTS) and not path.startswith(UNUSED_HEADERS):
        return PurePosixPath(path)
    return None


def place_of_licence(name: PurePosixPath) -> Optional[PurePosixPath]:
    if name.name.upper().startswith("LICENSE"):
        return PurePosixPath("licences", name.parts[0].partition("-")[0] + ".txt")
    return None


PLACINGS: Dict[str, Placing] = {"ccl": place_of_ccl, "cuda": place_of_cuda}


def unpack(wheels: Path, target: Path, placing: Placing) -> None:
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                place = placing(member.filename)
                if place is None or member.is_dir():
                    continue
                path = target / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(member))
                if member.external_attr >> 16 & 0o100:
                    path.chmod(0o755)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in PLACINGS:
        sys.exit(__doc__)
    unpack(Path(sys.argv[2]), Path(sys.argv[3]), PLACINGS[sys.argv[1]])
