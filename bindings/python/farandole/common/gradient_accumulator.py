"""Tracks gradients: how many backward passes each still waits for, and which are due to be reduced.

Keys are any hashable values that identify parameters; this module is independent of frameworks. Members of a group
become due together, when the last of them has had its passes.
"""

from __future__ import annotations

from typing import Dict, Generic, Hashable, Iterable, List, Optional, Sequence, Set, TypeVar

Key = TypeVar("Key", bound=Hashable)

TOO_MANY_PASSES = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). "
    "Increase backward_passes_per_step to accumulate gradients locally."
)


class GradientAccumulator(Generic[Key]):
    """Counts the backward passes of one optimizer, parameter by parameter."""

    def __init__(self, passes: int, groups: Optional[Iterable[Sequence[Key]]] = None) -> None:
        self._passes = check_passes(passes)
        self._remaining: Dict[Key, int] = {}
        self._group_of: Dict[Key, Sequence[Key]] = {}
        self._handed_out: Set[Key] = set()
        for group in groups or []:
            for key in group:
                self._group_of[key] = group

    def open(self, key: Key) -> None:
        """Takes a parameter into account."""
        self._remaining[key] = self._passes
        self._group_of.setdefault(key, (key,))

    def arrived(self, key: Key) -> Sequence[Key]:
        """Records that a backward pass has added to this gradient. Returns the keys that are due now: none, this key
        or its group."""
        remaining = self._remaining[key] - 1
        if remaining < 0:
            raise AssertionError(TOO_MANY_PASSES)
        self._remaining[key] = remaining
        if remaining:
            return ()
        group = self._group_of[key]
        if len(group) > 1 and any(self._remaining.get(member, 0) for member in group):
            return ()
        self._handed_out.update(group)
        return group

    def discard(self, key: Key) -> None:
        """The gradient was cleared before all its passes were complete: it waits for them anew."""
        if key not in self._handed_out:
            self._remaining[key] = self._passes

    def is_handed_out(self, key: Key) -> bool:
        """Whether the gradient was returned as due, and has not been reduced yet."""
        return key in self._handed_out

    def waits(self, key: Key) -> bool:
        """Whether no backward pass has added to this gradient since it was reduced."""
        return self._remaining[key] == self._passes

    def overdue(self) -> List[Sequence[Key]]:
        """The keys that have not been handed out, group by group; they count as handed out from now on."""
        left: List[Sequence[Key]] = []
        for key in self._remaining:
            if key not in self._handed_out:
                group = self._group_of[key]
                left.append(group)
                self._handed_out.update(group)
        return left

    def settle(self) -> None:
        """All that was handed out has been reduced: every gradient waits for its passes anew."""
        self._handed_out.clear()
        for key in self._remaining:
            self._remaining[key] = self._passes

    def set_passes(self, passes: int) -> None:
        """Changes the number of passes, and starts anew."""
        self._passes = check_passes(passes)
        self.settle()


def check_passes(passes: int) -> int:
    """``ValueError`` unless it is a number of passes."""
    if passes <= 0:
        raise ValueError(f"backward_passes_per_step must be > 0, not {passes}")
    return passes


def check_groups(groups: object, is_tensor: type) -> None:
    """``ValueError`` unless ``groups`` is None, a positive number or lists of distinct tensors."""
    if groups is None:
        return
    if isinstance(groups, bool) or not isinstance(groups, (int, list)):
        raise ValueError("groups should be a positive integer, or a list of lists of tensors")
    if isinstance(groups, int):
        if groups <= 0:
            raise ValueError(f"groups should be a positive integer, not {groups}")
        return
    seen: Set[int] = set()
    for group in groups:
        if not isinstance(group, (list, tuple)) or not all(isinstance(each, is_tensor) for each in group):
            raise ValueError("groups should be lists of tensors")
        for each in group:
            if id(each) in seen:
                raise ValueError("a parameter appears more than once in groups")
            seen.add(id(each))
