"""Draws a recipe of PyTorch from a seed."""

from __future__ import annotations

import random
from typing import Dict, Tuple

from draws import Draw, drawn_values, often, some

from with_torch.hooks import HOOKS
from with_torch.loop import CLEARING, CLIPS, LOSSES
from with_torch.models import EXTRAS, OFTEN_UNUSED
from with_torch.optimizers import CHOICES
from with_torch.recipe import Recipe
from with_torch.resuming import RESUMES
from with_torch.schedulers import SCHEDULERS
from with_torch.seats import LOSSY


def extras(source: random.Random) -> Tuple[str, ...]:
    return tuple(each for each in EXTRAS if source.random() < (0.12 if each in OFTEN_UNUSED else 0.06))


def order(source: random.Random) -> Tuple[str, ...]:
    events = ["wrap", "broadcast", "schedule"]
    source.shuffle(events)
    return tuple(events)


WRAPPING = (
    (("unnamed", "pairs"), 0.2),
    (("group_1", "group_2", "group_lists"), 0.3),
    (("predivide",), 0.1),
    (("as_dense",), 0.2),
    (("custom", "measured", *LOSSY), 0.2),
)
FIELDS: Dict[str, Draw] = {
    "steps": lambda source: source.randint(3, 5),
    "body": often(("deep", "conv", "gru", "attention"), "linear", 0.5),
    "embedding": often(("dense", "sparse"), "", 0.3),
    "norm": often(("layer", "group", "sync", "sync", "batch"), "", 0.3),
    "extras": extras,
    "is_shared": often((True,), False, 0.15),
    "dropout": often((True,), False, 0.03),
    "checkpoint": often(("reentrant", "plain"), "", 0.15),
    "dtype": often(("float32", "float32", "bfloat16", "float16"), "float64", 0.2),
    "layout": often(("channels_last", "transposed"), "", 0.1),
    "compiled": often(("model-eager", "model-aot_eager", "pass-eager"), "", 0.02),
    "optimizer": often(CHOICES, "SGD", 0.8),
    "groups": often((2, 3), 1, 0.3),
    "added": often((True,), False, 0.08),
    "frozen": often(("always", "until", "from"), "", 0.15),
    "second": often(("parts", "turns"), "", 0.15),
    "op": often(("Sum", "Adasum"), "Average", 0.15),
    "passes": often((2, 3), 1, 0.25),
    "remainder": often(("dropped", "stepped"), "", 0.5),
    "order": order,
    "is_from_last": often((True,), False, 0.15),
    "scheduler": often(SCHEDULERS, "", 0.4),
    "clear": often(CLEARING, "optimizer", 0.5),
    "is_cleared_last": often((True,), False, 0.3),
    "loss": often(LOSSES, "square", 0.5),
    "clip": often(tuple(filter(None, CLIPS)), "", 0.25),
    "scaler": often(("plain", "overflow"), "", 0.12),
    "is_autocast": often((True,), False, 0.05),
    "closure": often((True,), False, 0.1),
    "synchronize": often((True,), False, 0.15),
    "create_graph": often((True,), False, 0.05),
    "backward": often(("inputs", "grad"), "", 0.12),
    "penalty": often(("weights", "slope"), "", 0.15),
    "hooks": some(HOOKS, 0.05),
    "evaluates": often((True,), False, 0.1),
    "average": often(("ema", "swa"), "", 0.1),
    "resume": often(RESUMES, "", 0.3),
    "uneven": often((1, 2, 3), 0, 0.1),
    "is_skewed": often((True,), False, 0.1),
}


def drawn(seed: int) -> Recipe:
    """The recipe of a seed, whose features may exclude each other."""
    return Recipe(**drawn_values(seed, FIELDS, CHOICES, WRAPPING))
