"""The features of Keras' recipes that exclude each other."""

from __future__ import annotations

from excluding import Exclusion, default, known_options, without

from with_keras.callbacks import SMOOTH
from with_keras.optimizers import CHOICES
from with_keras.recipe import Recipe
from with_keras.versions import BACKEND, IS_THREE

BY_HAND = ("batches", "tape")


DIVIDES_BY_SIZE = ("Lion", "Adafactor", "Adamax", "Muon", "ScheduleFreeAdamW")
KERAS = (
    Exclusion(
        "each optimizer has options of its own",
        lambda r: r.options != known_options(r, CHOICES),
        {"options": lambda r: known_options(r, CHOICES)},
    ),
    Exclusion("a callback does not set a rate that has a schedule", lambda r: r.schedule, default("callback")),
    Exclusion(
        "only fit() has callbacks, validation and executions of several steps",
        lambda r: r.loop in BY_HAND,
        default("callback", "validates", "executions"),
    ),
    Exclusion(
        "Muon computes in float32, and steps along singular vectors, which in 16-bit types may be rounding errors",
        lambda r: r.optimizer == "Muon" and r.dtype != "float32",
        {"dtype": "float32"},
    ),
    Exclusion(
        "an elastic state builds this optimizer, which begins otherwise if Keras builds it in its first step",
        lambda r: r.optimizer == "ScheduleFreeAdamW",
        {"is_built": True},
    ),
    Exclusion(
        "the keys' bias of attention has no gradient but a rounding error, by whose size these optimizers divide",
        lambda r: r.body == "attention" and r.optimizer.rpartition(".")[2] in DIVIDES_BY_SIZE,
        {"body": "deep"},
    ),
    Exclusion(
        "a centered RMSprop of Keras 3 mixes up the rows of slices, also in one process",
        lambda r: r.embedding and r.optimizer == "RMSprop",
        {"options": without("options", "centered")},
    ),
    Exclusion("a callback sets the rate of one optimizer", lambda r: r.second, default("callback")),
    Exclusion(
        "a norm over all gradients needs one type",
        lambda r: r.clip == "global_norm",
        {"extras": without("extras", "wide")},
    ),
    Exclusion("an optimizer has one scaler", lambda r: r.dtype == "mixed_float16", default("scaler")),
    Exclusion("only a scaler skips a step", lambda r: not r.scaler, default("overflow")),
    Exclusion(
        "Keras cannot add a loss of activities in half precision",
        lambda r: r.dtype.startswith("mixed"),
        {"regularizer": lambda r: "" if r.regularizer == "activity" else r.regularizer},
    ),
    Exclusion(
        "after a layer was frozen, Keras writes averages to other variables, and an OptimizerMap lacks some",
        lambda r: r.frozen == "from",
        default("average", "second"),
    ),
)
FARANDOLE = (
    Exclusion(
        "IndexedSlices cannot be accumulated",
        lambda r: r.embedding and r.passes > 1,
        {"wrapping": lambda r: tuple({**dict.fromkeys(r.wrapping), "as_dense": None})},
    ),
    Exclusion(
        "when this optimizer is built it copies the weights, which the script broadcasts later without the copies",
        lambda r: r.optimizer == "ScheduleFreeAdamW" and r.start == "variables",
        {"start": "state"},
    ),
    Exclusion("an elastic state begins from rank 0", lambda r: r.start == "state", default("is_from_last")),
    Exclusion("only an average is predivided", lambda r: r.op == "Sum", {"wrapping": without("wrapping", "predivide")}),
    Exclusion(
        "a scaler around the distributed optimizer counts batches",
        lambda r: r.passes > 1 and (r.scaler == "outside" or r.dtype == "mixed_float16"),
        default("passes"),
    ),
    Exclusion(
        "several batches make a step: their rates, statistics and executions are not those of a large batch",
        lambda r: r.passes > 1,
        {
            **default("executions"),
            "callback": lambda r: "" if r.callback in SMOOTH else r.callback,
            "norm": lambda r: "" if r.norm in ("sync", "batch") else r.norm,
            "extras": without("extras", "resting"),
        },
    ),
    Exclusion("only several passes are averaged", lambda r: r.passes == 1, default("averages_passes")),
    Exclusion(
        "a plateau is judged by the loss, which has a factor in one process",
        lambda r: r.op == "Sum" or (r.passes > 1 and not r.averages_passes),
        {"callback": lambda r: "" if r.callback == "plateau" else r.callback},
    ),
    Exclusion(
        "load_model() gives the optimizer no options",
        lambda r: r.resume == "loaded" and (r.passes > 1 or r.op == "Sum"),
        default("resume"),
    ),
)
TENSORFLOW = (
    Exclusion(
        "these loops and layers are of TensorFlow",
        lambda r: True,
        {
            "loop": lambda r: "fit" if r.loop in ("train_step", "tape") else r.loop,
            "norm": lambda r: "" if r.norm == "sync" else r.norm,
        },
    ),
)
OF_BACKENDS = {
    "tensorflow": (),
    "torch": (*TENSORFLOW, Exclusion("PyTorch executes single steps", lambda r: True, default("executions"))),
    "jax": (
        *TENSORFLOW,
        Exclusion(
            "on JAX an optimizer keeps the list of its variables",
            lambda r: True,
            {"frozen": lambda r: "" if r.frozen == "from" else r.frozen},
        ),
        Exclusion("on JAX several passes have no scaler inside", lambda r: r.passes > 1, default("scaler")),
    ),
}
KERAS2 = (
    Exclusion("only Keras 3 has these", lambda r: True, default("second", "accumulated")),
    Exclusion("legacy optimizers average no weights", lambda r: r.optimizer.startswith("legacy"), default("average")),
    Exclusion("this optimizer takes no schedule", lambda r: r.optimizer == "legacy.Nadam", default("schedule")),
    Exclusion(
        "a distributed legacy optimizer has state for all variables, a plain one only for those with gradients",
        lambda r: r.optimizer.startswith("legacy") and "unused" in r.extras,
        {"is_built": True, "resume": lambda r: "" if r.resume == "loaded" else r.resume},
    ),
)
EXCLUSIONS = (*KERAS, *FARANDOLE, *(OF_BACKENDS[BACKEND] if IS_THREE else KERAS2))


def suited(recipe: Recipe, size: int) -> Recipe:
    """The recipe for this number of ranks."""
    return recipe
