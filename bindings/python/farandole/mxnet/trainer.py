"""A gluon.Trainer whose gradients are averaged over all ranks."""

from __future__ import annotations

import warnings
from typing import Any, Dict, Optional

import mxnet as mx

from farandole.common.arguments import require_reduction
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.mxnet.compression import Compression
from farandole.mxnet.gradients import Averager
from farandole.mxnet.optimizer import DistributedOptimizer
from farandole.mxnet.stale_gradients import StaleGradients


class DistributedTrainer(mx.gluon.Trainer):
    """Averages gradients over all ranks before each update. ``step(batch_size)`` takes this rank's batch size.

    :param params: what ``net.collect_params()`` gives, or a dict or list of parameters; all ranks number them in the
        order of their names
    :param optimizer: the name of an optimizer, or one
    :param optimizer_params: options of an optimizer that is given by its name
    :param compression: compressor for the gradients: ``Compression.none``, ``.fp16``, ``.bf16``, or your own
    :param gradient_predivide_factor: part of the division that is done before the sum
    :param prefix: put in front of every gradient's name; needed where ranks step several trainers in different orders
    :param num_groups: gradients are reduced in so many groups; 0: small ones together, as they come
    :param process_set: the ranks that take part; all ranks by default
    """

    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: Optional[Dict[str, Any]] = None,
        compression: Any = Compression.none,
        gradient_predivide_factor: float = 1.0,
        prefix: Optional[str] = None,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        require_reduction("DistributedTrainer", compression, process_set)
        if isinstance(optimizer, DistributedOptimizer):
            warnings.warn(
                "DistributedTrainer averages gradients itself, so it takes the optimizer that the "
                "DistributedOptimizer wraps; give it that one",
                stacklevel=2,
            )
            optimizer = optimizer._optimizer
        if isinstance(params, (list, tuple)) and all(hasattr(each, "name") for each in params):
            params = sorted(params, key=lambda each: str(each.name))
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        prefix = prefix or ""
        self._averager = Averager(gradient_predivide_factor, num_groups, process_set, compression, prefix)
        self._stale = StaleGradients(f"{prefix}fresh", process_set)

    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Averages the gradients, and updates. With ``ignore_stale_grad``, a parameter whose gradient is stale on all
        ranks is left out; where only some ranks have not used it, zeros stand for their gradients."""
        if ignore_stale_grad:
            self._stale.agree(self._params)
        super().step(batch_size, ignore_stale_grad)

    def allreduce_grads(self) -> None:
        """Averages the gradients. Where only some ranks have not used a parameter, zeros stand for their gradients."""
        self._stale.agree(self._params)
        super().allreduce_grads()

    def _update(self, ignore_stale_grad: bool = False) -> None:
        try:
            super()._update(ignore_stale_grad)
        finally:
            self._stale.end_step()

    def _allreduce_grads(self) -> None:
        gradients = []
        names = []
        for index, parameter in enumerate(self._params):
            if parameter.grad_req == "null":
                continue
            copies = parameter.list_grad()
            if len(copies) > 1:
                raise ValueError(
                    f"{parameter.name} is on {len(copies)} devices: start a process for each device, and give its "
                    "parameters one context"
                )
            gradients.append(copies[0])
            names.append(str(index))
        self._averager.average(gradients, names)
