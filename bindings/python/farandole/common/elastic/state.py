"""State that can be saved, put back and brought to all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List

from farandole.common import job, membership
from farandole.common.elastic import events, references, set_faults
from farandole.common.elastic.host_messages import HostMessages
from farandole.common.exceptions import HostsUpdatedInterrupt
from farandole.common.membership import Change


class State:
    """The training state, which must be equal on all ranks after members have changed."""

    _completed_steps = 0
    """Number of times that training has reached a commit or ``check_host_updates``; the elastic loop detects progress
    by it."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: List[Callable[[], None]] = []
        self._host_messages = HostMessages()
        self._last_updated_timestamp: float = 0
        """The time of the newest change that a commit or ``check_host_updates`` has seen."""
        self._interrupted_for = 0

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Adds functions that are called, in order, after members have changed."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Members have changed: discards the messages of that change, then calls ``reset`` and the callbacks."""
        self._host_messages = HostMessages()
        self._interrupted_for = 0
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Records that hosts have joined or left, for ``check_host_updates``. May be called from any thread."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves the state, and looks whether hosts have joined or left."""
        if set_faults.may_happen() or self._depends_on_other_devices():
            # The members of a set that has failed go back to the previous commit, so it must not be overwritten yet.
            agreed = self._agreed()
            self._keep()
        else:
            self._keep()
            agreed = self._agreed()
        set_faults.committed()
        self._interrupt_for(agreed)

    def _depends_on_other_devices(self) -> bool:
        """Whether NCCL has moved tensors. If another rank has then given up and aborted NCCL's work, that of this rank
        may have ended with wrong values and no error. A rank that has given up does not come to ``_agreed``."""
        self._wait_for_devices()
        return bool(job.runtime.counters()["by_nccl"])

    def _keep(self) -> None:
        self.save()
        self._completed_steps += 1
        membership.committed()
        events.tell("commit", self)

    def check_host_updates(self) -> None:
        """Raises ``HostsUpdatedInterrupt`` on all ranks if any of them has heard that members are to join or leave.

        Collective in an elastic job. Each change interrupts once, however close together they come. A change is a
        commit, too: members that join get the saved state, so it must not be older than the training.
        """
        agreed = self._agreed()
        if self._is_news(agreed):
            self._keep()
            set_faults.committed()
        else:
            self._completed_steps += 1
        self._interrupt_for(agreed)

    def _agreed(self) -> Change:
        self._last_updated_timestamp = max([self._last_updated_timestamp, *self._host_messages.take()])
        return set_faults.agreed(self._host_messages.change())

    def _is_news(self, agreed: Change) -> bool:
        """Whether there are changes for which no exception has been raised yet."""
        return agreed.changes > self._interrupted_for

    def _interrupt_for(self, agreed: Change) -> None:
        if self._is_news(agreed):
            self._interrupted_for = agreed.changes
            raise HostsUpdatedInterrupt(agreed.removals_only)

    def save(self) -> None:
        """Keeps a copy of the state. Subclasses first call ``_wait_for_devices``."""
        raise NotImplementedError

    @staticmethod
    def _wait_for_devices() -> None:
        """Raises the error of an operation on GPU tensors that has failed after its caller went on. The state may
        depend on its result, and must not replace the copy."""
        job.runtime.wait_for_devices()

    def restore(self) -> None:
        """Puts the copy back."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives rank 0's state to all."""
        raise NotImplementedError

    def reset(self) -> None:
        """Called when members have changed, before the callbacks."""


_ATOMS = (type(None), bool, int, float, complex, str, bytes)


def _copied(value: Any, share: Callable[[Any], Any]) -> Any:
    """Containers and arrays are copied, so that changes in place can be taken back; all else is what ``share`` makes
    of it."""
    if type(value) in _ATOMS:
        return value
    if type(value) is dict:
        return {key: _copied(each, share) for key, each in value.items()}
    if type(value) is list:
        return [_copied(each, share) for each in value]
    if type(value) in (set, bytearray):
        return value.copy()
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        return value.copy()
    return share(value)


class ObjectState(State):
    """State made of plain Python values: each keyword becomes an attribute."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        self._saved_state: Dict[str, Any] = kwargs
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)
        for name, value in kwargs.items():  # objects are those of the caller until they are restored
            setattr(self, name, _copied(value, lambda shared: shared))
        self._saved_state = _copied(kwargs, self._copier())

    def save(self) -> None:
        """Keeps a copy of the attributes."""
        self._wait_for_devices()
        copier = self._copier()
        self._saved_state = {name: _copied(getattr(self, name), copier) for name in self._saved_state}

    def restore(self) -> None:
        """Puts the copy back."""
        self._set_attrs()

    def sync(self) -> None:
        """Gives the saved values of rank 0 to all."""
        if self._saved_state:
            own = self._own_values()
            sent = {name: references.with_references(each, own) for name, each in self._saved_state.items()}
            received = self._bcast_object(sent)
            self._saved_state = {name: references.with_own_values(each, own) for name, each in received.items()}
            self._set_attrs()

    def _set_attrs(self) -> None:
        copier = self._copier()
        for name, value in self._saved_state.items():
            setattr(self, name, _copied(value, copier))

    def _copier(self) -> Callable[[Any], Any]:
        """Makes deep copies; what cannot be copied is shared."""
        own = self._own_values()

        def copied(value: Any) -> Any:
            try:
                return references.copied(value, own)
            except Exception:
                return value

        return copied

    def _own_values(self) -> references.OwnValues:
        """Values that are saved in another way, by labels that are the same on all ranks. Copies refer to them."""
        return {}
