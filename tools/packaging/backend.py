"""The build backend of this tree: scikit-build-core's, and the distribution ``horovod`` in the same wheel.

Scripts and libraries ask for the distribution ``horovod`` by name (``importlib.metadata.version("horovod")``), and pip
cannot be told to install two distributions from one folder. So the wheel of ``farandole`` also carries the metadata of
``horovod``, with the version of the interface. pip refuses a second ``.dist-info`` folder at the root of a wheel; in
the wheel's folder for purelib it is one of the files to install.
docs/decisions/0024-one-wheel-for-farandole-and-horovod.md has the reasons.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import zipfile
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple, Union

from scikit_build_core import build as skbuild
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parents[2]
Settings = Optional[Dict[str, Union[str, List[str]]]]
Row = Tuple[str, str, str]
"""A line of a RECORD: the path, its hash and its size."""


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: Optional[str] = None
) -> str:
    """PEP 517's hook."""
    name: str = skbuild.build_wheel(wheel_directory, config_settings, metadata_directory)
    add_horovod(Path(wheel_directory) / name)
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: Optional[str] = None
) -> str:
    """PEP 660's hook."""
    name: str = skbuild.build_editable(wheel_directory, config_settings, metadata_directory)
    add_horovod(Path(wheel_directory) / name)
    return name


def add_horovod(wheel: Path) -> None:
    """Adds the metadata of the distribution ``horovod`` to a wheel of ``farandole``."""
    distribution, version = wheel.name.split("-")[:2]
    record = f"{distribution}-{version}.dist-info/RECORD"
    folder = f"horovod-{interface_version()}.dist-info"
    unfinished = wheel.with_suffix(".part")
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            if entry.filename != record:
                target.writestr(entry, source.read(entry))
        rows: List[Row] = [tuple(row) for row in csv.reader(source.read(record).decode().splitlines())]  # type: ignore
        files = {"METADATA": metadata(version), "WHEEL": source.read(f"{distribution}-{version}.dist-info/WHEEL")}
        own = [row for row in rows if row[0].startswith("horovod/")]
        own += [row_of(f"{folder}/{name}", content) for name, content in files.items()]
        files["RECORD"] = lines([*own, (f"{folder}/RECORD", "", "")])
        for name, content in files.items():
            path = f"{distribution}-{version}.data/purelib/{folder}/{name}"
            write(target, path, content)
            rows.insert(-1, row_of(path, content))
        write(target, record, lines(rows))
    unfinished.replace(wheel)


def interface_version() -> str:
    """The version of the Horovod interface, as the package ``horovod`` tells it."""
    source = (ROOT / "bindings" / "python" / "horovod" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', source, re.MULTILINE)
    assert found, "bindings/python/horovod/__init__.py has no __version__"
    return found[1]


def metadata(version: str) -> bytes:
    """The METADATA of ``horovod``."""
    return f"""\
Metadata-Version: 2.4
Name: horovod
Version: {interface_version()}
Summary: The Horovod interface, provided by Farandole
License-Expression: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: farandole=={version}

`import horovod.torch` is `import farandole.torch`. The distribution `farandole` installs these files and removes them.
""".encode()


def row_of(path: str, content: bytes) -> Row:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return path, f"sha256={digest}", str(len(content))


def lines(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def write(target: zipfile.ZipFile, path: str, content: bytes) -> None:
    """With a fixed date, so that the same tree gives the same wheel."""
    entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o100644 << 16
    target.writestr(entry, content)
