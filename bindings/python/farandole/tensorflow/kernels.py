"""Loads the TensorFlow operations of this package, once, before its other modules.

The operations are in a shared object that is built without TensorFlow and finds TensorFlow's C interface in the
process.
"""

from __future__ import annotations

import ctypes
import logging
from typing import Any

from farandole.common.util import require_framework

OLDEST = "2.13.0"
"""The first TensorFlow whose C interface offers asynchronous kernels."""

require_framework("tensorflow", OLDEST)

import tensorflow as tf  # noqa: E402  (after the check, whose error says what to install)

from farandole import xla as _xla  # noqa: E402
from farandole.common import kernels as _kernels  # noqa: E402
from farandole.tensorflow.errors import translating as _translating  # noqa: E402

COLLECTIVES = frozenset(
    {
        "HorovodAllreduce",
        "HorovodAbsentAllreduce",
        "HorovodGroupedAllreduce",
        "HorovodAllgather",
        "HorovodGroupedAllgather",
        "HorovodBroadcast",
        "HorovodAlltoall",
        "HorovodReducescatter",
        "HorovodGroupedReducescatter",
    }
)

_log = logging.getLogger("farandole.tensorflow")


def run_side_by_side(rules: Any) -> bool:
    """Lets independent collectives of one ``tf.function`` run at the same time. Returns whether that succeeded.

    Collectives are stateful operations, so that no optimisation merges or drops them. TensorFlow runs stateful
    operations one after another, except those in a private table of ``rules``. Without this table collectives wait
    for each other, which is slower, and still correct if all ranks trace them in the same order.
    """
    known = getattr(rules, "MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS", None)
    if not isinstance(known, frozenset):
        return False
    rules.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS = known | COLLECTIVES
    return True


class _Operations:
    """The functions that TensorFlow generated for the operations, wrapped to raise the exceptions of ``errors``."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def __getattr__(self, name: str) -> Any:
        # TensorFlow makes its functions from text, of which AutoGraph finds no source; nothing in them needs it.
        function = tf.autograph.experimental.do_not_convert(_translating(getattr(self._made, name)))
        setattr(self, name, function)
        return function


def _load() -> Any:
    # TensorFlow must be the first to load the shared object, or it misses the operations that the object registers.
    operations = tf.load_op_library(_kernels.path_of("tensorflow"))
    library = _kernels.connect("tensorflow")
    library.farandole_tensorflow_problem.restype = ctypes.c_char_p
    problem = library.farandole_tensorflow_problem().decode()
    if problem:
        raise ImportError(f"Farandole's operations cannot be registered with TensorFlow: {problem}")
    try:
        from tensorflow.python.framework import auto_control_deps as rules
    except ImportError:
        rules = None
    if not run_side_by_side(rules):
        _log.warning("TensorFlow %s runs the collectives of one function one after another", tf.__version__)
    if _xla.is_wanted():
        _xla.load(tf)
    return operations


raw = _Operations(_load())
