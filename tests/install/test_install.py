"""pip installs Farandole into an empty environment outside the tree: the wheel that tools/setup has made, and a clean
clone.

The tests run in order and share one clone and one environment, so that the core is compiled once. With a warm ccache,
for which the paths of the clone do not matter, this takes seconds. pip takes the build tools from .setup/packages, and
asks no registry.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator, List

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRAIN = Path(__file__).with_name("train.py")


class Environment:
    """A virtual environment, and commands that run in it as a user's shell would run them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The interpreter behind .venv, so that nothing of .venv is in the new one.
        base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        subprocess.run([base, "-m", "venv", folder], check=True)

    def run(self, *command: object) -> str:
        """The output of a command, which must exit with 0."""
        unset = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        variables = {name: value for name, value in os.environ.items() if name not in unset}
        variables["PATH"] = f"{self.folder / 'bin'}:{variables['PATH']}"
        words = [str(word) for word in command]
        ran = subprocess.run(words, check=False, cwd=self.folder, env=variables, capture_output=True, text=True)
        assert ran.returncode == 0, (
            f"{command} ended with {ran.returncode}:\n{ran.stdout[-20000:]}{ran.stderr[-20000:]}"
        )
        return ran.stdout

    def pip(self, *words: object) -> str:
        return self.run("python", "-m", "pip", "--disable-pip-version-check", "--no-input", *words)

    def python(self, code: str) -> str:
        return self.run("python", "-c", code).strip()

    def leftovers(self) -> List[str]:
        """Paths in the environment that mention Farandole or Horovod."""
        paths = (path.relative_to(self.folder) for path in self.folder.rglob("*") if not path.is_dir())
        return sorted(str(path) for path in paths if "farandole" in str(path) or "horovod" in str(path))


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of a clone of this tree if all changes were committed, without build outputs."""
    folder = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    made = Environment(tmp_path_factory.mktemp("environment"))
    yield made
    shutil.rmtree(made.folder)


def lacks_hardening(binary: Path) -> List[str]:
    """The flags of tools/cmake/hardening.cmake that are not visible in a program or a module."""
    found = subprocess.run(
        ["readelf", "--wide", "--file-header", "--program-headers", "--dynamic", "--dyn-syms", binary],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    patterns = {
        "position-independent": r"^ +Type: +DYN ",
        "full RELRO: segment": r"^ +GNU_RELRO ",
        "full RELRO: bound at start": r"\(FLAGS(_1)?\).*\b(BIND_)?NOW\b",
        "stack protector": r" __stack_chk_fail\b",
    }
    if binary.suffix != ".so":
        patterns["PIE"] = r"\(FLAGS_1\).*\bPIE\b"
    if binary.name.startswith("_native"):  # large enough to call functions that have a checked variant
        patterns["_FORTIFY_SOURCE"] = r" __\w+_chk\b"
        patterns["_GLIBCXX_ASSERTIONS"] = r" _ZSt21__glibcxx_assert_fail"
    return [name for name, pattern in patterns.items() if not re.search(pattern, found, re.MULTILINE)]


SHARED = [
    *(f"bash-completion/completions/{program}" for program in ("farandole", "horovodrun")),
    *(f"fish/vendor_completions.d/{program}.fish" for program in ("farandole", "horovodrun")),
    *("man/man1/farandole.1", "man/man1/horovodrun.1", "zsh/site-functions/_farandole"),
]
"""The completion of shells and the manual page, below share/ of the environment."""


def check_hardened(environment: Environment) -> None:
    folder = environment.python("import farandole; print(farandole.__path__[0])")
    binaries = [
        *Path(folder).rglob("*.so"),
        *(environment.folder / "bin" / name for name in ("farandole", "horovodrun")),
    ]
    assert len(binaries) >= 5
    lacking = {binary.name: lacks_hardening(binary) for binary in binaries}
    assert not any(lacking.values()), lacking


def check_installed(environment: Environment) -> None:
    """Checks both distributions, both programs, and the files that a job looks for."""
    versions = 'from importlib.metadata import version; print(version("farandole"), version("horovod"))'
    packages = "import farandole, horovod; print(farandole.__version__, horovod.__version__)"
    assert environment.python(versions) == environment.python(packages)
    listed = environment.pip("list", "--format=freeze")
    assert "farandole==" in listed and "horovod==" in listed
    environment.pip("check")
    assert environment.run("horovodrun", "--version").strip() == environment.python(packages).split()[1]
    assert environment.run("farandole", "--version").startswith(f"farandole {environment.python(packages).split()[0]} ")
    report = environment.run("farandole", "check")
    for path in ("fast path", "local", "tcp", "ucx", "gloo", "mpi"):
        assert f"[X] {path}\n" in report, report
    assert [path for path in SHARED if not (environment.folder / "share" / path).read_text()] == []
    modules = "from pathlib import Path; from farandole import _native; folder = Path(_native.__file__).parent\n"
    modules += 'print(*sorted(path.name for path in folder.rglob("*.so")))'
    for name in ("gloo", "jax", "mpi", "mxnet", "tensorflow"):
        assert f"libfarandole_{name}.so" in environment.python(modules)
    headers = "from farandole.xla import build; print((build.headers() / 'farandole' / 'kernel_api.h').exists())"
    assert environment.python(headers) == "True"


def test_the_wheel_of_tools_setup_trains_on_two_ranks_and_is_uninstalled_completely(environment: Environment) -> None:
    (wheel,) = (ROOT / ".setup" / "wheel").glob("*.whl")
    check_wheel(environment, wheel)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_wheel_of_a_clean_clone_trains_on_two_ranks_and_is_uninstalled_completely(
    clone: Path, environment: Environment, tmp_path: Path
) -> None:
    environment.pip("wheel", "--no-deps", "-w", tmp_path, clone)
    (wheel,) = tmp_path.iterdir()
    check_wheel(environment, wheel)


def check_wheel(environment: Environment, wheel: Path) -> None:
    environment.pip("install", f"{wheel}[numpy]")
    check_installed(environment)
    check_hardened(environment)
    output = environment.run("horovodrun", "-np", "2", "python", TRAIN)
    assert "rank 0 of 2 has trained" in output and "rank 1 of 2 has trained" in output
    for path in ("gloo", "mpi"):
        output = environment.run(
            "env", f"FARANDOLE_CPU_PATH={path}", "FARANDOLE_TRUSTED_NETWORK=1", *launcher(path), "python", TRAIN
        )
        assert output.count("has trained") == 2
    environment.pip("uninstall", "-y", "farandole")
    assert environment.leftovers() == []


def launcher(path: str) -> List[str]:
    """The command that starts two ranks which can use a data path."""
    if path == "mpi":
        return ["mpirun", "--oversubscribe", "--allow-run-as-root", "-np", "2"]
    return ["horovodrun", "-np", "2"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_installation_from_the_folder_works_and_is_uninstalled_completely(
    clone: Path, environment: Environment
) -> None:
    environment.pip("install", clone)
    check_installed(environment)
    assert environment.python("import horovod; print(horovod.__file__)").startswith(str(environment.folder))
    environment.pip("uninstall", "-y", "farandole")
    assert environment.leftovers() == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_editable_installation_follows_the_sources(clone: Path, environment: Environment) -> None:
    environment.pip("install", "-e", f"{clone}[numpy]")
    check_installed(environment)
    output = environment.run("horovodrun", "-np", "2", "python", TRAIN)
    assert output.count("has trained") == 2
    (clone / "bindings" / "python" / "farandole" / "added.py").write_text("value = 7\n")
    assert environment.python("import horovod.added; print(horovod.added.value, horovod.added.__file__)") == (
        f"7 {clone}/bindings/python/farandole/added.py"
    )
    environment.pip("uninstall", "-y", "farandole")
    assert environment.leftovers() == []
