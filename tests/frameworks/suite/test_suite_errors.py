"""Errors: each fails only its own operation, on every rank, with the framework's own exception and a helpful message;
the job continues."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any, Callable, Dict, List, Tuple

import drivers
import numpy
import pytest
from farandole.common import elastic, job, membership
from farandole.common.elastic import State
from farandole.common.exceptions import HorovodInternalError, MismatchError
from scripted_membership import Runtime

DRIVER = drivers.current()
HVD = DRIVER.hvd
ERRORS = DRIVER.errors()

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def ones(*shape: int, dtype: str = "float32") -> Any:
    return DRIVER.make(numpy.ones(shape), dtype)


def fine(name: str, size: int) -> None:
    """Checks that the job continues to work, also under the same tensor name."""
    result = DRIVER.to_numpy(HVD.allreduce(ones(4), name=name, op=HVD.Sum))
    numpy.testing.assert_array_equal(result, numpy.full(4, size))


# The call of all other ranks, the different call of the last rank, and words that the error must contain.
MISMATCHES: Dict[str, Tuple[Callable[[str], Any], Callable[[str], Any], Tuple[str, str]]] = {
    "dtype": (
        lambda name: HVD.allreduce(ones(4), name=name),
        lambda name: HVD.allreduce(ones(4, dtype="int32"), name=name),
        ("float32", "int32"),
    ),
    "shape": (
        lambda name: HVD.allreduce(ones(4, 3), name=name),
        lambda name: HVD.allreduce(ones(3, 4), name=name),
        ("[4, 3]", "[3, 4]"),
    ),
    "reduction": (
        lambda name: HVD.allreduce(ones(4), name=name, op=HVD.Sum),
        lambda name: HVD.allreduce(ones(4), name=name, op=HVD.Max),
        ("Sum", "Max"),
    ),
    "prescale": (
        lambda name: HVD.allreduce(ones(4), name=name, prescale_factor=0.5),
        lambda name: HVD.allreduce(ones(4), name=name, prescale_factor=0.25),
        ("0.5", "0.25"),
    ),
    "broadcast shape": (
        lambda name: HVD.broadcast(ones(4), 0, name=name),
        lambda name: HVD.broadcast(ones(5), 0, name=name),
        ("[4]", "[5]"),
    ),
    "root": (
        lambda name: HVD.broadcast(ones(4), 0, name=name),
        lambda name: HVD.broadcast(ones(4), 1, name=name),
        ("0", "1"),
    ),
    "gathered type": (
        lambda name: HVD.allgather(ones(4), name=name),
        lambda name: HVD.allgather(ones(4, dtype="int32"), name=name),
        ("float32", "int32"),
    ),
    "gathered row": (
        lambda name: HVD.allgather(ones(4, 3), name=name),
        lambda name: HVD.allgather(ones(4, 5), name=name),
        ("[4, 3]", "[4, 5]"),
    ),
    "scattered shape": (
        lambda name: HVD.reducescatter(ones(4, 3), name=name),
        lambda name: HVD.reducescatter(ones(4, 5), name=name),
        ("[4, 3]", "[4, 5]"),
    ),
    "member of a group": (
        lambda name: HVD.grouped_allreduce([ones(2), ones(4)], name=name)[1],
        lambda name: HVD.grouped_allreduce([ones(2), ones(5)], name=name)[1],
        ("[4]", "[5]"),
    ),
}


@several_ranks
@pytest.mark.parametrize("mismatch", list(MISMATCHES))
def test_a_mismatch_between_ranks_names_the_tensor_and_both_values(
    mismatch: str, name: str, rank: int, size: int
) -> None:
    most, last, words = MISMATCHES[mismatch]
    tensor = re.sub(r"\W", "_", name)
    with pytest.raises(ERRORS["mismatch"]) as failed:
        DRIVER.to_numpy((last if rank == size - 1 else most)(tensor))
    message = str(failed.value)
    assert tensor in message and all(word in message for word in words), message
    fine(f"{tensor}.after", size)


@several_ranks
@pytest.mark.parametrize("mode", DRIVER.modes)
def test_a_mismatch_ends_the_elastic_loop_on_every_rank_without_a_retry(
    mode: str, name: str, rank: int, size: int
) -> None:
    tensor = re.sub(r"\W", "_", name)
    tries = []

    def train(state: State) -> None:
        tries.append(state)
        assert len(tries) == 1, "the loop has called the function again"
        values = ones(3 + (rank == size - 1))
        DRIVER.to_numpy(DRIVER.run(mode, lambda own: HVD.allreduce(own, name=tensor), values))

    run = HVD.elastic.run if hasattr(HVD, "elastic") else elastic.run  # farandole.mxnet has no elastic module
    with pytest.raises(MismatchError, match=tensor):
        run(train)(elastic.ObjectState(HVD.broadcast_object, HVD.rank))
    fine(f"{tensor}.after", size)


def test_a_late_member_may_communicate_only_in_its_loop(monkeypatch: pytest.MonkeyPatch, name: str, size: int) -> None:
    begin = job.start

    def begin_late(*arguments: Any) -> bool:
        begun = begin(*arguments)
        job.runtime = Runtime(job.runtime, joined_late=True)
        return begun

    def total(mode: str) -> Any:
        tensor = f"{name}.{mode}"
        return DRIVER.to_numpy(DRIVER.run(mode, lambda own: HVD.allreduce(own, name=tensor, op=HVD.Sum), ones(2)))

    calls: List[Callable[[], Any]] = [
        *(lambda mode=mode: total(mode) for mode in DRIVER.modes),
        lambda: DRIVER.to_numpy(HVD.grouped_allreduce([ones(2)], name=name)[0]),
        lambda: DRIVER.to_numpy(HVD.allgather(ones(2), name=name)),
        lambda: HVD.broadcast_object(1, name=name),
        HVD.barrier,
    ]
    HVD.shutdown()
    with monkeypatch.context() as patched:
        patched.setattr(membership, "is_elastic", lambda: True)
        patched.setattr(membership, "_in_loop", False)
        patched.setattr(job, "start", begin_late)
        HVD.init()
        assert HVD.size() == size
        for call in calls:
            with pytest.raises((ERRORS["precondition"], HorovodInternalError), match=r"elastic\.run"):
                call()
        state = elastic.ObjectState(HVD.broadcast_object, HVD.rank)
        results = elastic.run(lambda state: [total(mode).tolist() for mode in DRIVER.modes])(state)
        assert results == [[size, size]] * len(DRIVER.modes)
        HVD.shutdown()
    HVD.init(process_sets="dynamic")


@pytest.mark.parametrize("dtype", DRIVER.as_bytes)
def test_types_that_cannot_be_reduced_are_refused_by_the_call(dtype: str, name: str, size: int) -> None:
    wrong = DRIVER.make([1, 2], dtype)
    for call in (
        lambda: HVD.allreduce(wrong, name=name),
        lambda: HVD.grouped_allreduce([ones(2), wrong], name=name)[1],
    ):
        with pytest.raises(ERRORS["dtype"]):
            DRIVER.to_numpy(call())
    fine(name, size)


@pytest.mark.parametrize("dtype", DRIVER.as_bytes)
def test_operations_on_rows_refuse_a_scalar_of_any_type(dtype: str, name: str, size: int) -> None:
    scalar = DRIVER.make(1, dtype)
    for call in (lambda: HVD.allgather(scalar, name=name), lambda: HVD.alltoall(scalar, name=name)):
        with pytest.raises((*DRIVER.either("invalid", "precondition"), ValueError)):
            DRIVER.to_numpy(call())
    fine(name, size)


@pytest.mark.skipif("bool" not in DRIVER.movable, reason="has no bool")
def test_reductions_of_bool_tensors_are_refused(name: str, size: int) -> None:
    for call in (
        lambda: HVD.allreduce(ones(2, dtype="bool"), name=name),
        lambda: HVD.reducescatter(ones(size, dtype="bool"), name=name),
    ):
        with pytest.raises(ERRORS["dtype"]):
            DRIVER.to_numpy(call())
    fine(name, size)


@pytest.mark.parametrize("splits", [[1], [3, 9], [-1, 2], [1, 1, 1, 1, 1, 1]], ids=str)
def test_splits_that_do_not_match_the_rows_are_refused(splits: Any, name: str, size: int) -> None:
    with pytest.raises(ERRORS["invalid"]):
        DRIVER.to_numpy(HVD.alltoall(ones(7), DRIVER.make(splits, "int32"), name=name)[0])
    fine(name, size)


def test_a_root_rank_outside_the_job_is_refused(name: str, size: int) -> None:
    with pytest.raises(ERRORS["invalid"], match=str(size)):
        DRIVER.to_numpy(HVD.broadcast(ones(2), size, name=name))
    fine(name, size)


def test_allgather_reducescatter_and_alltoall_refuse_a_scalar(name: str, size: int) -> None:
    for call in (
        lambda: HVD.allgather(ones(), name=name),
        lambda: HVD.reducescatter(ones(), name=name),
        lambda: HVD.alltoall(ones(), name=name),
    ):
        with pytest.raises((*DRIVER.either("invalid", "precondition"), ValueError)):
            DRIVER.to_numpy(call())
    fine(name, size)


def test_reducescatter_with_adasum_is_refused(name: str, size: int) -> None:
    with pytest.raises(ERRORS["aborted"], match="Adasum"):
        DRIVER.to_numpy(HVD.reducescatter(ones(size), op=HVD.Adasum, name=name))
    fine(name, size)


@several_ranks
def test_a_tensor_name_that_is_in_flight_is_refused(name: str, rank: int, size: int) -> None:
    if rank == 0:
        first = DRIVER.start(ones(3), name)
        if first is not None:
            with pytest.raises(ERRORS["invalid"], match=name):
                second = DRIVER.start(ones(3), name)
                assert second is not None
                DRIVER.to_numpy(second())
    HVD.barrier()
    if rank:
        first = DRIVER.start(ones(3), name)
    if first is None:
        pytest.skip("every call waits")
    numpy.testing.assert_array_equal(DRIVER.to_numpy(first()), numpy.full(3, size))
    fine(name, size)


def test_an_unregistered_process_set_is_refused(hvd: ModuleType, name: str, size: int) -> None:
    with pytest.raises(DRIVER.either("invalid", "precondition")):
        DRIVER.to_numpy(hvd.allreduce(ones(2), name=name, process_set=hvd.ProcessSet([0])))
    fine(name, size)


# Calls with wrong arguments: the call, its exception, and words that the message must contain.
def arguments() -> Dict[str, Tuple[Callable[[], Any], Any, Tuple[str, ...]]]:
    tensor, several = ones(4), [ones(4), ones(2)]
    average = "takes True, False or None as average, not the "
    rows: Dict[str, Tuple[Callable[[], Any], Any, Tuple[str, ...]]] = {
        "average": (lambda: HVD.allreduce(tensor, HVD.Sum), TypeError, (f"allreduce {average}int 1", "op=Sum")),
        "average by text": (lambda: HVD.allreduce(tensor, "sum"), TypeError, (f"allreduce {average}str 'sum'", "op=")),
        "average of a group": (
            lambda: HVD.grouped_allreduce(several, HVD.Average),
            TypeError,
            (f"grouped_allreduce {average}int 0", "op=Average"),
        ),
        "average and op": (
            lambda: HVD.allreduce(tensor, average=True, op=HVD.Sum),
            ValueError,
            ("allreduce takes op or average, not both",),
        ),
        "barrier's set": (
            lambda: HVD.barrier(3),
            TypeError,
            ("barrier takes a ProcessSet as process_set, not the int 3",),
        ),
        "None in a group": (
            lambda: HVD.grouped_allreduce([tensor, None], name="grad"),
            TypeError,
            ("grouped_allreduce.grad", "grouped_allreduce takes", "not None"),
        ),
    }
    single = {
        "allreduce": HVD.allreduce,
        "allgather": HVD.allgather,
        "broadcast": lambda value, **options: HVD.broadcast(value, 0, **options),
        "alltoall": HVD.alltoall,
        "reducescatter": HVD.reducescatter,
    }
    for operation, call in single.items():
        rows[f"{operation} of None"] = (
            lambda call=call: call(None, name="grad"),
            TypeError,
            (f"{operation}.grad: {operation} takes", "not None"),
        )
        rows[f"{operation} by a number"] = (
            lambda call=call: call(tensor, name=5),
            TypeError,
            (f"{operation} takes a str or None as name, not the int 5",),
        )
        rows[f"{operation} in 3"] = (
            lambda call=call: call(tensor, name="grad", process_set=3),
            TypeError,
            (f"{operation} takes a ProcessSet as process_set, not the int 3",),
        )
    for operation in ("grouped_allreduce", "grouped_allgather", "grouped_reducescatter"):
        call = getattr(HVD, operation)
        takes = f"{operation}.grad: {operation} takes a list of tensors, not "
        for value, words in ((tensor, "one "), (None, "None"), ({"a": tensor}, "dict"), (1.0, "the float 1.0")):
            rows[f"{operation} of {words}"] = (
                lambda call=call, value=value: call(value, name="grad"),
                TypeError,
                (takes + words,),
            )
    for operation in ("allreduce", "grouped_allreduce", "reducescatter", "grouped_reducescatter"):
        if DRIVER.offers(operation, "compression"):
            given = several if operation.startswith("grouped") else tensor
            for compression, words in (("fp16", "the str 'fp16' is no compressor"), (Unpaired, "Unpaired.compress()")):
                rows[f"{operation} compressed by {compression}"] = (
                    lambda operation=operation, given=given, compression=compression: getattr(HVD, operation)(
                        given, name="grad", compression=compression
                    ),
                    TypeError,
                    (f"{operation}.grad: {operation}", words),
                )
    return rows


class Unpaired:
    """A compressor that does not return the context that ``decompress`` needs."""

    @staticmethod
    def compress(tensor: Any) -> Any:
        return tensor

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        return tensor


def test_wrong_arguments_raise_exceptions_that_explain_them(name: str, size: int) -> None:
    problems = {}
    for case, (call, kind, words) in arguments().items():
        try:
            problems[case] = f"returned {call()!r}"
        except Exception as raised:
            if not isinstance(raised, kind) or any(word not in str(raised) for word in words):
                problems[case] = f"{type(raised).__name__}: {raised}"
    assert not {case: problem for case, problem in problems.items() if problem}
    fine(name, size)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_splits_may_be_int32_or_int64(dtype: str, name: str, rank: int, size: int) -> None:
    splits = DRIVER.make(numpy.arange(1, size + 1), dtype)
    rows, counts = HVD.alltoall(ones(size * (size + 1) // 2), splits, name=name)
    assert DRIVER.to_numpy(rows).tolist() == [1.0] * (size * (rank + 1))
    assert DRIVER.to_numpy(counts).tolist() == [rank + 1] * size
