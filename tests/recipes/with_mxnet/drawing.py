"""Draws a recipe of MXNet from a seed; and the features that exclude each other."""

from __future__ import annotations

from typing import Dict

from draws import Draw, chosen, drawn_values, often, some
from excluding import Exclusion, default, known_options, without

from with_mxnet.models import BODIES, EXTRAS, USES
from with_mxnet.optimizers import CHOICES, IN_FLOAT32, SCHEDULERS
from with_mxnet.recipe import Recipe

WRAPPING = ((("group_1", "group_2"), 0.3), (("predivide",), 0.1), (("fp16", "bf16"), 0.05))
FIELDS: Dict[str, Draw] = {
    "steps": lambda source: source.randint(3, 5),
    "body": often(BODIES, "linear", 0.5),
    "norm": often(("layer", "layer", "batch"), "", 0.2),
    "extras": some(EXTRAS, 0.1),
    "dtype": often(("float32",), "float64", 0.2),
    "hybrid": often(("hybrid", "static"), "", 0.5),
    "frozen": often(("always", "from", "until"), "", 0.15),
    "added": often(("head", "all"), "", 0.2),
    "optimizer": often(CHOICES, "SGD", 0.8),
    "scheduler": often(SCHEDULERS, "", 0.3),
    "wrapping": lambda source: chosen(WRAPPING, source),
    "passes": often((2, 3), 1, 0.2),
    "loss": often(("rows",), "mean", 0.5),
    "clip": often(("none", "norm", "value"), "", 0.3),
    "scaler": often(("hand", "amp", "overflow"), "", 0.2),
    "resume": often(("undone", "root"), "", 0.3),
    **dict.fromkeys(("start", "remainder"), often((True,), False, 0.5)),
    **dict.fromkeys(("embedding", "deferred", "is_wrapped", "is_from_last"), often((True,), False, 0.3)),
    **dict.fromkeys(("rate", "multipliers", "second", "is_listed"), often((True,), False, 0.2)),
    **dict.fromkeys(("is_shared", "is_numpy"), often((True,), False, 0.15)),
    **dict.fromkeys(("dropout", "is_alone", "ignores"), often((True,), False, 0.05)),
}
EXCLUSIONS = (
    Exclusion("ranks that train alone drop different units", lambda r: r.is_alone, default("dropout")),
    Exclusion(
        "each optimizer has options of its own",
        lambda r: r.options != known_options(r, CHOICES),
        {"options": lambda r: known_options(r, CHOICES)},
    ),
    Exclusion(
        "MXNet makes states of these optimizers in float32",
        lambda r: r.optimizer in IN_FLOAT32,
        {"dtype": "float32", "extras": without("extras", "half", "wide")},
    ),
    Exclusion(
        "MXNet draws numbers of mx.np in float32, and its GRU does not know them",
        lambda r: r.is_numpy,
        {"dtype": "float32", "body": lambda r: "deep" if r.body == "gru" else r.body},
    ),
    Exclusion("a script does not set a rate that has a scheduler", lambda r: r.scheduler, default("rate")),
    Exclusion("they depend on the order", lambda r: r.optimizer in ("Nadam", "LBSGD"), default("is_listed")),
    Exclusion("AdaDelta divides gradients in place", lambda r: r.optimizer == "AdaDelta", default("loss")),
    Exclusion("only gradients that are added up are left over", lambda r: not r.added, default("remainder")),
    Exclusion("only such gradients have several passes", lambda r: r.passes > 1 and not r.added, {"added": "all"}),
    Exclusion("stale gradients are ignored anyway", lambda r: {*r.extras} & {*USES}, default("ignores")),
    Exclusion("only a broadcast has a root", lambda r: not r.start and r.resume != "root", default("is_from_last")),
    Exclusion(
        "MXNet's loss scaler knows one trainer, one type, and no arrays of mx.np",
        lambda r: r.scaler in ("amp", "overflow"),
        {**default("second", "is_numpy"), "extras": without("extras", "half", "wide")},
    ),
    Exclusion(
        "a distributed optimizer reduces in its update, by numbers, and without a compressor",
        lambda r: r.is_wrapped,
        {
            **default("clip", "second"),
            "wrapping": without("wrapping", "fp16", "bf16"),
            "scaler": lambda r: r.scaler if r.scaler == "hand" else "",
        },
    ),
)


def drawn(seed: int) -> Recipe:
    """The recipe of a seed, whose features may exclude each other."""
    return Recipe(**drawn_values(seed, FIELDS, CHOICES))
