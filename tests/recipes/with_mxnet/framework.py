"""MXNet, as the player and its workers see it."""

from __future__ import annotations

import os

from frameworks import Framework
from mxnet.contrib import amp

from with_mxnet.drawing import EXCLUSIONS, drawn
from with_mxnet.recipe import Recipe
from with_mxnet.seats import OneProcess, Rank
from with_mxnet.snapshots import RULES
from with_mxnet.training import play


def prepare() -> None:
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    # Loss scaling without amp.init(), which would make all operators compute in halves.
    amp.amp._amp_initialized = amp.amp._amp_loss_scale_initialized = True


FRAMEWORK = Framework(Recipe, drawn, EXCLUSIONS, lambda recipe, size: recipe, prepare, play, OneProcess, Rank, RULES)
