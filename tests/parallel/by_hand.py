"""Computes a compressed exchange of all ranks in one process, in double precision and without a job."""

from __future__ import annotations

from typing import Any, List, Sequence

import horovod.torch as hvd
import torch
from horovod.torch.compression import Allgather, Allreduce, GradientCompressor, Reduction


def exchange(
    compressors: Sequence[GradientCompressor],
    name: str,
    gradients: Sequence[torch.Tensor],
    op: int = hvd.Average,
    prescale: float = 1.0,
    postscale: float = 1.0,
) -> List[torch.Tensor]:
    """The reduced gradient on each rank, if rank r has compressor r and gradient r."""
    reduction = Reduction(op, prescale, postscale, len(gradients))
    steps = [compressor.exchange(name, gradient, reduction) for compressor, gradient in zip(compressors, gradients)]
    results: List[Any] = [None] * len(steps)
    while True:
        sent, ended = [], []
        for step, result in zip(steps, results):
            try:
                sent.append(step.send(result))
            except StopIteration as stop:
                ended.append(stop.value)
        assert not sent or not ended, "some ranks have completed the exchange while others still send messages"
        if ended:
            return ended
        if isinstance(sent[0], list):
            combined = [_combine(list(messages), reduction) for messages in zip(*sent)]
            results = [[tensor.clone() for tensor in combined] for _ in steps]
        else:
            tensor = _combine(sent, reduction)
            results = [tensor.clone() for _ in steps]


def _combine(messages: List[Any], reduction: Reduction) -> torch.Tensor:
    """The result of one collective operation, to which rank r contributes message r."""
    first = messages[0]
    assert all(type(message) is type(first) and message.label == first.label for message in messages)
    if isinstance(first, Allgather):
        return torch.cat([message.tensor for message in messages])
    assert isinstance(first, Allreduce)
    total = torch.stack([message.tensor.double() for message in messages]).sum(0)
    if first.op is None:
        total = total * reduction.factor
    elif first.op == hvd.Average:
        total = total / len(messages)
    return total.to(first.tensor.dtype)
