"""Small helpers, which scripts and other libraries use too."""

from __future__ import annotations

from typing import Any

from farandole.tensorflow.kernels import tf


def _executing_eagerly() -> bool:
    """Whether operations run eagerly, so that no graph is being built."""
    return bool(tf.executing_eagerly())


class _Reference:
    """A hashable reference to a variable that is not hashable; two references to the same variable are equal."""

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
    """A hashable reference to a variable, for sets and dictionaries; ``deref()`` returns the variable."""
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
