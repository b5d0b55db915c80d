"""What the wrappers of optimizers of TensorFlow 1 (``tf.compat.v1.train``) have in common."""

from __future__ import annotations

from typing import Any

from farandole.tensorflow.kernels import tf

LegacyOptimizer = tf.compat.v1.train.Optimizer


class WrappedOptimizer(LegacyOptimizer):  # type: ignore[misc, valid-type]
    """Has the variables of the wrapped optimizer, so that a ``tf.train.Checkpoint`` of the wrapper saves and restores
    them, as one of the wrapped optimizer does."""

    def __init__(self, optimizer: Any, name: str, use_locking: bool) -> None:
        super().__init__(name=name, use_locking=use_locking)
        self._optimizer = optimizer
        optimizer._maybe_initialize_trackable()
        self._maybe_initialize_trackable()
        # The optimizer inside of a loss scaler, and its scale.
        self._self_unconditional_checkpoint_dependencies = optimizer._self_unconditional_checkpoint_dependencies
        self._self_unconditional_dependency_names = optimizer._self_unconditional_dependency_names
        # What a checkpoint has for variables that are made later is kept in these.
        self._self_unconditional_deferred_dependencies = optimizer._deferred_dependencies
        self._deferred_slot_restorations = optimizer._deferred_slot_restorations
        self._non_slot_dict = optimizer._non_slot_dict
        self._slots = optimizer._slots

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """As the wrapped optimizer's."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """As the wrapped optimizer's."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """As the wrapped optimizer's."""
        return self._optimizer.variables(*args, **kwargs)
