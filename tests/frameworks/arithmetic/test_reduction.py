"""The decisions of optimizers about gradients, tested with NumPy arrays."""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy
import pytest
from farandole.common import reduction
from farandole.common.basics import HorovodBasics
from farandole.common.framework import Reduction
from farandole.common.reduction import Accumulator, GradientReducer, partition

Average, Sum, Adasum, Min = HorovodBasics.Average, HorovodBasics.Sum, HorovodBasics.Adasum, HorovodBasics.Min


class Set:
    """A process set with a given number of members, which may or may not include this process."""

    rule = ranks = mpi_comm = None

    def __init__(self, members: int, included: bool = True, number: Optional[int] = 7) -> None:
        self.members = members
        self.is_in = included
        self.process_set_id = number

    def size(self) -> int:
        return self.members

    def included(self) -> bool:
        return self.is_in


class Rows:
    """A sparse gradient: some rows of a matrix."""

    def __init__(self, rows: Sequence[int], values: Any, height: int) -> None:
        self.rows, self.values, self.height = rows, numpy.asarray(values), height


class Recording:
    """A framework of NumPy arrays whose ranks all have the same gradients."""

    def __init__(self, members: int) -> None:
        self.members = members
        self.calls: List[Tuple[str, List[str]]] = []
        self.how: Optional[Reduction] = None

    def is_sparse(self, gradient: Any) -> bool:
        return isinstance(gradient, Rows)

    def densified(self, gradient: Rows) -> Any:
        dense = numpy.zeros((gradient.height, gradient.values.shape[1]))
        numpy.add.at(dense, list(gradient.rows), gradient.values)
        return dense

    def divided_by_members(self, gradient: Any, process_set: Any) -> Any:
        return gradient / process_set.size()

    def _reduced(self, gradient: Any, how: Reduction) -> Any:
        self.how = how
        if isinstance(gradient, Rows):
            return Rows(list(gradient.rows) * self.members, numpy.tile(gradient.values, (self.members, 1)), 0)
        total = gradient * how.prescale_factor * self.members * how.postscale_factor
        return total / self.members if how.op == Average else total

    def allreduce(self, gradient: Any, name: str, how: Reduction) -> Any:
        self.calls.append(("one", [name]))
        return self._reduced(gradient, how)

    def grouped_allreduce(self, gradients: Sequence[Any], names: Sequence[str], how: Reduction) -> List[Any]:
        self.calls.append(("group", list(names)))
        return [self._reduced(each, how) for each in gradients]


def reducer(members: int = 4, included: bool = True, **options: Any) -> Tuple[GradientReducer, Recording]:
    framework = Recording(members)
    options = {"op": Average, "process_set": Set(members, included), **options}
    return GradientReducer(framework, **options), framework


GRADIENTS = {"w": numpy.arange(6.0).reshape(2, 3), "b": numpy.ones(3), "u": numpy.full(2, 5.0)}
KEYS = list(GRADIENTS)


def test_a_predivide_factor_of_one_scales_nothing() -> None:
    for op in range(6):
        assert reduction.scales(op, 1.0) == (1.0, 1.0)


def test_the_predivide_factor_divides_before_and_multiplies_after_the_reduction() -> None:
    assert reduction.scales(Average, 4.0) == (0.25, 4.0)


@pytest.mark.parametrize("op", [Sum, Adasum, Min])
def test_a_predivide_factor_is_refused_unless_gradients_are_averaged(op: int) -> None:
    with pytest.raises(ValueError, match=r"gradient_predivide_factor not supported.*2\.5.*" + reduction.word(op)):
        reduction.scales(op, 2.5)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan")])
def test_a_predivide_factor_that_is_not_positive_is_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        reduction.scales(Average, factor)


def test_an_unsupported_op_is_refused_by_its_name() -> None:
    reduction.require_op(Sum, (Average, Sum))
    with pytest.raises(ValueError, match="Average or Sum, not Min"):
        reduction.require_op(Min, (Average, Sum))
    with pytest.raises(ValueError, match="not 17"):
        reduction.require_op(17, (Average, Sum))


def test_num_groups_is_deprecated_and_groups_takes_precedence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reduction.chosen_groups(0, None, str) is None
        assert reduction.chosen_groups(0, 3, str) == 3
    with pytest.warns(DeprecationWarning, match="groups") as caught:
        assert reduction.chosen_groups(2, None, str, stacklevel=2) == 2
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning):
        assert reduction.chosen_groups(2, [["w"]], str) == [["w"]]


@pytest.mark.parametrize("groups", [0, -1, True, "w", ["w"], [["w", 3]], [["w"], ["w"]], {"w": 1}, 1.5])
def test_invalid_groups_are_refused(groups: Any) -> None:
    with pytest.raises(ValueError, match="group"):
        reduction.chosen_groups(0, groups, str)


def test_partition_puts_every_gradient_into_one_group() -> None:
    index = {key: number for number, key in enumerate(KEYS)}.get
    assert partition([0, 1, 2], None, index) == [[0], [1], [2]]
    assert partition([0, 1, 2], 2, index) == [[0, 1], [2]]
    assert partition([0, 1, 2], 1, index) == [[0, 1, 2]]
    assert partition([0, 1, 2], 9, index) == [[0], [1], [2]]
    assert partition([0, 1, 2], [["u", "w"]], index) == [[2, 0], [1]]
    # Keys that have no gradient, or are no parameters, are left out.
    assert partition([0, 2], [["w", "b"], ["frozen"]], index) == [[0], [2]]
    assert partition([], 3, index) == []


def test_adasum_requires_the_global_set_and_a_power_of_two() -> None:
    global_set = reduction.global_process_set
    reduction.require_adasum(global_set, 8)
    with pytest.raises(NotImplementedError, match="global"):
        reduction.require_adasum(Set(2), 2)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="power of two, not 6"):
        reduction.require_adasum(global_set, 6)


def test_a_process_that_is_alone_or_outside_the_set_does_not_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOROVOD_ELASTIC", raising=False)
    assert reduction.takes_part(Set(2))  # type: ignore[arg-type]
    assert not reduction.takes_part(Set(1))  # type: ignore[arg-type]
    assert not reduction.takes_part(Set(2, included=False))  # type: ignore[arg-type]
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    assert reduction.takes_part(Set(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("included", [True, False])
def test_a_set_that_is_not_registered_is_refused(included: bool) -> None:
    with pytest.raises(ValueError, match=r"not registered: .* add_process_set\(\)"):
        reduction.takes_part(Set(2, included, number=None))  # type: ignore[arg-type]


def test_a_process_outside_of_a_communicator_does_not_take_part_in_its_set() -> None:
    outside = Set(2, included=False, number=None)
    outside.mpi_comm = "a communicator"  # type: ignore[assignment]
    assert not reduction.takes_part(outside)  # type: ignore[arg-type]


def reduce_all(one: GradientReducer, gradients: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    given = GRADIENTS if gradients is None else gradients
    return dict(zip(given, one.reduce(list(given.values()), list(given), [f"grad.{key}" for key in given])))


def test_gradients_without_groups_are_averaged_one_by_one() -> None:
    one, framework = reducer()
    for key, each in reduce_all(one).items():
        numpy.testing.assert_array_equal(each, GRADIENTS[key])
    assert framework.calls == [("one", ["grad.w"]), ("one", ["grad.b"]), ("one", ["grad.u"])]


def test_the_sum_of_equal_gradients_is_the_gradient_times_the_number_of_ranks() -> None:
    one, _ = reducer(op=Sum)
    numpy.testing.assert_array_equal(reduce_all(one)["u"], [20.0, 20.0])


def test_a_predivided_average_equals_the_plain_average() -> None:
    one, framework = reducer(gradient_predivide_factor=4.0, compression="halves")
    numpy.testing.assert_allclose(reduce_all(one)["w"], GRADIENTS["w"])
    assert framework.how is not None and framework.how[1:3] == (0.25, 4.0) and framework.how.compression == "halves"


def test_gradients_of_one_group_are_reduced_in_one_operation() -> None:
    one, framework = reducer(groups=[["u", "b"]], key_of=lambda key: key)
    reduced = reduce_all(one)
    numpy.testing.assert_array_equal(reduced["u"], GRADIENTS["u"])
    assert framework.calls == [("group", ["grad.u", "grad.b"]), ("one", ["grad.w"])]


@pytest.mark.parametrize("groups", [None, 1])
def test_all_gradients_of_a_parameter_that_occurs_twice_are_reduced(groups: Optional[int]) -> None:
    one, _ = reducer(op=Sum, groups=groups)
    found = one.reduce([numpy.ones(2), numpy.ones(1), numpy.full(2, 3.0)], ["w", "b", "w"], ["0", "1", "2"])
    assert [each.tolist() for each in found] == [[4.0, 4.0], [4.0], [12.0, 12.0]]


def test_a_parameter_without_a_gradient_is_left_out_of_its_group() -> None:
    one, framework = reducer(groups=1)
    assert reduce_all(one, {**GRADIENTS, "b": None})["b"] is None
    assert framework.calls == [("group", ["grad.w", "grad.u"])]


def test_a_parameter_without_a_gradient_keeps_its_place_in_the_groups() -> None:
    one, framework = reducer(groups=2)
    reduce_all(one, {"a": None, **GRADIENTS})
    assert framework.calls == [("one", ["grad.w"]), ("group", ["grad.b", "grad.u"])]


def test_local_gradients_are_divided_and_not_reduced() -> None:
    one, framework = reducer(members=5)
    one.register_local("u")
    assert one.is_local("u") and not one.is_local("w")
    numpy.testing.assert_array_equal(reduce_all(one)["u"], [1.0, 1.0])
    assert ("one", ["grad.u"]) not in framework.calls
    unscaled, _ = reducer(members=5, scale_local_gradients=False)
    unscaled.register_local("u")
    numpy.testing.assert_array_equal(reduce_all(unscaled)["u"], GRADIENTS["u"])


def test_sparse_gradients_are_reduced_outside_their_group_or_made_dense() -> None:
    rows = Rows([1, 1], [[1.0, 2.0], [3.0, 4.0]], height=3)
    given = {"w": GRADIENTS["w"], "e": rows, "u": GRADIENTS["u"]}
    one, framework = reducer(members=2, groups=1, op=Sum)
    assert isinstance(reduce_all(one, given)["e"], Rows)
    assert framework.calls == [("one", ["grad.e"]), ("group", ["grad.w", "grad.u"])]
    dense, framework = reducer(members=2, groups=1, op=Sum, sparse_as_dense=True)
    numpy.testing.assert_array_equal(reduce_all(dense, given)["e"], [[0, 0], [8, 12], [0, 0]])
    assert framework.calls == [("group", ["grad.w", "grad.e", "grad.u"])]


@pytest.mark.parametrize("members, included", [(1, True), (4, False)])
def test_a_process_that_does_not_take_part_keeps_its_gradients(members: int, included: bool) -> None:
    one, framework = reducer(members, included)
    one.register_local("b")
    assert all(reduce_all(one)[key] is GRADIENTS[key] for key in KEYS)
    assert framework.calls == []


def test_gradients_of_several_passes_are_summed() -> None:
    passes = Accumulator(3)
    assert passes.add([numpy.ones(2), None]) is None
    assert passes.add([numpy.ones(2), numpy.full(1, 2.0)]) is None
    total = passes.add([numpy.ones(2), None])
    assert total is not None
    numpy.testing.assert_array_equal(total[0], [3.0, 3.0])
    numpy.testing.assert_array_equal(total[1], [2.0])
    # The next step starts from zero.
    assert passes.counter == 0 and passes.add([numpy.ones(2), None]) is None


def test_summed_gradients_can_be_averaged_over_the_passes() -> None:
    passes = Accumulator(2, average=True)
    passes.add([numpy.full(2, 1.0), None])
    total = passes.add([numpy.full(2, 3.0), None])
    assert total is not None and total[1] is None
    numpy.testing.assert_array_equal(total[0], [2.0, 2.0])
    gradient = numpy.ones(1)
    assert Accumulator(1, average=True).add([gradient]) == [gradient]


def test_the_arrays_of_the_first_pass_are_not_modified() -> None:
    first = numpy.ones(2)
    passes = Accumulator(2)
    passes.add([first])
    passes.add([numpy.ones(2)])
    numpy.testing.assert_array_equal(first, [1.0, 1.0])


def test_passes_must_be_positive_and_have_the_same_number_of_gradients() -> None:
    with pytest.raises(ValueError, match="> 0"):
        Accumulator(0)
    passes = Accumulator(2)
    passes.add([numpy.ones(1)])
    with pytest.raises(ValueError, match="pass 2 has 2 gradients"):
        passes.add([numpy.ones(1), numpy.ones(1)])


def test_bundles_keep_the_order_and_the_size_limit() -> None:
    assert reduction.bundles("abcdef", [4, 4, 4, 30, 1, 9], limit=10) == [["a", "b"], ["c"], ["d"], ["e", "f"]]
    assert reduction.bundles([], []) == []
    sizes = [int(each) for each in numpy.random.default_rng(5).integers(0, 3 << 20, 100)]
    made = reduction.bundles(range(100), sizes)
    assert [each for bundle in made for each in bundle] == list(range(100))
    for bundle, following in zip(made, made[1:]):
        together = sum(sizes[each] for each in bundle)
        assert len(bundle) == 1 or together <= reduction.BUNDLE_BYTES
        assert together + sizes[following[0]] > reduction.BUNDLE_BYTES  # no bundle is smaller than necessary
