"""Queries and helpers of the interface that scripts and other libraries use."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import sysconfig
import warnings
from typing import Any, Callable, Iterator, List, Optional, Sequence, TypeVar

from farandole.common import mpi
from farandole.common.exceptions import HorovodVersionMismatchError, get_version_mismatch_message

EXTENSIONS = ["tensorflow", "torch", "mxnet"]

Item = TypeVar("Item")


def get_ext_suffix() -> str:
    """The ending of native modules for this Python (".cpython-311-x86_64-linux-gnu.so")."""
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    """Where a native module of this name beside ``pkg_path`` would lie."""
    return os.path.join(os.path.dirname(pkg_path), *args[:-1], args[-1] + get_ext_suffix())


@contextlib.contextmanager
def _own_libraries_first() -> Iterator[None]:
    """Inside, loaded libraries resolve symbols in the libraries that they were linked with, before any others.

    TensorFlow exports the functions of its own OpenSSL, under the same names, to the whole process: if it was
    imported first, the native module would call those.
    """
    before = sys.getdlopenflags()
    # AddressSanitizer refuses to load anything in this way.
    if "tensorflow" in sys.modules and "asan" not in os.environ.get("LD_PRELOAD", ""):
        sys.setdlopenflags(before | os.RTLD_DEEPBIND)
    try:
        yield
    finally:
        sys.setdlopenflags(before)


def _native_problem() -> Optional[str]:
    try:
        with _own_libraries_first():
            importlib.import_module("farandole._native")
    except ImportError as problem:
        return str(problem)
    return None


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """``ImportError`` with the reason when the native module cannot be loaded."""
    problem = _native_problem()
    if problem is not None:
        raise ImportError(f"{ext_name} cannot be used: Farandole's native module does not load ({problem})")


_TO_INSTALL = {"mxnet": "mxnet==1.9.1 'numpy<1.24'", "tensorflow": "tensorflow-cpu", "lightning": "lightning torch"}
"""Arguments for ``pip install``, where they differ from the name."""


def to_install(name: str) -> str:
    """Arguments for ``pip install`` of a framework."""
    return _TO_INSTALL.get(name, name)


def require_framework(name: str, minimum: str = "", version: Optional[str] = None) -> None:
    """The first thing that a framework's package does: ``ImportError`` that says what to install where the framework
    is missing or too old, and why the native module cannot be loaded if that is so.

    :param name: the framework, as it is imported
    :param minimum: the oldest version that will do, x.y.z
    :param version: the one that is there, if its package does not say so under ``__version__``
    """
    check_extension(f"farandole.{name}", "", __file__, "_native")
    install = f"pip install {to_install(name)}"
    try:
        framework = importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name != name:
            raise
        raise ImportError(f"farandole.{name} needs {name}, which is not installed: {install}", name=name) from None
    installed = version or str(getattr(framework, "__version__", ""))
    if minimum and not is_version_greater_equal_than(installed, minimum):
        raise ImportError(
            f"farandole.{name} needs {name} {minimum} or later, and {installed or 'one that says no version'} is "
            f"installed: {install} --upgrade",
            name=name,
        )


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether a framework is installed and Farandole has a binding for it. Imports no framework."""
    if ext_base_name not in EXTENSIONS:
        return False
    problem = _native_problem()
    if problem is None and importlib.util.find_spec(ext_base_name) is None:
        problem = f"{ext_base_name} is not installed"
    if problem is None and importlib.util.find_spec(f"farandole.{ext_base_name}") is None:
        problem = f"this installation of Farandole has no package farandole.{ext_base_name}"
    if problem is not None and verbose:
        print(f"{ext_base_name}: {problem}")
    return problem is None


def _if_any_available(answer: Any) -> Any:
    return answer if any(extension_available(name) for name in EXTENSIONS) else None


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether operations run on GPUs without a way through host memory."""
    return False


def mpi_built(verbose: bool = False) -> Optional[bool]:
    """Whether MPI is built in; None when no framework can be used."""
    return _if_any_available(mpi.is_installed())


def gloo_built(verbose: bool = False) -> Optional[bool]:
    """Whether processes can be launched without MPI; None when no framework can be used."""
    return _if_any_available(True)


def nccl_built(verbose: bool = False) -> Optional[int]:
    """``hvd.nccl_built()``; None when no framework can be used."""
    from farandole.common import names

    return _if_any_available(names.nccl_built())


def ddl_built(verbose: bool = False) -> Optional[bool]:
    """Whether IBM DDL is built in; None when no framework can be used."""
    return _if_any_available(False)


def ccl_built(verbose: bool = False) -> Optional[bool]:
    """Whether oneCCL is built in; None when no framework can be used."""
    return _if_any_available(False)


@contextlib.contextmanager
def env(**kwargs: Optional[str]) -> Iterator[None]:
    """Sets environment variables for a block; those given as None are left alone."""
    before = {name: os.environ.get(name) for name, value in kwargs.items() if value is not None}
    os.environ.update({name: str(value) for name, value in kwargs.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[..., int]:
    """The rule for ``op`` and its deprecated predecessor ``average``, for an object that has Average and Sum."""

    names = {
        getattr(reduce_ops, name): name
        for name in ("Average", "Sum", "Adasum", "Min", "Max", "Product")
        if hasattr(reduce_ops, name)
    }

    def handle_average_backwards_compatibility(
        op: Optional[int], average: Optional[bool], operation: str = "allreduce"
    ) -> int:
        if average is not None and not isinstance(average, bool):
            reduction = names.get(average) if type(average) is int else None
            raise TypeError(
                f"{operation} takes True, False or None as average, not the {type(average).__name__} {average!r}; pass "
                f"a reduction by its keyword, such as op={reduction or 'Sum'}"
            )
        if op is not None:
            if average is not None:
                raise ValueError(f"{operation} takes op or average, not both; average is deprecated, so leave it out")
            return op
        if average is None:
            return int(reduce_ops.Average)
        warnings.warn("average is deprecated; use op=Average or op=Sum", DeprecationWarning, stacklevel=3)
        return int(reduce_ops.Average if average else reduce_ops.Sum)

    return handle_average_backwards_compatibility


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether a number of ranks is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(l: Sequence[Item], n: int) -> List[List[Item]]:  # noqa: E741
    """Splits a list into ``n`` chunks of nearly equal length, the larger ones first."""
    each, larger = divmod(len(l), n)
    ends = [each * (i + 1) + min(i + 1, larger) for i in range(n)]
    return [list(l[start:end]) for start, end in zip([0, *ends], ends)]


def check_installed_version(name: str, version: str, exception: Optional[BaseException] = None) -> None:
    """Warns, or raises in place of ``exception``, when a framework of another version is installed."""
    try:
        installed: Optional[str] = importlib.import_module(name).__version__
    except (ImportError, AttributeError):
        installed = None
    if installed == version:
        return
    if exception is None:
        warnings.warn(get_version_mismatch_message(name, version, installed), stacklevel=2)
    else:
        raise HorovodVersionMismatchError(name, version, installed) from exception


def is_iterable(x: object) -> bool:
    """Whether one can loop over it."""
    try:
        iter(x)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Compares versions; ``target`` must be of the form x.y.z."""
    if not isinstance(ver, str) or not isinstance(target, str):
        raise ValueError("versions are compared as text")
    wanted = target.split(".")
    if len(wanted) != 3 or not all(part.isdigit() for part in wanted):
        raise ValueError(f"the version to compare with must be of the form x.y.z: {target}")
    found: List[int] = []
    for part in ver.split("+")[0].split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        found.append(int(digits or 0))
    found += [0] * (3 - len(found))
    return found >= [int(part) for part in wanted]
