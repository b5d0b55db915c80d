"""Pickles functions and values by cloudpickle, and says which part of a value cannot be pickled, and why."""

from __future__ import annotations

import pickle
from typing import IO, Any, Callable, Iterator, List, Optional, Tuple

from farandole.runner.functions import messages

_PLAIN = (type(None), bool, int, float, str, bytes)
"""Types of which both picklers make the same bytes."""
_MOST_PARTS = 1000
"""Parts of one value that are looked at."""
_MOST_LEVELS = 20


class CannotPickle(pickle.PicklingError):
    """A value cannot be sent; the message names its part and the reason."""


def dump(value: Any, stream: IO[bytes], name: str) -> None:
    """Writes the value to a stream; ``CannotPickle`` names the part of ``name`` that cannot be pickled."""
    if type(value) in _PLAIN:
        pickle.dump(value, stream, protocol=pickle.HIGHEST_PROTOCOL)  # several times as fast
        return
    import cloudpickle

    try:
        cloudpickle.dump(value, stream, protocol=pickle.HIGHEST_PROTOCOL)
    except OSError:  # of the stream
        raise
    except Exception as problem:
        raise CannotPickle(_explanation(value, name, problem)) from None


def pieces_of(value: Any, name: str) -> List[bytes]:
    """The pickled value in pieces."""
    pieces: List[bytes] = []
    stream = messages.writer(pieces.append)
    dump(value, stream, name)
    stream.flush()
    return pieces


def load(stream: IO[bytes]) -> Any:
    """Reads a value."""
    return pickle.load(stream)


def load_pieces(take: Callable[[], Optional[bytes]], count: int) -> Any:
    """Reads a value from its pieces.

    :param take: returns the next piece, and None after the last one
    :param count: of the pieces
    """
    return pickle.loads(take() or b"") if count == 1 else load(messages.reader(take))


def _explanation(value: Any, name: str, problem: Exception) -> str:
    for _ in range(_MOST_LEVELS):
        culprit = next(((part, each, why) for part, each in _parts(value) for why in _problems(each)), None)
        if culprit is None:
            break
        part, value, problem = culprit
        name += part
    kind = type(value)
    return f"{name} ({kind.__module__}.{kind.__qualname__}) cannot be pickled: {type(problem).__name__}: {problem}"


class _Discarded:
    """A stream that drops written bytes."""

    def write(self, data: Any) -> int:
        return len(data)


def _problems(value: Any) -> Iterator[Exception]:
    """Yields the reason why the value cannot be pickled; nothing if it can be."""
    import cloudpickle

    try:
        cloudpickle.dump(value, _Discarded(), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as problem:
        yield problem


def _parts(value: Any) -> Iterator[Tuple[str, Any]]:
    """The first parts of a value, each with the text that selects it."""
    for count, part in enumerate(_all_parts(value)):
        if count == _MOST_PARTS:
            return
        yield part


def _all_parts(value: Any) -> Iterator[Tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield f"[{key!r}]", each
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield f"[{index}]", each
    elif isinstance(value, (set, frozenset)):
        for each in value:
            yield " (an element)", each
    elif hasattr(value, "__func__"):  # a method also has the attributes of its function
        yield ".__self__", value.__self__
    elif hasattr(value, "__code__"):
        yield from _parts_of_function(value)
    else:
        for key, each in getattr(value, "__dict__", {}).items():
            yield f".{key}", each


def _parts_of_function(function: Any) -> Iterator[Tuple[str, Any]]:
    """The variables that a function uses, and its defaults."""
    code = function.__code__
    for variable, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            yield f": its variable {variable}", cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    for variable in code.co_names:
        if variable in function.__globals__:
            yield f": the global variable {variable}", function.__globals__[variable]
    for index, each in enumerate(function.__defaults__ or ()):
        yield f": its default value {index}", each
