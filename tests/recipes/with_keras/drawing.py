"""Draws a recipe of Keras from a seed."""

from __future__ import annotations

from typing import Dict

from draws import Draw, drawn_values, often, some

from with_keras.callbacks import RATES
from with_keras.models import BODIES, CONSTRAINTS, EXTRAS
from with_keras.optimizers import AVERAGES, CHOICES, CLIPS, SCHEDULES
from with_keras.recipe import Recipe
from with_keras.resuming import RESUMES

WRAPPING = (
    (("named",), 0.1),
    (("partial", "group_1", "group_2"), 0.3),
    (("predivide",), 0.1),
    (("as_dense",), 0.2),
    (("fp16",), 0.05),
)
FIELDS: Dict[str, Draw] = {
    "steps": lambda source: source.randint(2, 3),
    "body": often(BODIES, "linear", 0.5),
    "embedding": often((True,), False, 0.3),
    "norm": often(("layer", "group", "sync", "sync", "batch"), "", 0.3),
    "extras": some(EXTRAS, 0.1),
    "is_shared": often((True,), False, 0.15),
    "dropout": often((True,), False, 0.03),
    "regularizer": often(("weights", "activity"), "", 0.2),
    "constraint": often(CONSTRAINTS, "", 0.15),
    "dtype": often(("float32", "float32", "mixed_float16", "mixed_bfloat16"), "float64", 0.25),
    "frozen": often(("always", "from"), "", 0.15),
    "optimizer": often(CHOICES, "SGD", 0.8),
    "schedule": often(SCHEDULES, "", 0.3),
    "clip": often(CLIPS, "", 0.3),
    "average": often(AVERAGES, "", 0.2),
    "accumulated": often((2, 3), 1, 0.12),
    "is_built": often((True,), False, 0.7),
    "second": often((True,), False, 0.08),
    "scaler": often(("inside", "outside"), "", 0.2),
    "overflow": often((True,), False, 0.5),
    "op": often(("Sum",), "Average", 0.1),
    "passes": often((2, 3), 1, 0.25),
    "averages_passes": often((True,), False, 0.5),
    "start": often(("variables", "state"), "", 0.4),
    "is_from_last": often((True,), False, 0.15),
    "loop": often(("eager", "eager", "eager", "train_step", "batches", "tape"), "fit", 0.75),
    "callback": often(RATES, "", 0.5),
    "loss": often(("huber", "categorical_crossentropy"), "mse", 0.4),
    "validates": often((True,), False, 0.1),
    "executions": often((2,), 1, 0.08),
    "resume": often(RESUMES, "", 0.35),
}


def drawn(seed: int) -> Recipe:
    """The recipe of a seed, whose features may exclude each other."""
    return Recipe(**drawn_values(seed, FIELDS, CHOICES, WRAPPING))
