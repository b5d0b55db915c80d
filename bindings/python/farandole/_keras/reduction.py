"""Chooses how an optimizer's gradients are reduced: by the backend that computes them."""

from __future__ import annotations

from typing import Any

from farandole._keras.options import Options
from farandole._keras.reduction_on_jax import OnJax
from farandole._keras.reduction_on_tensorflow import OnTensorFlow
from farandole._keras.reduction_on_torch import OnTorch
from farandole.common.ledger import check_passes

_BACKENDS = {"tensorflow": OnTensorFlow, "torch": OnTorch, "jax": OnJax}


def reduction_on(backend: str, options: Options) -> Any:
    """The gradient reduction of one optimizer, for a backend of Keras."""
    check_passes(options.backward_passes_per_step)
    return _BACKENDS[backend](options)
