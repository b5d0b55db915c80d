"""Invalid calls that the interface documents, through both bindings, in the global process set and in a subset.

Only the wrong operation fails, with an error that names the tensor, the ranks and the values; later operations work.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple, Type

import farandole.numpy
import horovod.torch
import numpy
import pytest
import torch
from farandole.common.exceptions import HorovodInternalError
from farandole.common.process_sets import ProcessSet

pytestmark = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


class Binding(NamedTuple):
    """The package of a framework, and the function that makes its tensors."""

    hvd: Any
    ones: Callable[..., Any]

    def tensor(self, *shape: int, dtype: str = "float32") -> Any:
        return self.ones(shape, dtype=getattr(torch if self.hvd is horovod.torch else numpy, dtype))


BINDINGS = {"torch": Binding(horovod.torch, torch.ones), "numpy": Binding(farandole.numpy, numpy.ones)}


class Members(NamedTuple):
    """The members of an operation: all ranks, or a set without rank 0."""

    group: ProcessSet
    ranks: List[int]


@pytest.fixture(scope="module")
def sets() -> Iterator[Dict[str, Members]]:
    hvd = horovod.torch
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1")
        hvd.shutdown()
        hvd.init()
        all_ranks, others = list(range(hvd.size())), list(range(1, hvd.size()))
        yield {
            "all": Members(hvd.global_process_set, all_ranks),
            "set": Members(hvd.add_process_set(others), others),
        }
        hvd.barrier()
        hvd.shutdown()
    hvd.init()


@pytest.fixture(params=list(BINDINGS))
def binding(request: pytest.FixtureRequest) -> Binding:
    return BINDINGS[request.param]


@pytest.fixture(params=["all", "set"])
def members(request: pytest.FixtureRequest, sets: Dict[str, Members]) -> Members:
    found: Members = sets[request.param]
    return found


@pytest.fixture(params=["torch all", "numpy set"])
def binding_and_members(request: pytest.FixtureRequest, sets: Dict[str, Members]) -> Tuple[Binding, Members]:
    """One binding for each set, for errors that the core decides: they are the same through both bindings."""
    binding, _, members = request.param.partition(" ")
    return BINDINGS[binding], sets[members]


def assert_still_works(binding: Binding, members: Members, name: str) -> None:
    """Reduces under this name in the set. The barrier between tests shows that the job still works too."""
    if horovod.torch.rank() in members.ranks:
        result = binding.hvd.allreduce(binding.tensor(4), name=name, op=binding.hvd.Sum, process_set=members.group)
        assert result.tolist() == [len(members.ranks)] * 4


# ---- parameters that must be equal on all ranks ---------------------------------------------------------------

# For each operation and difference: the usual input, the input of the set's last rank, and the words that name the
# difference. Rows and extents are divisible by the size of every set.
Options = Dict[str, Any]
Input = Tuple[Tuple[int, ...], Options]


def differing() -> Dict[str, Tuple[str, Input, Input, Tuple[str, str]]]:
    cases: Dict[str, Tuple[str, Input, Input, Tuple[str, str]]] = {}
    tensors = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter")
    for operation in tensors:
        cases[f"{operation} dtype"] = (
            operation,
            ((12, 3), {}),
            ((12, 3), {"dtype": "int32"}),
            ("float32", "int32"),
        )
        cases[f"{operation} dimensions"] = (operation, ((12, 3), {}), ((12, 3, 1), {}), ("[12, 3]", "[12, 3, 1]"))
        cases[f"{operation} row"] = (operation, ((12, 3), {}), ((12, 5), {}), ("[12, 3]", "[12, 5]"))
    for operation in ("allreduce", "broadcast", "reducescatter"):
        cases[f"{operation} rows"] = (operation, ((12, 3), {}), ((24, 3), {}), ("[12, 3]", "[24, 3]"))
    for operation in ("allreduce", "reducescatter"):
        for scale in ("prescale_factor", "postscale_factor"):
            values: Tuple[Options, Options] = ({scale: 0.5}, {scale: 0.25})
            cases[f"{operation} {scale}"] = (operation, ((4,), values[0]), ((4,), values[1]), ("0.5", "0.25"))
        cases[f"{operation} op"] = (operation, ((4,), {"op": "Sum"}), ((4,), {"op": "Max"}), ("Sum", "Max"))
    cases["broadcast root"] = ("broadcast", ((4,), {"root": 0}), ((4,), {"root": -1}), ("", ""))
    return cases


DIFFERING = differing()


def call(binding: Binding, operation: str, given: Input, members: Members, name: str) -> Any:
    shape, options = given[0], dict(given[1])
    tensor = binding.tensor(*shape, dtype=options.pop("dtype", "float32"))
    if "op" in options:
        options["op"] = getattr(binding.hvd, options["op"])
    root_index = options.pop("root", 0)
    if operation == "broadcast":
        options["root_rank"] = members.ranks[root_index]
    return getattr(binding.hvd, operation)(tensor, name=name, process_set=members.group, **options)


@pytest.mark.parametrize("case", list(DIFFERING))
def test_a_difference_fails_on_every_rank_of_the_set(
    case: str, binding_and_members: Tuple[Binding, Members], name: str, rank: int
) -> None:
    binding, members = binding_and_members
    operation, usual, other, words = DIFFERING[case]
    if rank in members.ranks and len(members.ranks) > 1:
        first, last = members.ranks[0], members.ranks[-1]
        with pytest.raises(HorovodInternalError) as failed:
            call(binding, operation, other if rank == last else usual, members, name)
        text = str(failed.value)
        assert name in text and failed.value.kind == "mismatch", text  # type: ignore[attr-defined]
        for word in (*words, *((str(first), str(last)) if case == "broadcast root" else ())):
            assert word in text
        assert re.search(rf"\brank {first}\b", text) and re.search(rf"\brank {last}\b", text), text
    assert_still_works(binding, members, name)


@pytest.mark.parametrize("operation", ["allgather", "alltoall", "reducescatter"])
def test_operations_on_rows_refuse_a_scalar(
    operation: str, binding_and_members: Tuple[Binding, Members], name: str, rank: int
) -> None:
    binding, members = binding_and_members
    if rank in members.ranks:
        with pytest.raises((HorovodInternalError, ValueError), match=f"{re.escape(name)}|scalar"):
            call(binding, operation, ((), {}), members, name)
    assert_still_works(binding, members, name)


@pytest.mark.parametrize("operation", ["allgather", "broadcast", "alltoall", "reducescatter"])
def test_operations_other_than_allreduce_fail_when_a_rank_has_joined(
    operation: str, binding: Binding, sets: Dict[str, Members], name: str, rank: int, size: int
) -> None:
    members = sets["all"]
    if rank != size - 1:
        with pytest.raises(HorovodInternalError, match=re.escape(name)):
            call(binding, operation, ((12,), {}), members, name)
    binding.hvd.join()
    assert_still_works(binding, members, name)


# ---- mistakes that the calling rank finds ---------------------------------------------------------------------

OPERATIONS: Dict[str, Callable[[Binding, str, ProcessSet], Any]] = {
    "allreduce": lambda api, name, group: api.hvd.allreduce(api.tensor(2), name=name, process_set=group),
    "allreduce_": lambda api, name, group: api.hvd.allreduce_(api.tensor(2), name=name, process_set=group),
    "grouped_allreduce": lambda api, name, group: api.hvd.grouped_allreduce(
        [api.tensor(2)] * 2, name=name, process_set=group
    ),
    "allgather": lambda api, name, group: api.hvd.allgather(api.tensor(2), name=name, process_set=group),
    "broadcast": lambda api, name, group: api.hvd.broadcast(api.tensor(2), 1, name=name, process_set=group),
    "broadcast_": lambda api, name, group: api.hvd.broadcast_(api.tensor(2), 1, name=name, process_set=group),
    "alltoall": lambda api, name, group: api.hvd.alltoall(api.tensor(12), name=name, process_set=group),
    "reducescatter": lambda api, name, group: api.hvd.reducescatter(api.tensor(2), name=name, process_set=group),
    "barrier": lambda api, name, group: api.hvd.barrier(process_set=group),
}


@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_calls_into_foreign_unregistered_and_unknown_sets_are_refused(
    operation: str, binding: Binding, sets: Dict[str, Members], name: str, rank: int, size: int
) -> None:
    members = sets["set"]
    if rank == 0:
        with pytest.raises(ValueError, match=f"rank 0 is not in process set {members.group.process_set_id}"):
            OPERATIONS[operation](binding, name, members.group)
    with pytest.raises(ValueError, match="not registered"):
        OPERATIONS[operation](binding, name, ProcessSet([0]))
    unknown = ProcessSet([0])
    unknown.process_set_id = 77
    with pytest.raises(ValueError, match="77"):
        OPERATIONS[operation](binding, name, unknown)
    assert_still_works(binding, members, name)


def test_calls_into_a_removed_set_are_refused(binding: Binding, sets: Dict[str, Members], name: str) -> None:
    removed = binding.hvd.add_process_set([0])
    number = removed.process_set_id
    assert binding.hvd.remove_process_set(removed)
    for operation in OPERATIONS.values():
        with pytest.raises(ValueError, match="not registered"):
            operation(binding, name, removed)
    removed.process_set_id = number
    with pytest.raises(ValueError, match=str(number)):
        binding.hvd.allreduce(binding.tensor(2), name=name, process_set=removed)
    assert_still_works(binding, sets["set"], name)


def test_a_root_rank_outside_the_set_is_refused(
    binding: Binding, members: Members, name: str, rank: int, size: int
) -> None:
    if rank in members.ranks:
        for root in [root for root in (-1, 0, size, 1000) if root not in members.ranks]:
            for broadcast in (binding.hvd.broadcast, binding.hvd.broadcast_, binding.hvd.broadcast_async):
                with pytest.raises(ValueError, match=f"root rank {root} is not in the process set of ranks"):
                    broadcast(binding.tensor(2), root, name=name, process_set=members.group)
    assert_still_works(binding, members, name)


# Invalid splits of 12 rows among `count` ranks, and the patterns of their errors.
SPLITS: Dict[str, Tuple[Callable[[int], Any], Callable[[int], str]]] = {
    "two dimensions": (lambda count: numpy.ones((count, 1), "int32"), lambda count: "one dimension|flat array"),
    "fractions": (lambda count: numpy.full(count, 12 / count, "float64"), lambda count: "int32|whole numbers"),
    "one too few": (lambda count: [12] + [0] * (count - 2) if count > 1 else [4, 8], lambda count: "splits"),
    "one too many": (lambda count: [12] + [0] * count, lambda count: f"{count + 1} splits for {count} rank"),
    "too small a sum": (lambda count: [11] + [0] * (count - 1), lambda count: r"\b11\b.*\b12\b"),
    "too great a sum": (lambda count: [13] + [0] * (count - 1), lambda count: r"\b13\b.*\b12\b"),
    "negative": (lambda count: [13] + [0] * (count - 2) + [-1] if count > 1 else [-1], lambda count: "-1"),
}


@pytest.mark.parametrize("wrong", list(SPLITS))
def test_invalid_splits_are_refused(wrong: str, binding: Binding, members: Members, name: str, rank: int) -> None:
    if rank in members.ranks:
        count = len(members.ranks)
        make, words = SPLITS[wrong]
        splits = make(count)
        if binding.hvd is horovod.torch and isinstance(splits, numpy.ndarray):
            splits = torch.from_numpy(splits)
        for alltoall in (binding.hvd.alltoall, binding.hvd.alltoall_async):
            with pytest.raises(ValueError, match=words(count)):
                alltoall(binding.tensor(12), splits, name=name, process_set=members.group)
    assert_still_works(binding, members, name)


def test_rows_that_do_not_divide_evenly_are_refused_without_splits(
    binding: Binding, members: Members, name: str, rank: int
) -> None:
    count = len(members.ranks)
    if rank in members.ranks and count > 1:
        with pytest.raises(ValueError, match=rf"\b{count + 1}\b.*\b{count}\b"):
            binding.hvd.alltoall(binding.tensor(count + 1), name=name, process_set=members.group)
    assert_still_works(binding, members, name)


@pytest.mark.parametrize("operation", ["reducescatter", "grouped_reducescatter"])
def test_reducescatter_refuses_adasum_and_unknown_reductions(
    operation: str, binding: Binding, members: Members, name: str, rank: int
) -> None:
    for op in (binding.hvd.Adasum, 6, -1):
        if rank in members.ranks:
            tensor = binding.tensor(4) if operation == "reducescatter" else [binding.tensor(4)]
            with pytest.raises(HorovodInternalError, match="reduce") as failed:
                getattr(binding.hvd, operation)(tensor, name=name, op=op, process_set=members.group)
            assert failed.value.kind == "unimplemented"  # type: ignore[attr-defined]
    assert_still_works(binding, members, name)


def test_a_name_in_flight_is_refused(binding: Binding, members: Members, name: str, rank: int) -> None:
    """A group with a name in flight is refused as a whole."""
    first = len(members.ranks) > 1 and rank == members.ranks[0]

    def begin() -> List[int]:
        hvd = binding.hvd
        alone = hvd.allreduce_async(binding.tensor(2), name=name, op=hvd.Sum, process_set=members.group)
        several = [binding.tensor(2), binding.tensor(3)]
        group = hvd.grouped_allreduce_async(several, name=name, op=hvd.Sum, process_set=members.group)
        return [alone, group]

    handles = begin() if first else []
    if first:  # the other ranks have not called yet
        hvd, tensor = binding.hvd, binding.tensor
        for again in (
            lambda: hvd.allreduce_async(tensor(2), name=name, process_set=members.group),
            lambda: hvd.grouped_allreduce_async([tensor(2)] * 2, name=name, process_set=members.group),
        ):
            with pytest.raises(ValueError, match=f"{re.escape(name)}.*in flight"):
                again()
    binding.hvd.barrier()
    if rank in members.ranks:
        alone, group = handles or begin()
        assert binding.hvd.synchronize(alone)[0] == len(members.ranks)
        assert [result[0] for result in binding.hvd.synchronize(group)] == [len(members.ranks)] * 2
    assert_still_works(binding, members, name)


@pytest.mark.parametrize("operation", ["allreduce", "allreduce_", "reducescatter"])
def test_reductions_refuse_truth_values(
    operation: str, binding: Binding, members: Members, name: str, rank: int
) -> None:
    if rank in members.ranks:
        with pytest.raises(ValueError, match="bool"):
            tensor = binding.tensor(4) > 0
            getattr(binding.hvd, operation)(tensor, name=name, process_set=members.group)
    assert_still_works(binding, members, name)


def test_invalid_lists_of_ranks_are_refused(
    binding: Binding, sets: Dict[str, Members], name: str, rank: int, size: int
) -> None:
    """Unknown, repeated or no ranks, existing sets, and lists that differ between ranks fail on all ranks."""
    cases: List[Tuple[List[int], str]] = [
        ([0, 0], r"\[0, 0\] names rank 0 twice"),
        ([0, size], rf"names rank {size}; this job has ranks 0 to {size - 1}"),
        ([-1], "names rank -1"),
        ([], "at least one rank"),
        (list(range(size)), "exists already: it is the global one"),
        (sets["set"].ranks[::-1], f"exists already: it has id {sets['set'].group.process_set_id}"),
        ([0] if rank == 0 else [0, 0], r"rank 0 adds a process set of ranks \[0\] and rank 1"),
    ]
    for ranks, words in cases:
        with pytest.raises(ValueError, match=words):
            binding.hvd.add_process_set(ranks)
        assert_still_works(binding, sets["set"], name)


def test_operations_fail_without_a_job_and_work_in_the_next_job(binding: Binding, name: str) -> None:
    binding.hvd.barrier()
    binding.hvd.shutdown()
    errors: Tuple[Type[Exception], ...] = (ValueError, HorovodInternalError)
    for operation in OPERATIONS.values():
        with pytest.raises(errors, match="init"):
            operation(binding, name, horovod.torch.global_process_set)
    binding.hvd.init()
    result = binding.hvd.allreduce(binding.tensor(2), name=name, op=binding.hvd.Sum)
    assert result.tolist() == [binding.hvd.size()] * 2
