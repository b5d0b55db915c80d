"""Objects as text. Load only text that you trust: it can run code."""

from __future__ import annotations

import base64
import pickle
from typing import Any, Union


def loads_base64(encoded: Union[str, bytes]) -> Any:
    """The object that ``dumps_base64`` has encoded."""
    return pickle.loads(base64.b64decode(encoded))


def dumps_base64(obj: Any, to_ascii: bool = True) -> Union[str, bytes]:
    """The object, pickled by cloudpickle, in base64: as text, or as bytes."""
    import cloudpickle

    encoded = base64.b64encode(cloudpickle.dumps(obj))
    return encoded.decode("ascii") if to_ascii else encoded
