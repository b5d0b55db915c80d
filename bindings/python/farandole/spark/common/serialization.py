"""Saves estimators and models for Spark ML, and loads them.

A saved object is a folder on any file system that Spark can write: ``metadata`` is Spark's own JSON, with the
parameters that JSON can hold, and ``values`` is a Parquet table with the others (name, piece, content). A value
in a framework's safe format cannot run code when it is loaded. All others are pickles, because a parameter may be any
object of Python; loading a pickle runs code that its author chose. ``load`` therefore warns with the names of the
pickled values: load only folders to which you alone could write.
"""

from __future__ import annotations

import io
import os
import warnings
from typing import Any, Dict, List, NamedTuple, Sequence

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

PICKLE = "pickle"
"""The format of values that cloudpickle has written."""
COLUMNS = "columns"
"""The format of the metadata of columns: JSON with the names of Spark's types."""
_MARK = "farandole format"
"""In the JSON, a value that is in the table is an object with this key, and its format."""
_PIECE_BYTES = 16 << 20


class UnpicklingWarning(UserWarning):
    """A folder contains pickled values, whose loading runs code that their author chose."""


class Encoded(NamedTuple):
    """A value as bytes.

    :param format: ``pickle``, or a format that the codec of a framework knows
    """

    format: str
    content: bytes


class Codec:
    """Turns the values of parameters into bytes and back. A framework derives a class for its own types."""

    first: Sequence[str] = ()
    """Names of parameters to decode before the others, because the others refer to them."""
    safe_formats: Sequence[str] = (COLUMNS,)
    """Formats whose loading runs no code that the author of the bytes chose."""

    def encode(self, name: str, value: Any, values: Dict[str, Any]) -> Encoded:
        """Encodes a value; ``pickle.PicklingError`` names the part that cannot be pickled.

        :param values: the values of all parameters, by name
        """
        if name == "_metadata":
            from farandole.spark.common.metadata import FolderMetadata

            try:
                return Encoded(COLUMNS, FolderMetadata(0, 0.0, 0, value).to_json().encode())
            except (AttributeError, TypeError):
                pass  # metadata that another program has made, which a pickle can hold
        return Encoded(PICKLE, pickled(value, name))

    def decode(self, name: str, encoded: Encoded, values: Dict[str, Any]) -> Any:
        """Decodes a value; ``ValueError`` for a format that this version does not know.

        :param values: the values that have been decoded, by name
        """
        if encoded.format == COLUMNS:
            from farandole.spark.common.metadata import FolderMetadata

            return FolderMetadata.from_json(encoded.content.decode(), "the saved value of _metadata").columns
        if encoded.format != PICKLE:
            raise ValueError(f"the parameter {name} is saved in the format {encoded.format!r}, which is unknown here")
        return unpickled(encoded.content)


def pickled(value: Any, name: str) -> bytes:
    """The value as cloudpickle writes it; ``pickle.PicklingError`` names the part that cannot be pickled."""
    from farandole.runner.functions import pickling

    stream = io.BytesIO()
    pickling.dump(value, stream, name)
    return stream.getvalue()


def unpickled(content: bytes) -> Any:
    """The value of bytes that ``pickled`` has made. This runs code that the bytes name: pass only bytes that you
    trust."""
    from farandole.runner.functions import pickling

    return pickling.load(io.BytesIO(content))


def is_plain(value: Any) -> bool:
    """Whether JSON can hold the value. A tuple counts as a list."""
    if isinstance(value, (list, tuple)):
        return all(is_plain(item) for item in value)
    if isinstance(value, dict):
        return _MARK not in value and all(type(key) is str and is_plain(item) for key, item in value.items())
    return value is None or type(value) in (bool, int, float, str)


class HorovodParamsWriter(MLWriter):
    """Saves an estimator or a model with all its parameters. A framework derives a class with its own codec."""

    _codec: Codec = Codec()
    """Encodes values that JSON cannot hold."""

    def __init__(self, instance: Any) -> None:
        super().__init__()
        self.instance = instance

    def saveImpl(self, path: str) -> None:
        """Writes the folder. ``pickle.PicklingError`` names a parameter that cannot be saved, before anything is
        written."""
        values = {each.name: value for each, value in self.instance._paramMap.items()}
        encoded = {
            name: self._codec.encode(name, value, values) for name, value in values.items() if not is_plain(value)
        }
        formats = {name: {_MARK: each.format} for name, each in encoded.items()}
        spark = self.sparkSession
        DefaultParamsWriter.saveMetadata(
            self.instance, path, _session_or_context(spark), paramMap={**values, **formats}
        )
        rows = [(name, index, piece) for name, each in encoded.items() for index, piece in _pieces(each.content)]
        frame = spark.createDataFrame(rows, "name string, piece int, content binary")
        frame.coalesce(1).write.parquet(os.path.join(path, "values"))


class HorovodParamsReader(MLReader):
    """Loads an estimator or a model that ``HorovodParamsWriter`` has saved. Values that are pickled run code that their
    author chose: see ``load``. A framework derives a class with its own codec.

    :param cls: the class of the saved object
    """

    _codec: Codec = Codec()
    """Decodes values that JSON cannot hold."""

    def __init__(self, cls: Any) -> None:
        super().__init__()
        self.cls = cls

    def load(self, path: str) -> Any:
        """Loads the object. Warns (``UnpicklingWarning``) when values must be unpickled, which runs code that the
        author of the folder chose. ``ValueError`` where the folder holds an object of another class or is incomplete.
        """
        spark = self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, _session_or_context(spark))
        expected = f"{self.cls.__module__}.{self.cls.__name__}"
        if metadata["class"] != expected:
            raise ValueError(f"{path} holds a {metadata['class']}, not a {expected}: call load of that class")
        values = metadata["paramMap"]
        marked = {name: value[_MARK] for name, value in values.items() if isinstance(value, dict) and _MARK in value}
        pickles = sorted(name for name, format in marked.items() if format not in self._codec.safe_formats)
        if pickles:
            warnings.warn(
                f"{path} holds pickled values ({', '.join(pickles)}): loading them runs code that their author chose. "
                "Load only folders that you trust",
                UnpicklingWarning,
                stacklevel=2,
            )
        contents = _contents(spark, os.path.join(path, "values")) if marked else {}
        for name in sorted(marked, key=lambda each: each not in self._codec.first):
            if name not in contents:
                raise ValueError(f"{path}/values has no value for the parameter {name}: the folder is incomplete")
            values[name] = self._codec.decode(name, Encoded(marked[name], contents[name]), values)
        instance = self.cls()
        instance._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(instance, metadata)
        return instance


def _session_or_context(spark: Any) -> Any:
    """The argument that this version of PySpark takes: the session from version 4 on, the context before."""
    import pyspark

    return spark if int(pyspark.__version__.partition(".")[0]) >= 4 else spark.sparkContext


def _pieces(content: bytes) -> Any:
    return enumerate(content[start : start + _PIECE_BYTES] for start in range(0, max(1, len(content)), _PIECE_BYTES))


def _contents(spark: Any, path: str) -> Dict[str, bytes]:
    pieces: Dict[str, List[Any]] = {}
    for row in spark.read.parquet(path).collect():
        pieces.setdefault(row["name"], []).append((row["piece"], row["content"]))
    return {name: b"".join(bytes(content) for _, content in sorted(found)) for name, found in pieces.items()}
