"""What every wrapped optimizer of Keras has, whatever the version of Keras."""

from __future__ import annotations

from typing import Any


class Distributed:
    """What every wrapped optimizer has besides what its own class has."""

    _farandole: Any

    def register_local_var(self, var: Any) -> None:
        """This variable's gradient stays this rank's own."""
        self._farandole.register_local(var)

    def _farandole_begin_anew(self) -> None:
        """Forgets what backward passes have added up: members have changed."""
        self._farandole.begin_anew()
