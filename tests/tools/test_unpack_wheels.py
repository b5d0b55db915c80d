"""The files that tools/setup takes out of wheels for the build."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path, PurePosixPath
from typing import Optional

import pytest
from unpack_wheels import place_of_ccl, place_of_cuda, unpack


@pytest.mark.parametrize(
    "member, place",
    [
        ("nvidia/cu13/bin/nvcc", "bin/nvcc"),
        ("nvidia/cu13/bin/crt/link.stub", "bin/crt/link.stub"),
        ("nvidia/cu13/nvvm/libdevice/libdevice.10.bc", "nvvm/libdevice/libdevice.10.bc"),
        ("nvidia/cu13/include/nv/target", "include/nv/target"),
        ("nvidia/cu13/include/cccl/cub/cub.cuh", None),
        ("nvidia/cu13/lib/libnvvm.so.4", None),
        ("nvidia/cu13/.metadata/.sizes.txt", None),
        ("nvidia_nvvm-13.0.88.dist-info/licenses/License.txt", "licences/nvidia_nvvm.txt"),
        ("nvidia_nvvm-13.0.88.dist-info/RECORD", None),
    ],
)
def test_a_file_of_cuda_has_the_place_that_it_has_in_a_toolkit(member: str, place: Optional[str]) -> None:
    assert place_of_cuda(member) == (None if place is None else PurePosixPath(place))


def test_headers_and_libraries_of_oneccl_are_put_into_two_folders() -> None:
    assert place_of_ccl("oneccl-1.data/data/include/oneapi/ccl.hpp") == PurePosixPath("include/oneapi/ccl.hpp")
    assert place_of_ccl("oneccl-1.data/data/lib/ccl/cpu/lib/libccl.a") == PurePosixPath("lib/libccl.a")
    assert place_of_ccl("oneccl-1.data/data/lib/libccl.so") is None


def test_programs_stay_executable(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "nvcc-1.whl", "w") as wheel:
        for name, mode in [("nvidia/cu13/bin/nvcc", 0o744), ("nvidia/cu13/bin/nvcc.profile", 0o644)]:
            member = zipfile.ZipInfo(name)
            member.external_attr = mode << 16
            wheel.writestr(member, name)
    unpack(tmp_path, tmp_path / "target", place_of_cuda)
    folder = tmp_path / "target" / "bin"
    assert os.access(folder / "nvcc", os.X_OK)
    assert folder.joinpath("nvcc.profile").read_text() == "nvidia/cu13/bin/nvcc.profile"
    assert folder.joinpath("nvcc.profile").stat().st_mode & 0o111 == 0
