"""Decisions of every distributed optimizer, trainer and tape, independent of any framework: which gradients are
reduced, how, together with which others, and after how many backward passes.
"""

from __future__ import annotations

import warnings
from typing import Any, Callable, Dict, Generic, Hashable, List, Optional, Sequence, Set, Tuple, TypeVar

from farandole.common import membership
from farandole.common.basics import HorovodBasics
from farandole.common.framework import ReducesGradients, Reduction
from farandole.common.gradient_accumulator import check_groups, check_passes
from farandole.common.process_sets import ProcessSet, global_process_set, require_registered
from farandole.common.util import num_rank_is_power_2, split_list

Key = TypeVar("Key", bound=Hashable)

_NAMES = {getattr(HorovodBasics, name): name for name in ("Average", "Sum", "Adasum", "Min", "Max", "Product")}


# ---- arguments


def scales(op: int, gradient_predivide_factor: float) -> Tuple[float, float]:
    """Prescale and postscale of a sum that is divided by the number of ranks in two parts, before and after.

    ``ValueError`` if there is a factor and ``op`` is not Average, or it is no number to divide by.
    """
    factor = gradient_predivide_factor
    if factor == 1.0:
        return 1.0, 1.0
    if op != HorovodBasics.Average:
        raise ValueError(
            f"gradient_predivide_factor not supported with op != Average: it is {factor}, op is {word(op)}"
        )
    if not factor > 0:
        raise ValueError(f"gradient_predivide_factor must be positive, not {factor}")
    return 1.0 / factor, factor


def word(op: int) -> str:
    """A reduction's name, for messages."""
    return _NAMES.get(op, repr(op))


def adds(op: int) -> bool:
    """Whether a reduction adds, so that a rank which contributes nothing may be absent from it."""
    return op in (HorovodBasics.Average, HorovodBasics.Sum, HorovodBasics.Adasum)


def require_op(op: int, offered: Sequence[int]) -> None:
    """``ValueError`` unless the reduction is one of these."""
    if op not in offered:
        raise ValueError(f"op must be {' or '.join(word(each) for each in offered)}, not {word(op)}")


def chosen_groups(num_groups: int, groups: Any, kinds: Any, stacklevel: int = 3) -> Any:
    """``groups``, or its deprecated predecessor ``num_groups``; None if neither is given.

    :param kinds: the class, or tuple of classes, of the elements of lists in ``groups``; ``ValueError`` for others
    :param stacklevel: of the warning, 3 for the caller's caller
    """
    if num_groups != 0:
        warnings.warn("num_groups is deprecated; use groups", DeprecationWarning, stacklevel=stacklevel)
        if groups is None:
            groups = num_groups
    check_groups(groups, kinds)
    return groups


def require_adasum(process_set: ProcessSet, size: int) -> None:
    """``NotImplementedError`` where Adasum cannot be computed: outside the global set, or if the number of ranks is
    not a power of two."""
    if process_set is not global_process_set:
        raise NotImplementedError("Adasum takes the global process set only")
    if not num_rank_is_power_2(size):
        raise NotImplementedError(f"Adasum needs a number of ranks that is a power of two, not {size}")


def takes_part(process_set: ProcessSet) -> bool:
    """Whether this process reduces gradients: it is a member, and there are others or, in an elastic job, may be.
    ``ValueError`` for a set that is not registered."""
    is_member = process_set.included()
    require_registered(process_set)
    if not is_member:
        return False
    return (process_set.size() or 1) > 1 or membership.is_elastic()


# ---- groups


def partition(keys: Sequence[Key], groups: Any, key_of: Callable[[Any], Optional[Key]]) -> List[List[Key]]:
    """The groups of keys that are reduced as one; every key is in one group.

    :param keys: in an order that all ranks share
    :param groups: None (each by itself), a number of groups of nearly equal size, or lists of members
    :param key_of: the key of a member of such a list; None if it has no gradient, and is left out
    """
    if groups is None:
        return [[key] for key in keys]
    if isinstance(groups, int):
        return [group for group in split_list(keys, groups) if group]
    known = set(keys)
    listed = [[key_of(member) for member in group] for group in groups]
    found = [[key for key in group if key is not None and key in known] for group in listed]
    grouped = {key for group in found for key in group}
    return [group for group in found if group] + [[key] for key in keys if key not in grouped]


# ---- backward passes


class Accumulator:
    """Adds up the gradients of several backward passes. Gradients are of any type with ``+`` and ``/``.

    :param passes: how many; ``ValueError`` unless positive
    :param average: whether to divide by their number when they are complete
    """

    def __init__(self, passes: int, average: bool = False) -> None:
        self.passes = check_passes(passes)
        self.average = average
        self.counter = 0
        self._sums: List[Any] = []

    def add(self, gradients: Sequence[Any]) -> Optional[List[Any]]:
        """Takes the gradients of one pass, in the same order each time; None where there is none.

        :returns: the sums once there were enough passes, and starts anew; before, None
        """
        if not self.counter:
            self._sums = list(gradients)
        elif len(gradients) != len(self._sums):
            raise ValueError(f"pass {self.counter + 1} has {len(gradients)} gradients, those before {len(self._sums)}")
        else:
            self._sums = [_added(before, each) for before, each in zip(self._sums, gradients)]
        self.counter += 1
        if self.counter < self.passes:
            return None
        sums, self._sums, self.counter = self._sums, [], 0
        return [each if each is None else self.averaged(each) for each in sums]

    def averaged(self, total: Any) -> Any:
        """A complete sum, as it is to be reduced."""
        return total / self.passes if self.average and self.passes > 1 else total


def _added(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return one + other


# ---- reducing


BUNDLE_BYTES = 1 << 20
"""Above this size the fixed cost of an operation is small beside that of its bytes, so it should start early."""


def bundles(keys: Sequence[Key], sizes: Sequence[int], limit: int = BUNDLE_BYTES) -> List[List[Key]]:
    """Packs gradients, in their order, into bundles of at most ``limit`` bytes; a larger gradient is a bundle alone.

    For frameworks in which each operation has a fixed cost: the first bundles start while later gradients are still
    computed, and a few bundles cost a fraction of one operation for each gradient.
    """
    made: List[List[Key]] = []
    room = 0
    for key, size in zip(keys, sizes):
        if not made or size > room:
            made.append([])
            room = limit
        made[-1].append(key)
        room -= size
    return made


class GradientReducer(Generic[Key]):
    """Reduces the gradients of one optimizer, trainer or tape, when they are all there.

    Keys tell variables apart (their references, numbers or names); they stand for the same variables on all ranks.
    """

    def __init__(
        self,
        framework: ReducesGradients,
        op: int,
        gradient_predivide_factor: float = 1.0,
        groups: Any = None,
        key_of: Callable[[Any], Any] = id,
        process_set: ProcessSet = global_process_set,
        compression: Any = None,
        sparse_as_dense: bool = False,
        scale_local_gradients: bool = True,
    ) -> None:
        self._framework = framework
        self.how = Reduction(op, *scales(op, gradient_predivide_factor), process_set, compression)
        self._groups = groups
        self._key_of = key_of
        self.sparse_as_dense = sparse_as_dense
        self.scale_local_gradients = scale_local_gradients
        self._local: Set[Key] = set()

    def register_local(self, key: Key) -> None:
        """The gradient of this variable stays on its rank."""
        self._local.add(key)

    def is_local(self, key: Key) -> bool:
        """Whether the gradient of this variable stays on its rank."""
        return key in self._local

    def reduce(self, gradients: Sequence[Any], keys: Sequence[Key], names: Sequence[str]) -> List[Any]:
        """The gradients after reduction, in their order; as they are where this process does not take part.

        None stands for no gradient, and stays. Every rank must have gradients for the same variables.
        """
        return self.reduced(gradients, keys, names) if takes_part(self.how.process_set) else list(gradients)

    def reduced(self, gradients: Sequence[Any], keys: Sequence[Key], names: Sequence[str]) -> List[Any]:
        """Like ``reduce``, but without the check whether this process takes part, which graphs make when they run."""
        result = list(gradients)
        # A variable may occur several times, each with a gradient. One without a gradient keeps its place in the
        # groups, because other ranks may have its gradient.
        places: Dict[Key, List[int]] = {key: [] for key in keys if key not in self._local}
        for index, key in enumerate(keys):
            if result[index] is None:
                continue
            if key in self._local:
                if self.scale_local_gradients:
                    result[index] = self._framework.divided_by_members(result[index], self.how.process_set)
                continue
            if self.sparse_as_dense and self._framework.is_sparse(result[index]):
                result[index] = self._framework.densified(result[index])
            places[key].append(index)
        for group in partition(list(places), self._groups, self._key_of):
            self._reduce_group(result, [index for key in group for index in places[key]], names)
        return result

    def _reduce_group(self, gradients: List[Any], indices: Sequence[int], names: Sequence[str]) -> None:
        sparse = [index for index in indices if self._framework.is_sparse(gradients[index])]
        dense = [index for index in indices if index not in sparse]
        alone = [*sparse, *dense] if len(dense) == 1 else sparse
        for index in alone:
            gradients[index] = self._framework.allreduce(gradients[index], names[index], self.how)
        if len(dense) > 1:
            together = [gradients[index] for index in dense]
            reduced = self._framework.grouped_allreduce(together, [names[index] for index in dense], self.how)
            for index, each in zip(dense, reduced):
                gradients[index] = each
