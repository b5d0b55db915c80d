"""The base of all wrapped Keras optimizers, shared by all versions of Keras."""

from __future__ import annotations

from typing import Any


class Distributed:
    """The members that every wrapped optimizer has in addition to those of its own class."""

    _farandole: Any

    def register_local_var(self, var: Any) -> None:
        """Excludes this variable's gradient from reduction: each rank keeps its own."""
        self._farandole.register_local(var)

    def _farandole_begin_anew(self) -> None:
        """Discards the gradients that backward passes have accumulated."""
        self._farandole.begin_anew()
