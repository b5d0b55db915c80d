"""State of a framework's variables, which training writes to in place, beside plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, Sequence

from farandole.common import job
from farandole.common.elastic.references import OwnValues
from farandole.common.elastic.state import ObjectState
from farandole.common.objects import broadcast_object
from farandole.common.parameters import broadcast_named

if TYPE_CHECKING:
    from farandole.common.framework import HoldsArrays


class VariablesState(ObjectState):
    """Keeps copies of variables as arrays in host memory; each keyword becomes an attribute that is kept too.

    The constructor makes the first copy, and does not communicate. A derived class lists its variables in
    ``_variables()``, which must work before it calls this constructor; their number and order are the same on all
    ranks, and must not change. If the variables cannot be read and written one by one, the derived class overrides
    ``_read``, ``_write`` and ``_broadcast``.

    :param holds: reads and writes one variable
    :param name: of the broadcasts
    :param bcast_object: broadcasts plain values
    """

    def __init__(
        self,
        holds: HoldsArrays,
        name: str = "state",
        bcast_object: Callable[[Any], Any] = broadcast_object,
        **kwargs: Any,
    ) -> None:
        self._holds = holds
        self._name = name
        super().__init__(bcast_object=bcast_object, get_rank=lambda: job.where().rank, **kwargs)
        self._kept = self._read()

    def _variables(self) -> Sequence[Any]:
        raise NotImplementedError

    def _shared_variables(self) -> Sequence[Any]:
        """Those of the variables that all ranks get from rank 0."""
        return self._variables()

    def _read(self) -> List[Any]:
        import numpy

        return [numpy.array(self._holds.to_numpy(each)) for each in self._variables()]

    def _write(self, values: List[Any]) -> None:
        for variable, value in zip(self._variables(), values):
            self._holds.assign(variable, value)

    def _broadcast(self) -> None:
        named = [(f"{self._name}.{number}", each) for number, each in enumerate(self._shared_variables())]
        broadcast_named(self._holds, named, root_rank=0)

    def _own_values(self) -> OwnValues:
        return dict(enumerate(self._variables()))

    def save(self) -> None:
        """Keeps copies of the variables and the values."""
        self._wait_for_devices()
        self._kept = self._read()
        super().save()

    def restore(self) -> None:
        """Puts the copies back."""
        self._write(self._kept)
        super().restore()

    def sync(self) -> None:
        """Gives rank 0's variables and values to all. If a member is lost meanwhile, the previous saved copy stays
        complete."""
        self._broadcast()
        super().sync()
        self._kept = self._read()
