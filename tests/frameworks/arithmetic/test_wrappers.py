"""The generation of public functions from the table of signatures, tested with the rows of farandole.numpy."""

from __future__ import annotations

import inspect
import pickle
import traceback
from types import SimpleNamespace
from typing import Any

import farandole.numpy as hvd
import pytest
from farandole.common.parameter_types import types_of
from farandole.common.wrappers import Wrapper, public_in


def test_a_generated_function_shows_its_source_and_can_be_pickled() -> None:
    source = inspect.getsource(hvd.allreduce)
    assert source.startswith("def allreduce(\n    tensor: Any,\n    average: Optional[bool] = None,\n")
    assert (hvd.allreduce.__module__, hvd.allreduce.__qualname__) == ("farandole.numpy.ops", "allreduce")
    assert pickle.loads(pickle.dumps(hvd.allreduce)) is hvd.allreduce


def test_a_traceback_shows_the_line_of_a_generated_function() -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no such luck")

    broadcast_async = Wrapper("numpy", "somewhere")("broadcast_async", fail)
    with pytest.raises(RuntimeError) as caught:
        broadcast_async(1, 0)
    lines = "".join(traceback.format_exception(caught.type, caught.value, caught.tb))
    assert "return keep(fail(broadcasts[root_rank, False], name, tensor, process_set))" in lines


def test_a_function_whose_parameters_differ_from_its_row_is_refused() -> None:
    def allgather(tensor, process_set, name):  # type: ignore[no-untyped-def]
        return tensor

    with pytest.raises(AssertionError, match="numpy.allgather takes tensor, process_set, name, unlike its row"):
        public_in("numpy")(allgather)


def test_a_handwritten_function_gets_defaults_types_and_documentation_from_its_row() -> None:
    @public_in("numpy")
    def allgather(tensor, name, process_set):  # type: ignore[no-untyped-def]
        return tensor, name, process_set

    assert allgather(1) == (1, None, hvd.global_process_set)
    assert allgather.__annotations__ == types_of("numpy", "allgather")
    assert inspect.signature(allgather) == inspect.signature(hvd.allgather)
    assert allgather.__doc__ == hvd.allgather.__doc__


def test_an_operation_on_an_empty_group_is_not_started() -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("it was started")

    wrapper = Wrapper("numpy", "somewhere")
    assert wrapper("grouped_allgather", fail)([]) == ()
    assert wrapper("grouped_allreduce", fail)(()) == []
    with pytest.raises(RuntimeError):
        wrapper("grouped_allreduce_", fail)([])


def test_a_wrapper_packs_the_input_and_decompresses_the_output() -> None:
    def tripled(request: Any, name: Any, tensor: int, process_set: Any) -> int:
        return 3 * tensor

    half = SimpleNamespace(decompress=lambda tensor, context: (tensor, context))
    allreduce = Wrapper(
        "jax",
        "somewhere",
        is_call=False,
        Compression=SimpleNamespace(none=None),
        pack=lambda operation, name, compression, tensor: (tensor + 1, f"{operation} {name}"),
    )("allreduce", tripled)
    assert allreduce(1, name="weights", compression=half) == (6, "allreduce weights")


def test_a_helper_whose_name_has_another_meaning_in_the_module_is_refused() -> None:
    with pytest.raises(AssertionError, match="test_wrappers knows something else as pytest"):
        Wrapper("numpy", __name__, pytest=inspect)("broadcast", print)
