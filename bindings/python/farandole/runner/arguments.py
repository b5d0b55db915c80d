"""The arguments of a launch as an object, for ``run()`` and for tools that fill one themselves."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Callable, Iterable, List, Optional, Sequence


class _HorovodArgs:
    """The options of a launch: an attribute for each option of ``horovodrun``, None if it is not given."""

    def __init__(self) -> None:
        from farandole.runner.launch_options import OPTIONS

        for option in OPTIONS:
            setattr(self, option.dest, None)
        self.num_proc = 1
        self.command: Optional[List[str]] = None
        self.run_func: Optional[Callable[[], Any]] = None
        """A function that is run in place of a command."""
        self.nics: Optional[Iterable[str]] = None
        self.nic: Optional[str] = None
        self.executable: Optional[str] = None
        """The interpreter of the workers; None: that of the caller."""

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no attribute {name}; the options of horovodrun are its names")


def arguments_of(
    num_proc: int,
    min_num_proc: Optional[int],
    max_num_proc: Optional[int],
    network_interface: Optional[str],
    network_interfaces: Optional[Sequence[str]],
    deprecated: Sequence[Any],
    **options: Any,
) -> _HorovodArgs:
    """An object with the arguments of ``run()``.

    :param deprecated: the values of np, min_np and max_np
    """
    if options["hosts"] is not None and options["hostfile"] is not None:
        raise ValueError("hosts and hostfile exclude each other: run() was given both; leave one of them out")
    if options["use_gloo"] and options["use_mpi"]:
        raise ValueError("use_gloo and use_mpi exclude each other: run() was given both; leave one of them out")
    arguments = _HorovodArgs()
    counts = {"num_proc": num_proc, "min_num_proc": min_num_proc, "max_num_proc": max_num_proc}
    for (name, value), old_name, old_value in zip(counts.items(), ("np", "min_np", "max_np"), deprecated):
        if old_value is not None:
            _warn(f"{old_name} is deprecated; use {name}")
            value = old_value
        setattr(arguments, name, value)
    if network_interface:
        _warn("network_interface is deprecated; use network_interfaces, which is a list")
        arguments.nics = {each for each in network_interface.split(",") if each}
    elif network_interfaces:
        names = network_interfaces.split(",") if isinstance(network_interfaces, str) else network_interfaces
        arguments.nics = set(names)
    for name, value in options.items():
        setattr(arguments, name, value)
    return arguments


def _warn(text: str) -> None:
    # The caller of run().
    warnings.warn(text, DeprecationWarning, stacklevel=4)
