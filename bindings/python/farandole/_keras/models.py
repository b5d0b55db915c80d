"""Saved models, and the variables of a graph."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

from farandole._keras.library import Library, variables_of
from farandole._keras.optimizer import distributed
from farandole.common.basics import HorovodBasics


def load_model(
    used: Library,
    filepath: Any,
    custom_optimizers: Optional[Sequence[Any]],
    custom_objects: Optional[Dict[str, Any]],
    compression: Any,
    legacy_opts: bool,
) -> Any:
    """Loads a model and replaces its optimizer by a distributed one with the saved state."""
    getattr(used.adapter, "SyncBatchNormalization", None)  # Keras knows this layer once its module is imported
    known: Dict[str, Any] = {}
    for each in custom_optimizers or []:
        known[each.__name__] = known[each.__name__.lower()] = each
    if legacy_opts:
        legacy = used.keras.optimizers.legacy
        classes = [each for each in vars(legacy).values() if isinstance(each, type)]
        known.update({each.__name__: each for each in classes})
    model = used.keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    plain = getattr(model, "optimizer", None)
    if plain is not None:
        model.optimizer = _with_state(plain, compression, model.trainable_variables)
    return model


def _with_state(plain: Any, compression: Any, trainable: Sequence[Any]) -> Any:
    wrapped = distributed(plain, None, "", "", compression, False, 1.0, HorovodBasics.Average, 1, False)
    if not variables_of(plain):
        return wrapped
    if hasattr(wrapped, "build"):
        wrapped.build(trainable)
        for variable, saved in zip(variables_of(wrapped), variables_of(plain)):
            variable.assign(saved)
    else:  # of Keras' legacy optimizers
        wrapped._create_all_weights(trainable)
        wrapped.set_weights(plain.get_weights())
    return wrapped


def broadcast_global_variables(used: Library, root_rank: int) -> Any:
    """Broadcasts one rank's global variables to all ranks; in graphs of TensorFlow only."""
    if used.backend != "tensorflow":
        raise RuntimeError(
            f"there are no global variables on {used.backend}: use "
            f"callbacks.BroadcastGlobalVariablesCallback({root_rank})"
        )
    return used.adapter.broadcast_global_variables(root_rank)
