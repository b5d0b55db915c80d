"""Classes and functions of the script are the receiver's own if it has them, and the sender's values otherwise."""

from __future__ import annotations

import collections
import io
import pickle
import sys
import threading
import types
from typing import Any

import pytest
from farandole.common import object_pickler
from farandole.common.object_pickler import ObjectPickler


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A script with the class Config and the function twice, on the sender and, until a test changes it, on the
    receiver."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(
        "class Config:\n    class Inner:\n        depth = 3\ndef twice(x):\n    return factor * x\nfactor = 2",
        vars(module),
    )
    return module


def dumped(obj: Any) -> bytes:
    stream = io.BytesIO()
    ObjectPickler(stream).dump(obj)
    return stream.getvalue()


def test_a_receiver_takes_its_own_classes_and_functions(script: types.ModuleType) -> None:
    content = dumped([script.Config, script.Config(), script.Config.Inner, script.twice])
    found = pickle.loads(content)
    assert found[0] is script.Config and type(found[1]) is script.Config
    assert found[2] is script.Config.Inner and found[3] is script.twice
    script.Config = type("Config", (), {"__module__": "__main__"})
    assert pickle.loads(content)[0] is script.Config


def test_a_receiver_that_lacks_a_name_takes_the_value(script: types.ModuleType) -> None:
    content = dumped([script.Config.Inner, script.Config(), script.twice])
    sent = script.twice
    del script.Config, script.twice, script.factor
    inner, config, function = pickle.loads(content)
    assert inner.depth == 3 and type(config).Inner.depth == 3
    assert function is not sent and function(4) == 8


def test_a_name_that_is_of_another_kind_on_the_receiver_is_not_taken(script: types.ModuleType) -> None:
    config, content = script.Config, dumped([script.Config, script.twice])
    script.Config, script.twice = script.twice, config
    found = pickle.loads(content)
    assert isinstance(found[0], type) and found[0].Inner.depth == 3 and found[1](4) == 8


@pytest.mark.parametrize("used", [threading.Lock(), bytes(1 << 20)], ids=["a lock", "much"])
def test_a_function_whose_value_cannot_be_sent_is_sent_by_name(
    script: types.ModuleType, used: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_pickler, "MOST_VALUE_BYTES", 1 << 20)
    script.factor = used
    content = dumped(script.twice)
    assert len(content) < 1000 and pickle.loads(content) is script.twice
    del script.twice
    with pytest.raises(AttributeError, match="contains twice of the sender's script"):
        pickle.loads(content)


def test_safe_objects_are_sent_by_name(script: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARANDOLE_SAFE_OBJECTS", "1")
    pickled = dumped(script.Config)
    assert pickle.loads(pickled) is script.Config and b"own_or_received" not in pickled


def test_classes_of_modules_are_sent_by_name(script: types.ModuleType) -> None:
    assert pickle.loads(dumped(collections.Counter)) is collections.Counter
