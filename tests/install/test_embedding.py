"""A C++ program outside the source tree is compiled against the installed package and runs on two ranks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Iterator, List

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("embedding")
HEADERS = ["farandole.h", "farandole.hpp", "kernel_api.h", "path_plugin.h", "values.hpp"]


def run(*command: object) -> str:
    """The output of a command, which must exit with 0."""
    ran = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, f"{command} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", ROOT / "build", "--component", "c", "--prefix", prefix)
    yield prefix
    shutil.rmtree(prefix)


def check_runs(program: Path) -> None:
    assert run(program) == "sum 1 2\n"
    printed = run(ROOT / "build" / "tools" / "farandole" / "horovodrun", "-np", "2", program)
    assert printed.count("sum 2 4") == 2, printed


def test_a_program_finds_the_package_with_cmake(package: Path, tmp_path: Path) -> None:
    run("cmake", "-S", PROGRAM, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={package}")
    run("cmake", "--build", tmp_path)
    check_runs(tmp_path / "sum")


def test_a_program_finds_the_package_with_pkg_config(package: Path, tmp_path: Path) -> None:
    program = tmp_path / "sum"
    flags = run(
        "env", f"PKG_CONFIG_PATH={package / 'lib' / 'pkgconfig'}", "pkg-config", "--cflags", "--libs", "farandole"
    ).split()
    run("c++", "-std=c++20", PROGRAM / "sum.cpp", "-o", program, *flags, f"-Wl,-rpath,{package / 'lib'}")
    check_runs(program)


@pytest.mark.parametrize("header", HEADERS)
def test_an_installed_header_compiles_alone(package: Path, tmp_path: Path, header: str) -> None:
    assert sorted(path.name for path in (package / "include" / "farandole").iterdir()) == HEADERS
    source = tmp_path / ("alone.cpp" if header.endswith("pp") else "alone.c")
    source.write_text(f"#include <farandole/{header}>\n")
    language: List[str] = ["c++", "-std=c++20"] if header.endswith("pp") else ["cc", "-std=c99", "-pedantic"]
    run(*language, "-Wall", "-Wextra", "-Werror", f"-I{package / 'include'}", "-fsyntax-only", source)
