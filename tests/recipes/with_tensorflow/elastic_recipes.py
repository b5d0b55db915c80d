"""TensorFlow, with its recipes for elastic jobs."""

from __future__ import annotations

from elastic.recipes import with_events
from excluding import Exclusion, default

from with_tensorflow import framework
from with_tensorflow.drawing import OLD, instead

ELASTIC = (
    Exclusion("a state makes all equal", lambda r: r.start not in ("", "state"), {"start": "state"}),
    Exclusion("rank 0 has the state that counts", lambda r: r.is_from_last, default("is_from_last")),
    Exclusion("a state undoes steps, and all ranks have batches", lambda r: True, default("resume", "joins")),
    Exclusion("a number that may change divides this gradient", lambda r: r.local == "scaled", {"local": "unscaled"}),
    Exclusion("Nadam hides a variable", lambda r: True, instead("optimizer", "Nadam", "Adam")),
    Exclusion(
        "a state takes variables that exist",
        lambda r: r.mode != "graph",
        {**default("average"), **instead("optimizer", OLD, "SGD")},
    ),
)
FRAMEWORK = with_events(framework.FRAMEWORK, ELASTIC)
