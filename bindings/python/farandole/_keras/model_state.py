"""What the elastic states of a Keras model share."""

from __future__ import annotations

from typing import Any, List

from farandole._keras.library import build, discard_passes
from farandole.common.elastic import VariablesState
from farandole.common.elastic.references import OwnValues


class ModelState(VariablesState):
    """Elastic state of a model, its optimizer, and further values that are given by keyword.

    When steps are undone or the members change, the gradients that backward passes have accumulated are discarded.

    :param model: must be built already; ``ValueError`` otherwise
    :param optimizer: the model's own by default
    """

    def __init__(self, model: Any, optimizer: Any, *arguments: Any, **kwargs: Any) -> None:
        if not getattr(model, "built", False):
            raise ValueError("the model must be built before it becomes a state: call build(), or run a batch")
        self.model = model
        self.optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
        build(self.optimizer, model.trainable_variables)
        super().__init__(*arguments, **kwargs)

    def _write(self, values: List[Any]) -> None:
        # The old values are not read first: a step that failed may have left variables without values.
        super()._write(values)
        discard_passes(self.optimizer)

    def _broadcast(self) -> None:
        super()._broadcast()
        discard_passes(self.optimizer)

    def _own_values(self) -> OwnValues:
        """Values that refer to the model, such as callbacks, are copied without it."""
        return {"model": self.model, "optimizer": self.optimizer, **super()._own_values()}
