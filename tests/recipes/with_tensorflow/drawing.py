"""Draws a recipe of TensorFlow from a seed; and the features that exclude each other."""

from __future__ import annotations

from typing import Any, Callable, Dict

from draws import Draw, drawn_values, often, some
from excluding import Exclusion, default, known_options, without

from with_tensorflow.gradients import ASKED, STRUCTURES
from with_tensorflow.models import BODIES, EXTRAS
from with_tensorflow.optimizers import CHOICES, CLIPS, DECAYS
from with_tensorflow.recipe import Recipe
from with_tensorflow.resuming import RESUMES, STARTS
from with_tensorflow.seats import BY_HAND, LOSSY, TAPES, WRAPPING, is_called_in_each_pass


def instead(name: str, before: str, value: Any) -> Dict[str, Callable[[Recipe], Any]]:
    """Another value of the field, if it has one of these names."""
    return {name: lambda recipe: value if getattr(recipe, name) in before.split() else getattr(recipe, name)}


OLD = " ".join(name for name in CHOICES if name.startswith("v1."))
OF_KERAS = " ".join(name for name in CHOICES if name not in OLD.split() and name != "hand")
EXCLUSIONS = (
    Exclusion(
        "each optimizer has options of its own",
        lambda r: r.options != known_options(r, CHOICES),
        {"options": lambda r: known_options(r, CHOICES)},
    ),
    Exclusion("Keras 3 has no graphs", lambda r: r.mode == "graph", instead("optimizer", OF_KERAS, "v1.Momentum")),
    Exclusion("an old optimizer takes no variables of Keras", lambda r: r.optimizer in OLD.split(), default("norm")),
    Exclusion("neither do graphs", lambda r: r.mode == "graph", default("norm")),
    Exclusion(
        "slots, norms and averages have known shapes and types of real numbers",
        lambda r: r.optimizer != "hand" or r.average or r.clip,
        {"extras": without("extras", "complex", "half", "bfloat", "partial")},
    ),
    Exclusion("a norm has one type", lambda r: r.clip, {"extras": without("extras", "wide")}),
    Exclusion(
        "these bodies have no second derivatives",
        lambda r: {"penalty", "inner"} & {*r.asked},
        instead("body", "while scan recompute custom", "deep"),
    ),
    Exclusion(
        "an optimizer of Keras reduces and applies gradients at once",
        lambda r: r.way == "optimizer" and r.optimizer in OF_KERAS.split(),
        default("clip"),
    ),
    Exclusion(
        "by hand there is no optimizer",
        lambda r: r.optimizer == "hand",
        {**instead("way", "optimizer", "tape"), **default("second", "schedule", "scaler")},
    ),
    Exclusion("weights of a policy have float32", lambda r: r.policy, {"dtype": "float32"}),
    Exclusion("a script does not set a rate that has a schedule", lambda r: r.schedule, default("decays")),
    Exclusion(
        "only an optimizer has an inside", lambda r: r.way != "optimizer", instead("scaler", "outside", "inside")
    ),
    Exclusion(
        "old scalers scale the losses of compute_gradients(), and divide gradients by numbers of float32",
        lambda r: r.scaler and r.optimizer in OLD.split(),
        {"way": "optimizer", "dtype": "float32"},
    ),
    Exclusion(
        "Keras divides by the scale after the script has clipped; and a tape has one loss, where two scalers differ",
        lambda r: r.scaler and r.optimizer in OF_KERAS.split(),
        {**default("clip"), **instead("second", "parts", "")},
    ),
    Exclusion(
        "Keras divides no slices by a fixed scale",
        lambda r: r.scaler == "fixed" and r.optimizer in OF_KERAS.split(),
        default("embedding"),
    ),
    Exclusion(
        "a centered RMSprop of Keras 3 mixes up the rows of slices, also in one process",
        lambda r: r.embedding and r.optimizer == "RMSprop",
        {"options": without("options", "centered")},
    ),
    Exclusion("only a scale that changes skips a step", lambda r: r.scaler in ("", "fixed"), default("overflow")),
    Exclusion(
        "a scaler around the distributed optimizer counts batches",
        lambda r: r.passes > 1,
        instead("scaler", "outside", "inside"),
    ),
    Exclusion("the hook is of graphs", lambda r: r.mode != "graph", instead("start", "hook", "variables")),
    Exclusion("functions do not join", lambda r: r.mode != "eager", default("joins")),
    Exclusion(
        "an old optimizer has no variables before its first step",
        lambda r: r.optimizer in OLD.split() and r.mode != "graph",
        {**instead("resume", "root", "file"), "joins": lambda r: r.joins and not r.resume},
    ),
    Exclusion("only an average is predivided", lambda r: r.op == "Sum", {"wrapping": without("wrapping", "predivide")}),
    Exclusion(
        "allreduce() takes no complex numbers, and knows no variables",
        lambda r: r.way in BY_HAND,
        {**default("local"), "extras": without("extras", "complex")},
    ),
    Exclusion(
        "slices are gathered without factors, and neither accumulated nor joined",
        lambda r: r.embedding and ("predivide" in r.wrapping or r.passes > 1 or r.joins),
        {"wrapping": lambda r: tuple({**dict.fromkeys(r.wrapping), "as_dense": None})},
    ),
    Exclusion("several batches have other statistics", lambda r: r.passes > 1, default("norm")),
    Exclusion(
        "an inner step is that of one process if it is reduced, without loss, from the whole batch",
        lambda r: r.passes > 1 or r.way not in TAPES or {*r.wrapping} & {*LOSSY},
        {"asked": without("asked", "inner")},
    ),
    Exclusion(
        "a moving average takes no variables of Keras, and would be taken after each pass",
        lambda r: r.norm or (r.passes > 1 and r.way not in TAPES),
        default("average"),
    ),
    Exclusion(
        "the gradients of a turn are those of one call",
        lambda r: r.passes > 1 and is_called_in_each_pass(r),
        instead("second", "turns", "parts"),
    ),
    Exclusion(
        "old optimizers add up passes in graphs",
        lambda r: r.optimizer in OLD.split() and r.way == "optimizer" and r.mode != "graph",
        default("passes"),
    ),
)
SHARES = {"embedding": 0.35, "is_shared": 0.15, "norm": 0.2, "averages_passes": 0.5, "average": 0.2, "decays": 0.2}
FIELDS: Dict[str, Draw] = {
    "steps": lambda source: source.randint(2, 4),
    "mode": often(("function", "graph"), "eager", 0.6),
    "body": often(BODIES, "linear", 0.6),
    "extras": some(EXTRAS, 0.12),
    "dtype": often(("float32",), "float64", 0.25),
    "way": often(("partial", "each", "grouped", "optimizer", "optimizer"), "tape", 0.6),
    "structure": often(STRUCTURES, "list", 0.6),
    "asked": some(ASKED, 0.15),
    "wrapping": some(WRAPPING, 0.12),
    "op": often(("Sum",), "Average", 0.2),
    "passes": often((2, 3), 1, 0.3),
    "local": often(("scaled", "unscaled"), "", 0.15),
    "optimizer": often(CHOICES, "SGD", 0.9),
    "schedule": often(DECAYS, "", 0.25),
    "second": often(("parts", "turns"), "", 0.2),
    "scaler": often(("inside", "outside", "fixed"), "", 0.25),
    "overflow": often((True,), False, 0.6),
    "clip": often(CLIPS, "", 0.3),
    "start": often(STARTS, "", 0.4),
    "resume": often(RESUMES, "", 0.4),
    **{name: often((True,), False, share) for name, share in {**SHARES, "is_from_last": 0.4, "joins": 0.15}.items()},
    "policy": often(("mixed_float16", "mixed_bfloat16"), "", 0.2),
}


def drawn(seed: int) -> Recipe:
    """The recipe of a seed, whose features may exclude each other."""
    return Recipe(**drawn_values(seed, FIELDS, CHOICES))
