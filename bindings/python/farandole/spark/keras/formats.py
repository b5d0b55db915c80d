"""Models of Keras, and the objects that compile them, as bytes.

A model that consists of Keras' own layers is the content of a ``.keras`` file, which Keras loads in its safe mode.
Optimizers, losses and metrics of Keras are their configurations in JSON. Loading these runs no code that the author
of the bytes chose. A model or an object with a class or function of the user is a pickle that contains the class.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import pickle
import tempfile
import warnings
import zipfile
from typing import Any, Dict, List, NamedTuple, Optional

from farandole.spark.common.serialization import PICKLE, Codec, Encoded, pickled, unpickled

ROOTS = ("keras", "tf_keras")
"""The packages that contain a Keras."""
FILES = {root: f"{root} file" for root in ROOTS}
"""The formats of models."""
OBJECTS = {root: f"{root} object" for root in ROOTS}
"""The formats of optimizers, losses and metrics."""
_PRIMITIVES = (str, int, float, bool, type(None))


def root_of(value: Any) -> Optional[str]:
    """The name of the Keras from which the class of an object is derived; None if there is none."""
    roots = [each.__module__.partition(".")[0] for each in type(value).__mro__]
    return next((root for root in roots if root in ROOTS), None)


def is_own(kind: type) -> bool:
    """Whether a class is defined by Keras itself."""
    return kind.__module__.partition(".")[0] in ROOTS


def keras_named(root: str) -> Any:
    """The package of that name; ``ValueError`` where it is a Keras that does not run on TensorFlow."""
    if root == "keras":
        os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    keras = importlib.import_module(root)
    from farandole._keras.library import library

    backend = library(keras).backend
    if backend != "tensorflow":
        raise ValueError(
            f"Keras runs on {backend}, and the Keras estimator trains and predicts on TensorFlow: set "
            "KERAS_BACKEND=tensorflow before Keras is imported"
        )
    return keras


class KerasFile(NamedTuple):
    """A model of a user's class: the name of its Keras, the content of a ``.keras`` file, and the classes and
    functions that the file refers to, by name."""

    root: str
    content: bytes
    objects: Dict[str, Any]


def encode_model(model: Any, custom_objects: Optional[Dict[str, Any]] = None) -> Encoded:
    """The model as bytes, in the safe format if that can hold it. The weights and the architecture are kept; the
    optimizer and the loss are not.

    ``pickle.PicklingError`` names the model if no format can hold it.
    """
    root = root_of(model)
    if root is None:
        raise ValueError(f"this is no model of Keras, but a {type(model).__module__}.{type(model).__qualname__}")
    content = _file_of(model)
    if _is_safe(content):
        return Encoded(FILES[root], content)
    objects = {**_classes_of(model, keras_named(root)), **(custom_objects or {})}
    return Encoded(PICKLE, pickled(tuple(KerasFile(root, content, objects)), "model"))


def decode_model(encoded: Encoded) -> Any:
    """The model of ``encode_model``, which is not compiled. A pickle runs code that it names."""
    for root, name in FILES.items():
        if encoded.format == name:
            return _loaded(KerasFile(root, encoded.content, {}), True)
    return _loaded(KerasFile(*unpickled(encoded.content)), False)


def _file_of(model: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="farandole-model-") as folder:
        path = os.path.join(folder, "model.keras")
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*not yet been built")  # its weights are created on the ranks
                model.save(path)
        except Exception as problem:  # of a method of the user, or of a value that is no JSON
            raise pickle.PicklingError(
                f"the model, a {type(model).__qualname__}, cannot be saved in the format .keras "
                f"({type(problem).__name__}: {problem}): give its class and the classes of its layers a method "
                "get_config"
            ) from problem
        with open(path, "rb") as file:
            return file.read()


def _loaded(file: KerasFile, is_safe: bool) -> Any:
    keras = keras_named(file.root)
    with tempfile.TemporaryDirectory(prefix="farandole-model-") as folder:
        path = os.path.join(folder, "model.keras")
        with open(path, "wb") as opened:
            opened.write(file.content)
        return keras.models.load_model(path, custom_objects=file.objects, compile=False, safe_mode=is_safe)


def _is_safe(content: bytes) -> bool:
    """Whether the architecture in a ``.keras`` file refers to classes and functions of Keras only."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        config = json.loads(archive.read("config.json"))
    return _refers_to_keras_only({name: value for name, value in config.items() if name != "compile_config"})


def _refers_to_keras_only(config: Any) -> bool:
    if isinstance(config, (list, tuple)):
        return all(_refers_to_keras_only(each) for each in config)
    if not isinstance(config, dict):
        return isinstance(config, _PRIMITIVES)
    if "class_name" in config and "config" in config:
        root = str(config.get("module") or "").partition(".")[0]
        is_tensor = config["class_name"] in ("__keras_tensor__", "__tuple__", "__numpy__", "__tensor__", "__ellipsis__")
        is_keras = root in ROOTS and not config.get("registered_name") and config["class_name"] != "Lambda"
        if not is_tensor and not is_keras:
            return False
    return all(_refers_to_keras_only(each) for each in config.values())


def _classes_of(model: Any, keras: Any) -> Dict[str, Any]:
    """The user's classes of a model and its layers, by their names in a file."""
    layers = [model, *(each for each in model._flatten_layers() if each is not model)]
    found = [type(each) for each in layers if not is_own(type(each))]
    return {name: kind for kind in found for name in (kind.__name__, keras.saving.get_registered_name(kind))}


class _Configured:
    """An object of Keras, which is pickled as its class and its configuration: its variables cannot be pickled."""

    def __init__(self, value: Any) -> None:
        self._parts = (type(value), value.get_config())

    def __reduce__(self) -> Any:
        return _from_config, self._parts


def _from_config(kind: Any, config: Any) -> Any:
    return kind.from_config(config)


def configured(value: Any) -> Any:
    """The same value, in which a pickle holds the optimizers, losses and metrics of Keras by their configurations.
    Loading the pickle gives new objects without state."""
    if isinstance(value, (list, tuple)):
        return type(value)(configured(each) for each in value)
    if isinstance(value, dict):
        return {name: configured(each) for name, each in value.items()}
    is_object = not isinstance(value, type) and hasattr(value, "get_config") and hasattr(type(value), "from_config")
    return _Configured(value) if is_object else value


def encode_object(value: Any, name: str) -> Encoded:
    """An optimizer, a loss, metrics, or a list or dict of these as bytes, without their state.

    ``pickle.PicklingError`` names a part that cannot be pickled.
    """
    roots = {root_of(each) for each in _leaves(value) if not isinstance(each, _PRIMITIVES)}
    if len(roots) == 1 and None not in roots and all(is_own(type(each)) for each in _objects_of(value)):
        root = str(next(iter(roots)))
        config = keras_named(root).saving.serialize_keras_object(value)
        if _refers_to_keras_only(config):
            return Encoded(OBJECTS[root], json.dumps(config).encode())
    return Encoded(PICKLE, pickled(configured(value), name))


def decode_object(encoded: Encoded) -> Any:
    """The object of ``encode_object``. A pickle runs code that it names."""
    for root, name in OBJECTS.items():
        if encoded.format == name:
            return keras_named(root).saving.deserialize_keras_object(json.loads(encoded.content))
    return unpickled(encoded.content)


def _leaves(value: Any) -> List[Any]:
    if isinstance(value, (list, tuple, dict)):
        values = value.values() if isinstance(value, dict) else value
        return [leaf for each in values for leaf in _leaves(each)]
    return [value]


def _objects_of(value: Any) -> List[Any]:
    return [each for each in _leaves(value) if not isinstance(each, _PRIMITIVES)]


class KerasCodec(Codec):
    """The values of the parameters of estimators and models for Keras."""

    safe_formats = (*Codec.safe_formats, *FILES.values(), *OBJECTS.values())

    def encode(self, name: str, value: Any, values: Dict[str, Any]) -> Encoded:
        """Encodes a value; ``pickle.PicklingError`` names the part that cannot be saved."""
        if name == "model" and root_of(value) is not None:
            return encode_model(value, values.get("custom_objects"))
        if name in ("optimizer", "loss", "metrics"):
            return encode_object(value, name)
        return super().encode(name, value, values)

    def decode(self, name: str, encoded: Encoded, values: Dict[str, Any]) -> Any:
        """Decodes a value; ``ValueError`` for a format that this version does not know."""
        if encoded.format in OBJECTS.values():
            return decode_object(encoded)
        if name == "model" and encoded.format in (PICKLE, *FILES.values()):
            return decode_model(encoded)
        return super().decode(name, encoded, values)
