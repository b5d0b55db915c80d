"""JAX, with its recipes for elastic jobs."""

from __future__ import annotations

from elastic.recipes import with_events
from excluding import Exclusion, default

from with_jax import framework

ELASTIC = (
    Exclusion("a state makes all equal", lambda r: r.start not in ("", "state"), {"start": "state"}),
    Exclusion("a state undoes steps", lambda r: r.resume, default("resume")),
    Exclusion(
        "the root's sums of gradients are not those of all",
        lambda r: r.accumulated == "outside",
        {"accumulated": "inside"},
    ),
)
FRAMEWORK = with_events(framework.FRAMEWORK, ELASTIC)
