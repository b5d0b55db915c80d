"""The job, objects, barrier, join and process sets, through the framework's package."""

from __future__ import annotations

import dataclasses
import enum
import sys
from types import ModuleType

import drivers
import numpy
import pytest
from expected_values import reduced, sample, samples
from farandole.common import signatures

DRIVER = drivers.current()

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")

OWN_PACKAGES = [each for each in signatures.PACKAGES if each == DRIVER.name or each.startswith(f"{DRIVER.name}.")]


@pytest.mark.parametrize("package", OWN_PACKAGES)
def test_names_and_defaults_match_the_table_of_signatures(package: str) -> None:
    assert signatures.differences(package) == []


def test_every_function_of_the_table_documents_its_parameters(hvd: ModuleType) -> None:
    for name, text in signatures.PACKAGES[DRIVER.name].items():
        documentation = getattr(hvd, name).__doc__ or ""
        assert documentation.strip(), name
        if not isinstance(getattr(hvd, name), type) and not name.startswith("_"):
            assert all(f":param {parameter}:" in documentation for parameter, _ in signatures.read(text)), name


def test_horovod_and_farandole_name_the_same_package(hvd: ModuleType) -> None:
    import importlib

    assert hvd is importlib.import_module(f"farandole.{DRIVER.name}")


def test_dir_lists_only_the_public_interface(hvd: ModuleType) -> None:
    shown = dir(hvd)
    table = {name for name in signatures.PACKAGES[DRIVER.name] if not name.startswith("_")}
    assert {"init", "rank", "ProcessSet", "Average", *table} <= {*shown}
    assert [name for name in shown if name.startswith("_")] == []
    modules = [name for name in shown if isinstance(getattr(hvd, name), ModuleType)]
    assert {f"{DRIVER.name}.{name}" for name in modules} <= {*signatures.PACKAGES}
    assert {"mpi_ops", "sys"}.isdisjoint(shown)


def test_ranks_sizes_and_constants_are_those_of_the_job(hvd: ModuleType, rank: int, size: int) -> None:
    assert hvd.is_initialized()
    assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_size()) == (rank, size, rank, 1)
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == list(range(6))
    assert hvd.gloo_built() and isinstance(hvd.nccl_built(), int)


def test_ids_and_ranks_of_process_sets_are_found_under_horovods_internal_name(hvd: ModuleType, size: int) -> None:
    if not hasattr(hvd, "mpi_ops"):
        pytest.skip("Horovod has no such package")
    ids_and_ranks = hvd.mpi_ops._basics._get_process_set_ids_and_ranks
    last = hvd.add_process_set([size - 1]) if size > 1 else hvd.global_process_set
    expected = {0: list(range(size)), last.process_set_id: [size - 1]}
    assert ids_and_ranks() == expected and type(ids_and_ranks()) is dict
    if size > 1:
        hvd.remove_process_set(last)
    assert ids_and_ranks() == {0: list(range(size))}


def test_a_job_that_was_shut_down_can_be_initialized_again(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    hvd.shutdown()
    assert not hvd.is_initialized()
    with pytest.raises(ValueError):
        hvd.rank()
    hvd.init(process_sets="dynamic")
    assert (hvd.rank(), hvd.size()) == (rank, size)
    result = hvd.allreduce(DRIVER.make([1.0], "float32"), name=name, op=hvd.Sum)
    assert DRIVER.to_numpy(result).tolist() == [size]


def test_objects_are_broadcast_and_gathered(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    given = {"rank": rank, "array": numpy.arange(rank + 1), "text": "é" * rank}
    received = hvd.broadcast_object(given if rank == size - 1 else None, size - 1, name=name)
    assert received["rank"] == size - 1 and received["array"].tolist() == list(range(size))
    gathered = hvd.allgather_object(given, name=f"{name}.all")
    assert [each["text"] for each in gathered] == ["é" * each for each in range(size)]


def test_objects_are_of_the_scripts_own_classes_on_every_rank(
    hvd: ModuleType, name: str, rank: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = sys.modules["__main__"]
    Phase = enum.Enum("Phase", "WARM_UP TRAIN", module=script.__name__)  # type: ignore[misc]
    Options = dataclasses.make_dataclass("Options", ["rate", "phase"], frozen=True)
    Options.__module__ = script.__name__
    for each in (Phase, Options):
        monkeypatch.setattr(script, each.__name__, each, raising=False)
    given = Options(0.5, Phase.TRAIN)
    received = hvd.broadcast_object(given if rank == size - 1 else None, size - 1, name=name)
    for each in (received, *hvd.allgather_object(given, name=f"{name}.all")):
        assert each == given and type(each) is Options and each.phase is Phase.TRAIN


def test_a_function_is_broadcast_as_an_object(hvd: ModuleType, name: str, rank: int) -> None:
    assert hvd.broadcast_object((lambda x: x + 1) if rank == 0 else None, name=name)(41) == 42


def test_barrier_returns_none(hvd: ModuleType) -> None:
    assert hvd.barrier() is None


@pytest.mark.skipif(not DRIVER.offers("join"), reason="cannot join")
def test_a_joined_rank_contributes_zeros(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    if rank == 0:
        result = hvd.allreduce(DRIVER.make([3.0], "float32"), name=name, op=hvd.Sum)
        assert DRIVER.to_numpy(result).tolist() == [3.0]
    last = hvd.join()
    assert 0 <= int(DRIVER.to_numpy(last) if DRIVER.is_tensor(last) else last) < size


# ---- process sets


@several_ranks
def test_a_process_set_reduces_gathers_and_broadcasts_among_its_members(
    hvd: ModuleType, name: str, rank: int, size: int
) -> None:
    evens, odds = (hvd.add_process_set(list(range(first, size, 2))) for first in (0, 1))
    own_set = evens if rank % 2 == 0 else odds
    members = own_set.ranks
    tensor = DRIVER.make(sample(rank, "float32"), "float32")
    inputs = [each for number, each in enumerate(samples(size, "float32")) if number in members]
    total = hvd.allreduce(tensor, name=name, op=hvd.Sum, process_set=own_set)
    numpy.testing.assert_array_equal(DRIVER.to_numpy(total), reduced("Sum", inputs))
    mean = hvd.allreduce(tensor, name=f"{name}.mean", process_set=own_set)
    numpy.testing.assert_allclose(DRIVER.to_numpy(mean), reduced("Average", inputs), rtol=1e-6)
    rows = hvd.allgather(tensor, name=f"{name}.rows", process_set=own_set)
    numpy.testing.assert_array_equal(DRIVER.to_numpy(rows), numpy.concatenate(inputs))
    # The root is a global rank.
    root = hvd.broadcast(tensor, members[-1], name=f"{name}.root", process_set=own_set)
    numpy.testing.assert_array_equal(DRIVER.to_numpy(root), inputs[-1])
    (grouped,) = hvd.grouped_allreduce([tensor], name=f"{name}.group", op=hvd.Max, process_set=own_set)
    numpy.testing.assert_array_equal(DRIVER.to_numpy(grouped), reduced("Max", inputs))
    for each in (evens, odds):
        assert hvd.remove_process_set(each)


@several_ranks
def test_a_rank_outside_a_process_set_is_refused(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    first = hvd.add_process_set([0])
    tensor = DRIVER.make([float(rank)], "float32")
    if rank:
        with pytest.raises(DRIVER.errors()["invalid"], match=f"rank {rank}|process set"):
            DRIVER.to_numpy(hvd.allreduce(tensor, name=name, process_set=first))
    else:
        assert DRIVER.to_numpy(hvd.allreduce(tensor, name=name, process_set=first)).tolist() == [0.0]
    assert hvd.remove_process_set(first)
