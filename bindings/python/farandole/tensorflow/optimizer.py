"""``DistributedOptimizer`` for optimizers of TensorFlow 1 (``tf.compat.v1.train``), which reduces their gradients.

Optimizers of Keras are wrapped as in ``farandole.tensorflow.keras``.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from farandole._keras.optimizer import distributed
from farandole.common.arguments import kind, require_reduction
from farandole.common.gradient_accumulator import check_passes
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.reduction import require_adasum
from farandole.tensorflow import mpi_ops
from farandole.tensorflow.compression import Compression
from farandole.tensorflow.delta_optimizer import LossScaler, _DistributedAdasumOptimizer, refused_scaler
from farandole.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.legacy_optimizer import LegacyOptimizer, WrappedOptimizer
from farandole.tensorflow.mpi_ops import Adasum, Average
from farandole.tensorflow.reducing import GradientReduction


class _DistributedOptimizer(WrappedOptimizer):
    """Computes gradients as the wrapped optimizer does, reduces them, and lets it apply them."""

    def __init__(
        self,
        optimizer: Any,
        name: str,
        use_locking: bool,
        reduction: GradientReduction,
        helper: Optional[LocalGradientAggregationHelper],
    ) -> None:
        super().__init__(optimizer, name, use_locking)
        self._reduction = reduction
        self._helper = helper

    def register_local_var(self, var: Any) -> None:
        """Excludes this variable's gradient from reduction: each rank keeps its own."""
        (self._helper.register_local_var if self._helper else self._reduction.register_local)(var)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[Tuple[Any, Any]]:
        """As the wrapped optimizer's; the gradients are reduced over all ranks."""
        pairs = list(self._optimizer.compute_gradients(*args, **kwargs))
        gradients, variables = [grad for grad, _ in pairs], [variable for _, variable in pairs]
        reduce = self._helper.compute_gradients if self._helper else self._reduction
        return list(zip(reduce(gradients, variables), variables))

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As the wrapped optimizer's. With several passes per step, applies only when a step is due."""
        if self._helper:
            return self._helper.apply_gradients(
                lambda: self._optimizer.apply_gradients(*args, **kwargs), self._optimizer, *args, **kwargs
            )
        return self._optimizer.apply_gradients(*args, **kwargs)


def _is_keras(optimizer: Any) -> bool:
    return any(each.__module__.partition(".")[0] in ("keras", "tf_keras") for each in type(optimizer).__mro__)


@public
def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    if isinstance(optimizer, (_DistributedOptimizer, _DistributedAdasumOptimizer)):
        raise ValueError(
            "DistributedOptimizer was given an optimizer that is a DistributedOptimizer already; wrap each optimizer "
            "once"
        )
    require_reduction("DistributedOptimizer", compression, process_set)
    check_passes(backward_passes_per_step)
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("Adasum does not go together with average_aggregated_gradients: no gradients are aggregated")
    if isinstance(optimizer, LegacyOptimizer):
        if op == Adasum:
            require_adasum(process_set, mpi_ops.size())
            if isinstance(optimizer, LossScaler):
                raise refused_scaler()
            return _DistributedAdasumOptimizer(
                optimizer,
                name or f"DistributedDelta{type(optimizer).__name__}",
                use_locking,
                device_dense,
                compression,
                backward_passes_per_step,
            )
        if backward_passes_per_step > 1 and tf.executing_eagerly():
            raise ValueError(
                "backward_passes_per_step > 1 is not offered for optimizers of tf.compat.v1.train outside of graphs"
            )
        name = name or f"Distributed{type(optimizer).__name__}"
        reduction = GradientReduction(
            name,
            device_dense,
            device_sparse,
            compression,
            sparse_as_dense,
            op,
            gradient_predivide_factor,
            num_groups,
            groups,
            process_set,
            scale_local_gradients,
        )
        helper = None
        if backward_passes_per_step > 1:
            helper = LocalGradientAggregationHelper(
                backward_passes_per_step,
                reduction,
                sparse_as_dense,
                average_aggregated_gradients,
                mpi_ops.rank(),
                LocalGradientAggregationHelper._OPTIMIZER_TYPE_LEGACY,
                process_set,
                scale_local_gradients,
                name,
            )
        return _DistributedOptimizer(optimizer, name, use_locking, reduction, helper)
    if not _is_keras(optimizer):
        raise ValueError(
            "DistributedOptimizer: the optimizer must be one of tf.compat.v1.train or one of Keras, not "
            f"{kind(optimizer)}; pass one such as tf.keras.optimizers.SGD()"
        )
    if op == Adasum:
        raise ValueError("op == Adasum is not offered for optimizers of Keras: use one of tf.compat.v1.train")
    return distributed(
        optimizer,
        name=name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
