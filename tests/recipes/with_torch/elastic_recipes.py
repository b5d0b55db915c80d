"""PyTorch, with its recipes for elastic jobs."""

from __future__ import annotations

from elastic.recipes import with_events
from excluding import Exclusion, default, without

from with_torch import framework
from with_torch.models import OFTEN_UNUSED

MAKES_OBJECTS = ("new", "root", "deepcopy", "pickle")

ELASTIC = (
    Exclusion("a state keeps its objects", lambda r: r.resume in MAKES_OBJECTS, default("resume")),
    Exclusion("a sampler's state is loaded with the others", lambda r: r.is_sampled and r.resume, default("resume")),
    Exclusion("an optimizer loads only a state that has its groups", lambda r: r.added, default("added")),
    Exclusion("the state of L-BFGS is not broadcast", lambda r: r.optimizer == "LBFGS", {"optimizer": "Adam"}),
    Exclusion("rank 0 has the state that counts", lambda r: r.is_from_last, default("is_from_last")),
    Exclusion("a rank that has joined cannot commit", lambda r: r.uneven, default("uneven")),
    Exclusion(
        "a sampler gives all workers as many rows, and batch norm refuses the one row of the first of four",
        lambda r: r.is_sampled or r.norm == "batch",
        default("is_skewed"),
    ),
    Exclusion("the number of ranks is no power of two at times", lambda r: r.op == "Adasum", default("op")),
    Exclusion(
        "numbers in the state of ASGD and NAdam are of float32, and PyTorch gives them the type of the parameter when "
        "it loads them",
        lambda r: r.optimizer in ("ASGD", "NAdam"),
        {"dtype": "float32", "extras": without("extras", "complex", "mixed")},
    ),
    Exclusion(
        "groups=N communicates before the training function, which a worker that joins late must not",
        lambda r: {"group_1", "group_2"} & {*r.wrapping},
        {"wrapping": without("wrapping", "group_1", "group_2")},
    ),
    Exclusion(
        "gradients are not part of a state: one that is zero, and not None, would be missing on a worker that joins",
        lambda r: r.clear.endswith("_zeros") and (r.frozen or {*OFTEN_UNUSED} & {*r.extras}),
        default("clear"),
    ),
)


FRAMEWORK = with_events(framework.FRAMEWORK, ELASTIC, more=lambda source: {"is_sampled": source.random() < 0.3})
