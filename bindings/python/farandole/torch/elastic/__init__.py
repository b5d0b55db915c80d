"""Elastic training for PyTorch: members may join and leave between the commits of a state."""

from __future__ import annotations

from farandole.common.elastic import ObjectState, State, run, run_fn
from farandole.torch.elastic.sampler import ElasticSampler
from farandole.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run", "run_fn"]
