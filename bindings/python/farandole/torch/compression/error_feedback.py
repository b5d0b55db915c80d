"""What a lossy compressor leaves out is not lost: it is added to the next gradient of the same parameter.

Seide et al., 1-bit stochastic gradient descent, Interspeech 2014; Stich, Cordonnier and Jaggi, Sparsified SGD with
memory, NeurIPS 2018; Karimireddy et al., Error feedback fixes SignSGD, ICML 2019.
"""

from __future__ import annotations

from typing import Any, Dict

import torch

from farandole.torch.compression.gradient import Allreduce, Exchange, GradientCompressor, Reduction, Sent, same_shape

MIN_ELEMENTS = 1024
"""Below about 4 KiB a round costs its latency, whatever it carries."""


class ErrorFeedback(GradientCompressor):
    """A compressor that remembers errors; derive from it and write ``send``, and ``pays`` if small tensors cost more.

    Invariant: over all steps, what was returned, divided by ``how.factor``, and the errors that all ranks still
    remember add up to the sum of all ranks' gradients.
    """

    def __init__(self, min_elements: int = MIN_ELEMENTS) -> None:
        if isinstance(min_elements, bool) or not isinstance(min_elements, int) or min_elements < 0:
            raise ValueError(f"min_elements is an integer and not negative: {min_elements!r}")
        self.min_elements = min_elements
        self._errors: Dict[str, torch.Tensor] = {}

    def send(self, name: str, tensor: torch.Tensor, how: Reduction) -> Sent:
        """Yields what travels for a tensor that has been corrected by the remembered error, and returns the reduced
        tensor and what this rank contributed to it before scaling. The tensor must not be changed."""
        raise NotImplementedError

    def pays(self, tensor: torch.Tensor) -> bool:
        """Whether to compress such a tensor; a matter of its shape and type alone, so that all ranks agree. Vectors
        and what is small travel whole: biases and norms matter more than their bytes."""
        return tensor.dim() >= 2 and tensor.numel() >= max(self.min_elements, 1)

    def exchange(self, name: str, gradient: torch.Tensor, how: Reduction) -> Exchange:
        """The gradient and what is remembered, compressed by ``send``; whole where that does not pay."""
        if not gradient.dtype.is_floating_point or not self.pays(gradient):
            whole: torch.Tensor = yield Allreduce(gradient)
            return whole
        # Errors of halves are remembered in float32, or they would be rounded away.
        corrected = gradient.to(torch.promote_types(gradient.dtype, torch.float32), copy=True)
        error = self._errors.get(name)
        if error is not None:
            same_shape(name, error, gradient)
            corrected += error.to(corrected)
        reduced, contributed = yield from self.send(name, corrected, how)
        # An overflow makes its step worthless, but must not be remembered; whoever scales losses skips the step.
        if _all_finite(reduced):
            self._errors[name] = corrected - contributed
            self.remember(name)
        else:
            self.forget(name)
        return reduced.to(gradient.dtype)

    def remember(self, name: str) -> None:
        """The exchange of a name has gone well: the place for other memory than errors."""

    def forget(self, name: str) -> None:
        """The exchange of a name has overflown on some rank."""

    def state_dict(self) -> Dict[str, Any]:
        """The errors by name, by reference. They differ from rank to rank: save each rank's."""
        return {"errors": dict(self._errors)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Takes over what ``state_dict()`` of the same rank gave."""
        self._errors = copies(state_dict["errors"])


def copies(tensors: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """Tensors that nobody else changes."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _all_finite(tensor: torch.Tensor) -> bool:
    least, greatest = torch.aminmax(tensor)
    return bool(torch.isfinite(least) and torch.isfinite(greatest))
