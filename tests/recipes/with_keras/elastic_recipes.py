"""Keras 3 on TensorFlow, with its recipes for elastic jobs. A step of the job is an epoch."""

from __future__ import annotations

from typing import List

from comparing import Snapshot
from draws import often
from elastic.recipes import with_events
from excluding import Exclusion, default

from with_keras import framework, versions
from with_keras.recipe import Recipe
from with_keras.seats import OneProcess
from with_keras.training import Training

ELASTIC = (
    Exclusion("a state undoes epochs", lambda r: r.resume, default("resume")),
    Exclusion("rank 0 has the state that counts", lambda r: r.is_from_last, default("is_from_last")),
    Exclusion("a state makes all equal", lambda r: r.start == "variables", {"start": "state"}),
    Exclusion("the number of ranks is a factor of its rates", lambda r: r.callback == "warmup", default("callback")),
)


def play(recipe: Recipe, seat: OneProcess) -> List[Snapshot]:
    """The snapshots after each epoch, which `fit()` is called for anew."""
    versions.clear_session()
    training = Training(recipe, seat, folder="")
    return [training.play_epoch(epoch) for epoch in range(recipe.steps)]


FRAMEWORK = with_events(
    framework.FRAMEWORK._replace(play=play),
    ELASTIC,
    more=lambda source: {"state": often(("tensorflow",), "keras", 0.5)(source)},
)
