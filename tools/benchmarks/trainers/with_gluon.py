"""Gluon: steps of a perceptron, each waited for, under Farandole or in one process."""

from __future__ import annotations

from typing import Any

from benchmarks.trainers import CLASSES, Way
from benchmarks.trainers.with_mxnet import MxnetTrainer


class GluonTrainer(MxnetTrainer):
    """The perceptron instead of the residual network."""

    def network(self) -> Any:
        dense = self.mx.gluon.nn.Dense
        model = self.mx.gluon.nn.HybridSequential()
        model.add(dense(128, activation="relu"), dense(CLASSES))
        return model

    def images_shape(self) -> tuple[int, ...]:
        return (self.way.batch, 784)

    def after_step(self, loss: Any) -> None:
        loss.wait_to_read()


def made(way: Way) -> GluonTrainer:
    return GluonTrainer(way)
