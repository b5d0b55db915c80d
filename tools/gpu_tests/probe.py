"""Prints, as JSON, what this Python and this machine have for the tests. Run as a script by the Python that will run
them, which may lack every package. With a stand-in driver, STAND_IN_DRIVER names it.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import platform
import re
import sys
from typing import Any, Dict

NO_STAND_IN = "none"


def main() -> None:
    stand_in = os.environ["STAND_IN_DRIVER"]
    facts: Dict[str, Any] = {
        "python": f"{platform.python_version()} ({sys.executable})",
        "versions": {},
        "problems": {},
    }
    if stand_in != NO_STAND_IN:
        ctypes.CDLL(stand_in, ctypes.RTLD_GLOBAL)
    for package in ("numpy", "pytest", "farandole"):
        look_at(package, facts)
    if "farandole" not in facts["problems"]:
        reason = importlib.import_module("farandole._native").why_no_devices()
        if reason:
            facts["problems"]["gpu"] = reason
    facts["driver"] = "" if stand_in != NO_STAND_IN else driver_version()
    if not facts["problems"]:  # otherwise no test runs; PyTorch takes seconds
        look_at("torch", facts)
        look_at_cuda(facts, stand_in)
    print(json.dumps(facts))


def look_at(package: str, facts: Dict[str, Any]) -> None:
    try:
        facts["versions"][package] = str(getattr(importlib.import_module(package), "__version__", "of no version"))
    except Exception as problem:  # noqa: BLE001  # a package may fail in any way, and the table says how
        facts["problems"][package] = f"{package} cannot be imported: {problem}"


def look_at_cuda(facts: Dict[str, Any], stand_in: str) -> None:
    """Whether PyTorch sees a GPU, and the versions that it brings."""
    if "torch" in facts["problems"]:
        return
    torch = importlib.import_module("torch")
    facts["versions"]["torch"] += f", for CUDA {torch.version.cuda}" if torch.version.cuda else ", without CUDA"
    if stand_in != NO_STAND_IN:
        facts["problems"]["cuda"] = "PyTorch cannot use a stand-in driver"
    elif not torch.cuda.is_available():
        facts["problems"]["cuda"] = "PyTorch sees no GPU: torch.cuda.is_available() is False"
    else:
        facts["versions"]["torch"] += f", which sees {torch.cuda.device_count()} GPU(s)"


def driver_version() -> str:
    """That of NVIDIA's driver, from its management library or its kernel module; empty if neither tells."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(80)
        if library.nvmlInit_v2() == 0 and library.nvmlSystemGetDriverVersion(text, 80) == 0:
            return text.value.decode()
    except OSError:
        pass
    try:
        with open("/proc/driver/nvidia/version") as file:
            found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", file.read())
    except OSError:
        return ""
    return found.group() if found else ""


if __name__ == "__main__":
    main()
