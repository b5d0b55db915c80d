"""Gradient tapes that reduce their gradients over all ranks."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from farandole.common.arguments import kind, require_reduction
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.tensorflow.compression import Compression
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.mpi_ops import Average
from farandole.tensorflow.reducing import GradientReduction
from farandole.tensorflow.util import reference


class _DistributedGradientTape:
    """Base class that is put before a tape's own class in the method resolution order."""

    _reduction: GradientReduction

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As ``tf.GradientTape.gradient``, but the gradients are reduced over all ranks.

        :param use_generic_names: name gradients by their positions alone, for models whose names differ between ranks
        """
        own = super().gradient(target, sources, output_gradients, **kwargs)  # type: ignore[misc]
        reduced = self._reduction(tf.nest.flatten(own), tf.nest.flatten(sources), use_generic_names)
        return tf.nest.pack_sequence_as(sources, reduced)

    def register_local_source(self, source: Any) -> None:
        """Excludes this source's gradient from reduction: each rank keeps its own."""
        self._reduction.register_local(source)

    def get_local_and_global_gradients(
        self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False
    ) -> Tuple[List[Tuple[Any, Any]], List[Tuple[Any, Any]]]:
        """Two lists of (source, gradient): one for sources that were registered as local, one for all others."""
        gradients = tf.nest.flatten(self.gradient(target, sources, output_gradients, use_generic_names))
        pairs = list(zip(tf.nest.flatten(sources), gradients))
        local = [pair for pair in pairs if self._reduction.is_local(pair[0])]
        return local, [pair for pair in pairs if not self._reduction.is_local(pair[0])]


def _require_plain(gradtape: Any, compression: Any, process_set: Any) -> None:
    """Raises ``TypeError`` unless ``gradtape`` is a tape, and ``ValueError`` if it is a distributed one already."""
    if isinstance(gradtape, _DistributedGradientTape):
        raise ValueError("DistributedGradientTape was given a DistributedGradientTape; wrap each tape once")
    if not isinstance(gradtape, tf.GradientTape):
        raise TypeError(f"DistributedGradientTape takes a tf.GradientTape, not {kind(gradtape)}; pass the tape")
    require_reduction("DistributedGradientTape", compression, process_set)


def _wrap(gradtape: Any, reduction: GradientReduction) -> Any:
    of = type(gradtape)
    members = {"__module__": of.__module__, "_reduction": reduction}
    made: Any = type(of.__name__, (_DistributedGradientTape, of), members)
    wrapped = made.__new__(made)
    # Both know whether the tape records: if each ended the recording, TensorFlow would free the tape twice.
    wrapped.__dict__ = gradtape.__dict__
    return wrapped


@public
def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> tf.GradientTape:
    _require_plain(gradtape, compression, process_set)
    return _wrap(
        gradtape,
        GradientReduction(
            "DistributedGradientTape",
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
        ),
    )


def variables_of_layers(local_layers: Any) -> List[Any]:
    """The trainable weights of a Keras layer, or of a list of them; ``ValueError`` for anything else."""
    if local_layers is None:
        return []
    layers = list(local_layers) if isinstance(local_layers, (list, tuple, set)) else [local_layers]
    if not all(hasattr(each, "trainable_weights") and hasattr(each, "call") for each in layers):
        raise ValueError("local_layers must be a Keras layer or a list of Keras layers")
    distinct = {reference(weight): weight for layer in layers for weight in layer.trainable_weights}
    return list(distinct.values())


@public
def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Optional[Any] = None,
    scale_local_gradients: bool = True,
) -> tf.GradientTape:
    local = variables_of_layers(local_layers)
    wrapped = DistributedGradientTape(
        gradtape,
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
    for variable in local:
        wrapped.register_local_source(variable)
    return wrapped
