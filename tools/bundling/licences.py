"""Adds to a bundle the licences of its shared libraries.

The texts are those of the Debian packages that the libraries come from. A library that comes from no package, for
example because it was compiled on this machine, has the texts of its prefix: /usr/local/share/licenses/NAME or
/usr/local/share/doc/NAME for /usr/local/lib/libNAME.so.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from bundling.commands import run

DOCUMENTATION = Path("/usr/share/doc")
MISSING = """\
No licence of {source} was found on the machine where this bundle was made. Add it before you pass the bundle on.
"""
_FILE = re.compile(r"(licen[cs]e|copying|copyright|notice)\b", re.IGNORECASE)
"""How the names of files with licences begin."""


def add_licences(bundle: Path, copied: Dict[str, Path]) -> Tuple[Dict[str, str], List[Path]]:
    """Adds the licences to `licences` of the bundle: a file for each package, and one for each library that comes from
    none. A file says so if no licence was found. Returns the Debian packages of each library, with their versions, and
    the libraries without a licence.

    :param copied: the name of each library in the bundle, and the file that was copied
    """
    folder = bundle / "licences"
    folder.mkdir(exist_ok=True)
    versions: Dict[str, str] = {}
    missing: List[Path] = []
    for name, source in copied.items():
        packages = packages_of(source)
        versions[name] = ", ".join(version_of(package) for package in packages)
        licensed = [package for package in packages if (DOCUMENTATION / package / "copyright").is_file()]
        for package in licensed:
            shutil.copy(DOCUMENTATION / package / "copyright", folder / package)
        if not licensed:
            texts = [text.read_text(errors="replace") for text in beside(source)]
            (folder / name).write_text("\n".join(texts) or MISSING.format(source=source))
            missing += [] if texts else [source]
    return versions, missing


def packages_of(source: Path) -> List[str]:
    """The Debian packages to which a file belongs. Packages for several architectures may share a file."""
    real = source.resolve()
    for path in (real, Path("/", *real.parts[2:])):  # with and without /usr
        try:
            found = subprocess.run(["dpkg-query", "-S", path], check=False, capture_output=True, text=True)
        except OSError:  # the system has other packages than Debian's
            return []
        owners: List[str] = []
        for line in found.stdout.splitlines():
            names, _, owned = line.rpartition(": ")
            if owned == str(path) and not names.startswith("diversion by "):
                owners += [name.partition(":")[0] for name in names.split(", ")]
        if owners:
            return list(dict.fromkeys(owners))
    return []


def version_of(package: str) -> str:
    """A package with its version, as in "zlib1g 1:1.2.13"."""
    return run("dpkg-query", "-W", "-f", "${Package} ${Version}\n", package).splitlines()[0]


def beside(source: Path) -> Iterator[Path]:
    """The files with licences in the prefix of a library, in folders that have the library's name."""
    library = re.sub(r"^lib|[-.\d]*\.so.*$", "", source.name).lower()
    parents = [*source.absolute().parents, *source.resolve().parents]
    for prefix in dict.fromkeys(place.parent for place in parents if place.name.startswith("lib")):
        for folder in [*sorted(prefix.glob("share/licenses/*")), *sorted(prefix.glob("share/doc/*"))]:
            if re.fullmatch(rf"(lib)?{re.escape(library)}[-.\d]*", folder.name.lower()):
                yield from sorted(file for file in folder.iterdir() if file.is_file() and _FILE.match(file.name))
