"""Reductions that a graph runs only under a condition."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

from farandole.tensorflow.kernels import tf

Conditions = Dict[int, Any]
"""Whether some rank has the gradient of a variable in this step, as a tensor of one boolean, by the ``id`` of the
backend's own variable."""


def reduced_if(
    condition: Any,
    reduce: Callable[[Optional[Conditions]], List[Any]],
    unreduced: Callable[[], List[Any]],
    variables: Sequence[Any],
    conditions: Optional[Conditions],
) -> List[Any]:
    """The gradients that ``reduce`` makes where the condition holds when the graph runs, and ``unreduced`` elsewhere.

    :param conditions: gets the entries that ``reduce`` adds to its argument. They are false where nothing is reduced.
    """
    there: List[int] = []
    found: Conditions = {}

    def reduced() -> Any:
        made = reduce(None if conditions is None else found)
        there.extend(place for place, each in enumerate(made) if each is not None)
        return [copied(made[place]) for place in there], list(found.values())

    def kept() -> Any:  # traced after the other branch
        own = unreduced()
        made = [
            tf.zeros(variables[place].shape, variables[place].dtype) if own[place] is None else copied(own[place])
            for place in there
        ]
        return made, [tf.constant(False) for _ in found]

    chosen, flags = tf.cond(condition, reduced, kept)
    result: List[Any] = [None] * len(variables)
    for place, each in zip(there, chosen):
        result[place] = each
    if conditions is not None:
        conditions.update(zip(found, flags))
    return result


def copied(gradient: Any) -> Any:
    """A new tensor, or new slices, with the same values."""
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.identity(gradient)
    shape = gradient.dense_shape
    return tf.IndexedSlices(
        tf.identity(gradient.values), tf.identity(gradient.indices), None if shape is None else tf.identity(shape)
    )
