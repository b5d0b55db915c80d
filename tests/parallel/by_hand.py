"""Plays all ranks of a compressed exchange in one process, in double precision and without a job."""

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
    """What each rank ends with: rank r has compressor r and gradient r."""
    how = Reduction(op, prescale, postscale, len(gradients))
    steps = [each.exchange(name, gradient, how) for each, gradient in zip(compressors, gradients)]
    answers: List[Any] = [None] * len(steps)
    while True:
        said, ended = [], []
        for step, answer in zip(steps, answers):
            try:
                said.append(step.send(answer))
            except StopIteration as stop:
                ended.append(stop.value)
        assert not said or not ended, "some ranks ended while others went on"
        if ended:
            return ended
        if isinstance(said[0], list):
            rounds = [_answer(list(messages), how) for messages in zip(*said)]
            answers = [[each.clone() for each in rounds] for _ in steps]
        else:
            came = _answer(said, how)
            answers = [came.clone() for _ in steps]


def _answer(messages: List[Any], how: Reduction) -> torch.Tensor:
    first = messages[0]
    assert all(type(each) is type(first) and each.label == first.label for each in messages)
    if isinstance(first, Allgather):
        return torch.cat([each.tensor for each in messages])
    assert isinstance(first, Allreduce)
    total = torch.stack([each.tensor.double() for each in messages]).sum(0)
    if first.op is None:
        total = total * how.factor
    elif first.op == hvd.Average:
        total = total / len(messages)
    return total.to(first.tensor.dtype)
