"""Puts ``hvd.SyncBatchNorm`` in place of a model's batch normalisations, and takes it away again."""

from __future__ import annotations

from typing import List, NamedTuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from farandole.torch.sync_batch_norm import SyncBatchNorm


class Replaced(NamedTuple):
    """Where a layer was, and which."""

    parent: torch.nn.Module
    name: str
    layer: torch.nn.Module


def synchronise(model: torch.nn.Module) -> List[Replaced]:
    """Replaces them all. The new layers have the parameters and buffers of the old, the same objects."""
    replaced = []
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, _BatchNorm) and not isinstance(layer, SyncBatchNorm):
                replaced.append(Replaced(parent, name, layer))
                setattr(parent, name, _synchronised(layer))
    return replaced


def _synchronised(layer: _BatchNorm) -> SyncBatchNorm:
    made = SyncBatchNorm(layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
    made._parameters.update(layer._parameters)
    made._buffers.update(layer._buffers)
    made.training = layer.training
    return made


def put_back(replaced: List[Replaced]) -> None:
    """Puts the old layers in their places; what the new ones have learnt is in them already."""
    for parent, name, layer in replaced:
        layer.train(getattr(parent, name).training)
        setattr(parent, name, layer)
