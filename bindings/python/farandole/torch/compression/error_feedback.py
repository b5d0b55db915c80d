"""Error feedback: the error of a lossy compressor is added to the next gradient of the same parameter.

Seide et al., 1-bit stochastic gradient descent, Interspeech 2014; Stich, Cordonnier and Jaggi, Sparsified SGD with
memory, NeurIPS 2018; Karimireddy et al., Error feedback fixes SignSGD, ICML 2019.
"""

from __future__ import annotations

from typing import Any, Dict

import torch

from farandole.torch.compression.gradient import Allreduce, Exchange, GradientCompressor, Reduction, Sent, same_shape

MIN_ELEMENTS = 1024
"""Default size limit for compression. Below about 4 KiB latency dominates the cost of a collective, so compression
saves no time."""


class ErrorFeedback(GradientCompressor):
    """Base of compressors with error feedback. Derive from it and implement ``send``, and ``pays`` if compression can
    make small tensors larger.

    Invariant: the sum of all results, each divided by its ``how.factor``, plus the errors that all ranks still
    store, equals the sum of the gradients of all ranks over all steps.
    """

    def __init__(self, min_elements: int = MIN_ELEMENTS) -> None:
        if isinstance(min_elements, bool) or not isinstance(min_elements, int) or min_elements < 0:
            raise ValueError(f"min_elements is an integer and not negative: {min_elements!r}")
        self.min_elements = min_elements
        self._errors: Dict[str, torch.Tensor] = {}

    def send(self, name: str, tensor: torch.Tensor, how: Reduction) -> Sent:
        """Yields the messages for a tensor to which the stored error has been added. Returns the reduced tensor, and
        this rank's contribution to it before scaling. Must not change the tensor."""
        raise NotImplementedError

    def pays(self, tensor: torch.Tensor) -> bool:
        """Whether to compress a tensor. Depends on its shape and type alone, so that all ranks agree. Vectors and
        small tensors are sent whole: biases and norms need precision and take few bytes."""
        return tensor.dim() >= 2 and tensor.numel() >= max(self.min_elements, 1)

    def exchange(self, name: str, gradient: torch.Tensor, how: Reduction) -> Exchange:
        """Adds the stored error to the gradient and compresses the sum by ``send``; sends the gradient whole if
        compression does not pay."""
        if not gradient.dtype.is_floating_point or not self.pays(gradient):
            whole: torch.Tensor = yield Allreduce(gradient)
            return whole
        # Errors of 16-bit gradients are stored in float32, or rounding would lose them.
        corrected = gradient.to(torch.promote_types(gradient.dtype, torch.float32), copy=True)
        error = self._errors.get(name)
        if error is not None:
            same_shape(name, error, gradient)
            corrected += error.to(corrected)
        reduced, contributed = yield from self.send(name, corrected, how)
        # An overflow must not enter the stored error. The result is returned all the same: a loss scaler detects the
        # overflow in it and skips the step.
        if _all_finite(reduced):
            self._errors[name] = corrected - contributed
            self.remember(name)
        else:
            self.forget(name)
        return reduced.to(gradient.dtype)

    def remember(self, name: str) -> None:
        """Called after an exchange without overflow. Override it to keep state other than errors."""

    def forget(self, name: str) -> None:
        """Called after an exchange that has overflowed on some rank."""

    def state_dict(self) -> Dict[str, Any]:
        """The stored errors by name, as references. They differ between ranks, so every rank must save its own."""
        return {"errors": dict(self._errors)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Restores the result of ``state_dict()`` of the same rank."""
        self._errors = copies(state_dict["errors"])


def copies(tensors: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """Copies of tensors, which share no memory with the originals."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _all_finite(tensor: torch.Tensor) -> bool:
    least, greatest = torch.aminmax(tensor)
    return bool(torch.isfinite(least) and torch.isfinite(greatest))
