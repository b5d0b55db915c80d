"""Extracts the files for the build of the ccl path from Intel's wheels: the headers, the CPU's static library, and
the compiler libraries that it needs.

python tools/unpack_ccl.py FOLDER_WITH_WHEELS TARGET
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path, PurePosixPath
from typing import Optional

CPU_LIBRARY = "/data/lib/ccl/cpu/lib/libccl.a"
COMPILER_LIBRARIES = ("libimf.so", "libintlc.so.5")


def place_of(member: str) -> Optional[PurePosixPath]:
    """The path of a wheel's file under the target; None if the file is not extracted."""
    name = PurePosixPath(member)
    if "/data/include/" in member:
        return PurePosixPath("include", member.partition("/data/include/")[2])
    if member.endswith(CPU_LIBRARY) or name.name in COMPILER_LIBRARIES:
        return PurePosixPath("lib", name.name)
    if name.name.startswith("LICENSE"):
        return PurePosixPath("licences", name.parts[0].partition("-")[0] + ".txt")
    return None


def unpack(wheels: Path, target: Path) -> None:
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                place = place_of(member)
                if place is None or member.endswith("/"):
                    continue
                path = target / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(member))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
