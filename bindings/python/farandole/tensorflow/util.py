"""Small helpers that scripts and other libraries use."""

from __future__ import annotations

from typing import Any

from farandole.tensorflow.kernels import tf


def _executing_eagerly() -> bool:
    """Whether operations run right away, and no graph is being made."""
    return bool(tf.executing_eagerly())


class _Reference:
    """Stands for a variable that can be no key itself; equal to all others that stand for the same."""

    def __init__(self, variable: Any) -> None:
        self._variable = variable

    def deref(self) -> Any:
        """The variable."""
        return self._variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reference) and self._variable is other._variable

    def __hash__(self) -> int:
        return id(self._variable)


def reference(variable: Any) -> Any:
    """What can stand for a variable in sets and as a key; ``deref()`` gives the variable back."""
    return variable.ref() if hasattr(variable, "ref") else _Reference(variable)


def vars_to_refs(vars: Any) -> Any:
    """Variables, in lists or tuples of any depth, as tuples of what can be a key."""
    if isinstance(vars, (list, tuple)):
        return tuple(vars_to_refs(each) for each in vars)
    return reference(vars)


def refs_to_vars(refs: Any) -> Any:
    """The reverse of ``vars_to_refs``; lists become tuples."""
    if isinstance(refs, (list, tuple)):
        return tuple(refs_to_vars(each) for each in refs)
    return refs.deref()
