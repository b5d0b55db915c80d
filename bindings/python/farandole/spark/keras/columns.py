"""Turns the columns of a batch into the inputs and the labels of a model of Keras."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from farandole.spark.common.checking import outputs_per_label, to_list


class Batch(NamedTuple):
    """A batch of this rank.

    :param data: inputs, labels and, with a column of weights, the weights: what ``train_step`` of a model takes
    :param rows: the number of its rows
    """

    data: Tuple[Any, ...]
    rows: int


def inputs_of(model: Any) -> Optional[List[Any]]:
    """The symbolic inputs of a model; None for a model of a user's class, and for one that is not built."""
    return _symbols(model, "inputs")


def outputs_of(model: Any) -> Optional[List[Any]]:
    """The symbolic outputs of a model; None for a model of a user's class, and for one that is not built."""
    return _symbols(model, "outputs")


def _symbols(model: Any, name: str) -> Optional[List[Any]]:
    try:
        found = getattr(model, name)
    except (AttributeError, ValueError):
        return None
    return list(found) if found else None


class Inputs:
    """The inputs of a model from the feature columns: a tensor for a single column, otherwise a tuple.

    A column gets the shape and the type of the model's input. A model of a user's class declares no inputs: it gets
    columns of scalars as ``[rows, 1]``, columns in ``categorical`` as int64, text as it is, and all others in the
    floating-point type of Keras.

    :param model: a model of Keras
    :param floatx: the floating-point type of Keras
    """

    def __init__(self, model: Any, features: Sequence[str], categorical: Optional[Sequence[str]], floatx: str) -> None:
        self._features = list(features)
        self._symbols = inputs_of(model)
        self._categorical = frozenset(categorical or ())
        self._floatx = floatx
        if self._symbols is not None and len(self._symbols) != len(self._features):
            raise ValueError(
                f"the model has {len(self._symbols)} inputs for {len(self._features)} feature columns "
                f"({', '.join(self._features)}): it must have one for each"
            )

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        """The inputs for a batch; ``ValueError`` where a shape does not fit."""
        made = [self._input(index, name, batch[name]) for index, name in enumerate(self._features)]
        return made[0] if len(made) == 1 else tuple(made)

    def _input(self, index: int, name: str, values: Any) -> Any:
        import tensorflow as tf

        tensor = tf.convert_to_tensor(values)
        if self._symbols is not None:
            symbol = self._symbols[index]
            shape = [None if each is None else int(each) for each in symbol.shape][1:]
            return reshaped(_cast(tensor, symbol.dtype), shape, name, "the model's input")
        kind = "int64" if name in self._categorical else self._floatx
        tensor = _cast(tensor, tensor.dtype if tensor.dtype == tf.string else kind)
        return tf.expand_dims(tensor, 1) if tensor.shape.rank == 1 else tensor


def _cast(tensor: Any, kind: Any) -> Any:
    import tensorflow as tf

    wanted = tf.as_dtype(kind)
    if tensor.dtype == wanted:
        return tensor
    return tf.as_string(tensor) if wanted == tf.string else tf.cast(tensor, wanted)


def reshaped(tensor: Any, shape: Sequence[Optional[int]], name: str, source: str) -> Any:
    """The tensor with that shape of a row; ``ValueError`` where its number of elements differs.

    :param shape: of a row; with several unknown dimensions, the tensor stays as it is
    :param source: where the shape comes from, for the message
    """
    import tensorflow as tf

    wanted = [-1 if each is None or each < 0 else each for each in shape]
    if wanted.count(-1) > 1 or tensor.shape[1:] == wanted:
        return tensor
    try:
        return tf.reshape(tensor, [tensor.shape[0], *wanted])
    except tf.errors.InvalidArgumentError:
        raise ValueError(
            f"{source} gives the column {name!r} the shape {list(shape)} for a row, but its rows have the shape "
            f"{list(tensor.shape[1:])}"
        ) from None


class Targets:
    """Brings labels into the form that losses of Keras expect.

    A label with as many elements as its output gets the output's shape. A label with fewer elements, such as the index
    of a class, keeps its shape. A label of a floating-point type gets the output's type.

    :param outputs: what the model returns for some rows
    :param shapes: a shape of a row for each label, or None, to use in place of the output's. The first dimension may
        be -1 or None for the rows
    """

    def __init__(self, names: Sequence[str], outputs: Any, shapes: Optional[Sequence[Any]]) -> None:
        self._names = list(names)
        self._outputs = outputs_per_label(outputs, names)
        self._keys = list(outputs) if isinstance(outputs, dict) else None
        self._shapes = to_list(shapes, len(self._names)) or [None] * len(self._names)

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        """The labels for a batch: a tensor for a single label, otherwise a tuple, or a dict if the model returns a
        dict."""
        labels = [self._label(index, name, batch[name]) for index, name in enumerate(self._names)]
        if self._keys is not None:
            return dict(zip(self._keys, labels))
        return labels[0] if len(labels) == 1 else tuple(labels)

    def _label(self, index: int, name: str, values: Any) -> Any:
        import tensorflow as tf

        tensor, output, shape = tf.convert_to_tensor(values), self._outputs[index], self._shapes[index]
        if tensor.dtype.is_floating or tensor.dtype.is_bool:
            tensor = tf.cast(tensor, output.dtype)
        if shape is not None:
            sizes = [shape] if isinstance(shape, int) else list(shape)
            has_rows = bool(sizes) and (sizes[0] is None or sizes[0] < 0)
            return reshaped(tensor, sizes[1:] if has_rows else sizes, name, "label_shapes")
        own, wanted = tensor.shape[1:], output.shape[1:]
        return reshaped(tensor, wanted, name, "the model's output") if _size(own) == _size(wanted) else tensor


def _size(shape: Any) -> Any:
    return shape.num_elements()


def columns_of(batch: Any, labels: Sequence[str]) -> Dict[str, Any]:
    """The columns of a batch of a data module, by name.

    :param batch: a dict of columns, or a pair of such a dict and the labels: a dict, a list, or a single column
    """
    if isinstance(batch, dict):
        return batch
    features, targets = batch[0], batch[1]
    if isinstance(targets, dict):
        return {**features, **targets}
    several = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    return {**features, **dict(zip(labels, several))}
