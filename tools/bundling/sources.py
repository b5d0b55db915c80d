"""Makes the native module of another Python than .venv's, from the sources of the module and the core of build/.

Only nanobind and the thirteen source files of the module need Python's headers. `files/compile.py` compiles them with
the flags of the build: here if the headers of that Python are here, otherwise on the user's machine. Then the bundle
contains these sources, and the core as archives.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Dict, Iterator, List, Optional

from bundling import ROOT
from bundling.commands import run
from bundling.interpreter import Interpreter

BUILD = ROOT / "build"
FILES = Path(__file__).with_name("files")
THIRD_PARTY = re.compile(
    r"^/usr/include/(?!c\+\+/|linux/|asm|python3|bits/|sys/|gnu/|x86_64-linux-gnu/|aarch64-linux-gnu/).+/"
)
"""Headers of libraries, which another machine need not have; not those of the compiler and of libc."""
THEIRS = "libraries"
"""The folder for them."""


def remake_module(interpreter: Interpreter, bundle: Path) -> None:
    """Replaces the native module, which is .venv's, by one for the interpreter, or by its sources."""
    module = native(bundle)
    add_sources(interpreter, bundle, module.name)
    module.unlink()
    if interpreter.has_headers:
        run(interpreter.path, bundle / "compile.py")
        shutil.rmtree(bundle / "source")
        (bundle / "compile.py").unlink()


def add_sources(interpreter: Interpreter, bundle: Path, module: str) -> None:
    """Copies compile.py and all that it needs. The name of the module is also that of the one in build/."""
    target = bundle / "source"
    commands = run("ninja", "-C", BUILD, "-t", "commands", f"python/farandole/{module}").splitlines()
    objects: Dict[str, List[str]] = {}
    for command in commands:
        words = shlex.split(command)
        if "-c" in words and words[-1].endswith(".cpp") and uses_python(words):
            objects[copied(Path(words[-1]), target)] = [*compiler_flags(words), "-isystem", THEIRS]
            for header in headers_of(words[words.index("-o") + 1]):
                copied(header, target)
    link = shlex.split(commands[-1])
    exports = copied(ROOT / "bindings" / "native" / "exports.map", target)
    flags = [word for word in link if word.startswith("-Wl,") and "version-script" not in word]
    build = {
        "python": interpreter.served(),
        "objects": objects,
        "link": ["-shared", "-fPIC", "-O2", *flags, f"-Wl,--version-script={exports}"],
        "archives": [copied(BUILD / word, target) for word in link if word.endswith(".a") and "nanobind" not in word],
        "libraries": re.findall(r"\(NEEDED\).*\[(.*-farandole\..*)\]", run("readelf", "-d", "-W", native(bundle))),
    }
    (target / "build.json").write_text(json.dumps(build, indent=1) + "\n")
    shutil.copy(FILES / "compile.py", bundle)


def native(bundle: Path) -> Path:
    """The native module of a bundle."""
    (module,) = (bundle / "python" / "farandole").glob("_native*.so")
    return module


def uses_python(words: List[str]) -> bool:
    return any(re.fullmatch(r".*/include/python3[^/]*", word) for word in words)


def compiler_flags(words: List[str]) -> List[str]:
    """The flags of a command of the build, with paths that are relative to the folder of the copies."""
    flags: List[str] = []
    following = iter(words[next(place for place, word in enumerate(words) if word.endswith("c++")) + 1 :])
    for word in following:
        if word in ("-MD", "-c") or word.endswith(".cpp"):
            continue
        if word in ("-MT", "-MF", "-o"):
            next(following)
        elif word == "-isystem" or word.startswith("-I"):
            folder = relative(Path(next(following) if word == "-isystem" else word[2:]))
            flags += ["-I", folder] if folder else []
        else:
            flags.append(word)
    return flags


def headers_of(product: str) -> Iterator[Path]:
    """The headers that an object of the build was compiled from, except those of Python, compiler and libc."""
    for line in run("ninja", "-C", BUILD, "-t", "deps", product).splitlines():
        if line.startswith(" "):
            header = (BUILD / line.strip()).resolve()
            if relative(header):
                yield header


def relative(path: Path) -> Optional[str]:
    """Where a file or folder of this tree, or a header of a library, lies in the folder of the copies."""
    if path == ROOT or ROOT in path.parents:
        return str(path.relative_to(ROOT))
    if THIRD_PARTY.match(str(path)):
        return str(Path(THEIRS) / path.relative_to("/usr/include"))
    return None


def copied(path: Path, target: Path) -> str:
    """Copies a file, and returns its place in the folder of the copies."""
    place = relative(path)
    assert place is not None, path
    (target / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target / place)
    return place
