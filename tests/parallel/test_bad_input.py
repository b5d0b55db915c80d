"""Every mistake that the interface names, in both bindings, among all ranks and in a set.

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


class Door(NamedTuple):
    """One framework, and how its tensors are made."""

    hvd: Any
    ones: Callable[..., Any]

    def tensor(self, *shape: int, dtype: str = "float32") -> Any:
        return self.ones(shape, dtype=getattr(torch if self.hvd is horovod.torch else numpy, dtype))


DOORS = {"torch": Door(horovod.torch, torch.ones), "numpy": Door(farandole.numpy, numpy.ones)}


class Party(NamedTuple):
    """Who takes part: everybody, or a set without rank 0."""

    group: ProcessSet
    ranks: List[int]


@pytest.fixture(scope="module")
def sets() -> Iterator[Dict[str, Party]]:
    hvd = horovod.torch
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1")
        hvd.shutdown()
        hvd.init()
        everybody, others = list(range(hvd.size())), list(range(1, hvd.size()))
        yield {
            "all": Party(hvd.global_process_set, everybody),
            "set": Party(hvd.add_process_set(others), others),
        }
        hvd.barrier()
        hvd.shutdown()
    hvd.init()


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest) -> Door:
    return DOORS[request.param]


@pytest.fixture(params=["all", "set"])
def party(request: pytest.FixtureRequest, sets: Dict[str, Party]) -> Party:
    found: Party = sets[request.param]
    return found


@pytest.fixture(params=["torch all", "numpy set"])
def place(request: pytest.FixtureRequest, sets: Dict[str, Party]) -> Tuple[Door, Party]:
    """For what the core decides, which is the same behind both bindings."""
    door, _, party = request.param.partition(" ")
    return DOORS[door], sets[party]


def fine(door: Door, party: Party, name: str) -> None:
    """The set and the name go on; that all ranks meet between tests says so of the job."""
    if horovod.torch.rank() in party.ranks:
        result = door.hvd.allreduce(door.tensor(4), name=name, op=door.hvd.Sum, process_set=party.group)
        assert result.tolist() == [len(party.ranks)] * 4


# ---- what ranks must agree on -----------------------------------------------------------------------------------

# By what differs and in which operation: what the last rank of the set brings otherwise than the others, and the words
# that tell it apart. Rows and extents are so many that every set can share them out.
Options = Dict[str, Any]
Brought = Tuple[Tuple[int, ...], Options]


def differing() -> Dict[str, Tuple[str, Brought, Brought, Tuple[str, str]]]:
    cases: Dict[str, Tuple[str, Brought, Brought, Tuple[str, str]]] = {}
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


def call(door: Door, operation: str, brought: Brought, party: Party, name: str) -> Any:
    shape, options = brought[0], dict(brought[1])
    tensor = door.tensor(*shape, dtype=options.pop("dtype", "float32"))
    if "op" in options:
        options["op"] = getattr(door.hvd, options["op"])
    place = options.pop("root", 0)
    if operation == "broadcast":
        options["root_rank"] = party.ranks[place]
    return getattr(door.hvd, operation)(tensor, name=name, process_set=party.group, **options)


@pytest.mark.parametrize("case", list(DIFFERING))
def test_what_differs_fails_on_every_rank_of_the_set(
    case: str, place: Tuple[Door, Party], name: str, rank: int
) -> None:
    door, party = place
    operation, usual, other, words = DIFFERING[case]
    if rank in party.ranks and len(party.ranks) > 1:
        first, last = party.ranks[0], party.ranks[-1]
        with pytest.raises(HorovodInternalError) as failed:
            call(door, operation, other if rank == last else usual, party, name)
        text = str(failed.value)
        assert name in text and failed.value.kind == "mismatch", text  # type: ignore[attr-defined]
        for word in (*words, *((str(first), str(last)) if case == "broadcast root" else ())):
            assert word in text
        assert re.search(rf"\brank {first}\b", text) and re.search(rf"\brank {last}\b", text), text
    fine(door, party, name)


@pytest.mark.parametrize("operation", ["allgather", "alltoall", "reducescatter"])
def test_a_scalar_has_no_rows(operation: str, place: Tuple[Door, Party], name: str, rank: int) -> None:
    door, party = place
    if rank in party.ranks:
        with pytest.raises((HorovodInternalError, ValueError), match=f"{re.escape(name)}|scalar"):
            call(door, operation, ((), {}), party, name)
    fine(door, party, name)


@pytest.mark.parametrize("operation", ["allgather", "broadcast", "alltoall", "reducescatter"])
def test_only_reductions_go_on_when_a_rank_has_joined(
    operation: str, door: Door, sets: Dict[str, Party], name: str, rank: int, size: int
) -> None:
    everybody = sets["all"]
    if rank != size - 1:
        with pytest.raises(HorovodInternalError, match=re.escape(name)):
            call(door, operation, ((12,), {}), everybody, name)
    door.hvd.join()
    fine(door, everybody, name)


# ---- what one rank can see ---------------------------------------------------------------------------------------

OPERATIONS: Dict[str, Callable[[Door, str, ProcessSet], Any]] = {
    "allreduce": lambda door, name, group: door.hvd.allreduce(door.tensor(2), name=name, process_set=group),
    "allreduce_": lambda door, name, group: door.hvd.allreduce_(door.tensor(2), name=name, process_set=group),
    "grouped_allreduce": lambda door, name, group: door.hvd.grouped_allreduce(
        [door.tensor(2)] * 2, name=name, process_set=group
    ),
    "allgather": lambda door, name, group: door.hvd.allgather(door.tensor(2), name=name, process_set=group),
    "broadcast": lambda door, name, group: door.hvd.broadcast(door.tensor(2), 1, name=name, process_set=group),
    "broadcast_": lambda door, name, group: door.hvd.broadcast_(door.tensor(2), 1, name=name, process_set=group),
    "alltoall": lambda door, name, group: door.hvd.alltoall(door.tensor(12), name=name, process_set=group),
    "reducescatter": lambda door, name, group: door.hvd.reducescatter(door.tensor(2), name=name, process_set=group),
    "barrier": lambda door, name, group: door.hvd.barrier(process_set=group),
}


@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_sets_that_one_cannot_call_into(
    operation: str, door: Door, sets: Dict[str, Party], name: str, rank: int, size: int
) -> None:
    party = sets["set"]
    if rank == 0:
        with pytest.raises(ValueError, match=f"rank 0 is not in process set {party.group.process_set_id}"):
            OPERATIONS[operation](door, name, party.group)
    with pytest.raises(ValueError, match="not registered"):
        OPERATIONS[operation](door, name, ProcessSet([0]))
    unknown = ProcessSet([0])
    unknown.process_set_id = 77
    with pytest.raises(ValueError, match="77"):
        OPERATIONS[operation](door, name, unknown)
    fine(door, party, name)


def test_a_set_that_was_removed(door: Door, sets: Dict[str, Party], name: str) -> None:
    removed = door.hvd.add_process_set([0])
    number = removed.process_set_id
    assert door.hvd.remove_process_set(removed)
    for operation in OPERATIONS.values():
        with pytest.raises(ValueError, match="not registered"):
            operation(door, name, removed)
    removed.process_set_id = number
    with pytest.raises(ValueError, match=str(number)):
        door.hvd.allreduce(door.tensor(2), name=name, process_set=removed)
    fine(door, sets["set"], name)


def test_roots_outside(door: Door, party: Party, name: str, rank: int, size: int) -> None:
    if rank in party.ranks:
        for root in [each for each in (-1, 0, size, 1000) if each not in party.ranks]:
            for broadcast in (door.hvd.broadcast, door.hvd.broadcast_, door.hvd.broadcast_async):
                with pytest.raises(ValueError, match=f"root rank {root} is not in the process set of ranks"):
                    broadcast(door.tensor(2), root, name=name, process_set=party.group)
    fine(door, party, name)


# What is wrong with the splits of 12 rows among `count` ranks, and the words that say so.
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
def test_splits_that_cannot_be(wrong: str, door: Door, party: Party, name: str, rank: int) -> None:
    if rank in party.ranks:
        count = len(party.ranks)
        make, words = SPLITS[wrong]
        splits = make(count)
        if door.hvd is horovod.torch and isinstance(splits, numpy.ndarray):
            splits = torch.from_numpy(splits)
        for alltoall in (door.hvd.alltoall, door.hvd.alltoall_async):
            with pytest.raises(ValueError, match=words(count)):
                alltoall(door.tensor(12), splits, name=name, process_set=party.group)
    fine(door, party, name)


def test_rows_that_cannot_be_dealt_out_evenly(door: Door, party: Party, name: str, rank: int) -> None:
    count = len(party.ranks)
    if rank in party.ranks and count > 1:
        with pytest.raises(ValueError, match=rf"\b{count + 1}\b.*\b{count}\b"):
            door.hvd.alltoall(door.tensor(count + 1), name=name, process_set=party.group)
    fine(door, party, name)


@pytest.mark.parametrize("operation", ["reducescatter", "grouped_reducescatter"])
def test_what_reducescatter_cannot_reduce_with(operation: str, door: Door, party: Party, name: str, rank: int) -> None:
    for op in (door.hvd.Adasum, 6, -1):
        if rank in party.ranks:
            tensor = door.tensor(4) if operation == "reducescatter" else [door.tensor(4)]
            with pytest.raises(HorovodInternalError, match="reduce") as failed:
                getattr(door.hvd, operation)(tensor, name=name, op=op, process_set=party.group)
            assert failed.value.kind == "unimplemented"  # type: ignore[attr-defined]
    fine(door, party, name)


def test_names_in_flight(door: Door, party: Party, name: str, rank: int) -> None:
    """Also in a group, which is then refused as a whole."""
    first = len(party.ranks) > 1 and rank == party.ranks[0]

    def begin() -> List[int]:
        alone = door.hvd.allreduce_async(door.tensor(2), name=name, op=door.hvd.Sum, process_set=party.group)
        several = [door.tensor(2), door.tensor(3)]
        group = door.hvd.grouped_allreduce_async(several, name=name, op=door.hvd.Sum, process_set=party.group)
        return [alone, group]

    handles = begin() if first else []
    if first:  # the others have not called yet
        for again in (
            lambda: door.hvd.allreduce_async(door.tensor(2), name=name, process_set=party.group),
            lambda: door.hvd.grouped_allreduce_async([door.tensor(2)] * 2, name=name, process_set=party.group),
        ):
            with pytest.raises(ValueError, match=f"{re.escape(name)}.*in flight"):
                again()
    door.hvd.barrier()
    if rank in party.ranks:
        alone, group = handles or begin()
        assert door.hvd.synchronize(alone)[0] == len(party.ranks)
        assert [each[0] for each in door.hvd.synchronize(group)] == [len(party.ranks)] * 2
    fine(door, party, name)


@pytest.mark.parametrize("operation", ["allreduce", "allreduce_", "reducescatter"])
def test_truth_values_are_not_reduced(operation: str, door: Door, party: Party, name: str, rank: int) -> None:
    if rank in party.ranks:
        with pytest.raises(ValueError, match="bool"):
            tensor = door.tensor(4) > 0
            getattr(door.hvd, operation)(tensor, name=name, process_set=party.group)
    fine(door, party, name)


def test_ranks_that_make_no_set(door: Door, sets: Dict[str, Party], name: str, rank: int, size: int) -> None:
    """Unknown or doubled ranks, none, what exists, and lists that differ between ranks fail on all."""
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
            door.hvd.add_process_set(ranks)
        fine(door, sets["set"], name)


def test_without_a_job_nothing_goes(door: Door, name: str) -> None:
    door.hvd.barrier()
    door.hvd.shutdown()
    errors: Tuple[Type[Exception], ...] = (ValueError, HorovodInternalError)
    for operation in OPERATIONS.values():
        with pytest.raises(errors, match="init"):
            operation(door, name, horovod.torch.global_process_set)
    door.hvd.init()
    assert door.hvd.allreduce(door.tensor(2), name=name, op=door.hvd.Sum).tolist() == [door.hvd.size()] * 2
