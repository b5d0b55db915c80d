"""The plan of which rank reads which rows, and the cutting into batches: every row is counted."""

from __future__ import annotations

from collections import Counter
from typing import Any, List, Tuple

import numpy as np
import pytest
from farandole.spark.reading.batches import batches_of, blocks
from farandole.spark.reading.plan import ReadingPlan, RowRange
from farandole.spark.reading.pool import RowPool
from farandole.spark.reading.shuffling import shuffled

GROUPS: List[List[int]] = [
    [],
    [0, 0],
    [1],
    [7],
    [100],
    [10, 10, 10],
    [1, 0, 5, 17, 2],
    [3] * 11,
    [1000, 1],
    [2, 900, 3, 50, 50, 1],
]
RANKS = [1, 2, 3, 4, 7]


def rows_of_ranges(ranges: List[RowRange]) -> List[Tuple[int, int]]:
    return [(each.group, row) for each in ranges for row in range(each.first, each.last)]


@pytest.mark.parametrize("groups", GROUPS, ids=str)
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_row_belongs_to_one_rank_in_each_epoch(groups: List[int], ranks: int, shuffle: bool) -> None:
    plan = ReadingPlan(groups, ranks, shuffle, seed=3)
    every_row = Counter((group, row) for group, rows in enumerate(groups) for row in range(rows))
    own = []
    for epoch in range(3):
        parts = [rows_of_ranges(plan.ranges(rank, epoch)) for rank in range(ranks)]
        assert Counter(row for part in parts for row in part) == every_row
        assert [len(part) for part in parts] == [plan.shard_rows(rank) for rank in range(ranks)]
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        own.append([sorted(part) for part in parts])
    assert own[0] == own[1] == own[2]  # also when ranks are in different epochs


@pytest.mark.parametrize("groups", GROUPS, ids=str)
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("batch_size", [1, 2, 5, 32])
def test_all_ranks_take_the_same_number_of_steps(groups: List[int], ranks: int, batch_size: int) -> None:
    plan = ReadingPlan(groups, ranks)
    for rank in range(ranks):
        sizes = plan.batch_sizes(rank, batch_size)
        assert len(sizes) == plan.steps(batch_size)
        assert sum(sizes) == plan.shard_rows(rank)
        assert all(0 <= size <= batch_size for size in sizes)
        assert all(first >= second for first, second in zip(sizes, sizes[1:]))  # steps without rows are the last
        if plan.shard_rows(rank) >= plan.steps(batch_size):
            assert all(sizes)


def test_a_rank_with_a_row_less_divides_its_last_batch() -> None:
    plan = ReadingPlan([17], 2)
    assert [plan.batch_sizes(rank, 4) for rank in range(2)] == [[4, 2, 2], [4, 4, 1]]


def test_more_ranks_than_rows() -> None:
    plan = ReadingPlan([2, 1], 5)
    assert sorted(plan.batch_sizes(rank, 32) for rank in range(5)) == [[0], [0], [1], [1], [1]]


def test_the_seed_determines_the_order() -> None:
    def order(seed: int, epoch: int) -> List[RowRange]:
        return ReadingPlan([10] * 20, 2, True, seed).ranges(0, epoch)

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)
    plain = ReadingPlan([10] * 20, 2).ranges(1, 5)
    assert plain == [RowRange(group, 0, 10) for group in range(10, 20)]


def test_row_groups_are_divided_only_where_ranks_meet() -> None:
    plan = ReadingPlan([40] * 10, 4, shuffle=True)
    divided = [each for rank in range(4) for each in plan.ranges(rank) if each.rows < 40]
    assert len(divided) <= 2 * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], 0), "shard_count is the number of ranks, not 0"),
        (([1, -2], 1), "a row group cannot have -2 rows"),
    ],
)
def test_a_plan_refuses_wrong_numbers(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReadingPlan(*arguments)


def test_a_rank_and_a_batch_size_are_checked() -> None:
    plan = ReadingPlan([4], 2)
    with pytest.raises(ValueError, match="cur_shard is a number from 0 to 1, not 2"):
        plan.ranges(2)
    for size in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"batch_size is a number of rows above 0, not {size}"):
            plan.steps(size)  # type: ignore[arg-type]


def pieces_of(sizes: List[int]) -> Any:
    start = 0
    for size in sizes:
        rows = np.arange(start, start + size)
        yield {"x": rows, "pair": np.stack([rows, -rows], axis=1)}
        start += size


@pytest.mark.parametrize("sizes", [[], [1], [5, 0, 3], [100, 1, 50], [64] * 5])
@pytest.mark.parametrize("capacity", [0, 1, 10, 1000, None])
def test_the_shuffle_buffer_delivers_each_row_once(sizes: List[int], capacity: Any) -> None:
    delivered = list(shuffled(pieces_of(sizes), capacity, np.random.default_rng(0)))
    rows = [row for piece in delivered for row in piece["x"].tolist()]
    assert sorted(rows) == list(range(sum(sizes)))
    assert all((piece["pair"] == np.stack([piece["x"], -piece["x"]], axis=1)).all() for piece in delivered)
    if sum(sizes) > 100:
        assert rows != sorted(rows)


def test_the_shuffle_buffer_keeps_columns_of_all_types() -> None:
    def pieces() -> Any:
        for start in (0, 40, 80):
            rows = np.arange(start, start + 40)
            text = np.array([str(row) for row in rows], dtype=object)
            numbers = {"f0": rows.astype(np.int8), "": rows % 2 == 0, "f": rows / 3, "a": np.outer(rows, [1, 2])}
            yield {**numbers, "text": text}

    found = list(shuffled(pieces(), 30, np.random.default_rng(0)))
    rows = np.concatenate([piece["f0"] for piece in found]).astype(int)
    assert sorted(rows) == list(range(120))
    columns = {name: np.concatenate([piece[name] for piece in found]) for name in found[0]}
    assert {name: str(each.dtype) for name, each in columns.items()} == {
        **{"f0": "int8", "": "bool", "f": "float64", "text": "object", "a": "int64"}
    }
    assert (columns[""] == (rows % 2 == 0)).all() and (columns["f"] == rows / 3).all()
    assert columns["text"].tolist() == [str(row) for row in rows] and (columns["a"] == np.outer(rows, [1, 2])).all()
    assert all(array.flags.c_contiguous and array.flags.writeable for piece in found for array in piece.values())
    only_text = list(shuffled(({"t": piece["text"]} for piece in pieces()), 7, np.random.default_rng(0)))
    assert sorted(int(text) for piece in only_text for text in piece["t"]) == list(range(120))


def test_the_shuffle_buffer_is_bounded() -> None:
    taken = 0

    def counted() -> Any:
        nonlocal taken
        for piece in pieces_of([10] * 100):
            taken += 10
            yield piece

    delivered = 0
    for piece in shuffled(counted(), 25, np.random.default_rng(0)):
        assert taken - delivered <= 25 + 10
        delivered += len(piece["x"])
    assert delivered == 1000
    assert sum(len(piece["x"]) for piece in shuffled(pieces_of([10] * 3), 10**12, np.random.default_rng(0), 30)) == 30
    with pytest.raises(ValueError, match="the shuffle buffer holds a number of rows, not -1"):
        list(shuffled(pieces_of([1]), -1, np.random.default_rng(0)))


def test_the_shuffle_buffer_yields_whole_batches() -> None:
    found = [len(piece["x"]) for piece in shuffled(pieces_of([50] * 20), 130, np.random.default_rng(0), 1000, 7)]
    assert sum(found) == 1000
    assert all(rows % 7 == 0 for rows in found[:-1])


def test_a_pool_copies_rows_in_blocks_of_a_bounded_size() -> None:
    pool = RowPool(10)
    numbers = np.arange(1000)
    text = np.array([str(row) for row in numbers], dtype=object)
    for start in range(0, 1000, 250):
        part = slice(start, start + 250)
        wide = np.repeat(numbers[part, None], 4000, axis=1)
        pool.add(
            {"b": numbers[part], "wide": wide, "a": numbers[part] * 2, "h": numbers[part] / 2, "t": text[part]}, 250
        )
    chosen = np.array([999, 0, *range(500, 998), 3])
    found = list(pool.blocks(chosen, 10))
    assert [list(block) for block in found] == [["b", "wide", "a", "h", "t"]] * len(found)
    assert [len(block["b"]) for block in found] == [30] * 16 + [21]  # a row has 32,032 bytes, a block less than 1 MiB
    assert np.concatenate([block["b"] for block in found]).tolist() == chosen.tolist()
    for block in found:
        assert (block["a"] == 2 * block["b"]).all() and (block["h"] == block["b"] / 2).all()
        assert (block["wide"] == block["b"][:, None]).all() and [int(each) for each in block["t"]] == block[
            "b"
        ].tolist()
    found[0]["b"][:] = found[0]["wide"][:] = -1
    again = next(pool.blocks(chosen, 10))
    assert again["b"][0] == again["wide"][0, 0] == 999  # the caller may change its copies
    assert [len(block["b"]) for block in pool.blocks(chosen, 400)] == [400, 101]


def test_batches_share_the_memory_of_pieces_where_they_can() -> None:
    sizes = [4, 4, 4, 2, 1]
    pieces = list(pieces_of([3, 0, 9, 3]))
    found = list(blocks(pieces, sizes))
    assert [own for _, own in found] == [[4], [4, 4], [2, 1]]
    assert [np.shares_memory(columns["x"], pieces[2]["x"]) for columns, _ in found] == [False, True, False]
    batches = [batch for block in found for batch in batches_of(block)]
    assert [len(batch["x"]) for batch in batches] == sizes
    assert [row for batch in batches for row in batch["x"].tolist()] == list(range(15))
    assert all((batch["pair"][:, 1] == -batch["x"]).all() for batch in batches)
    assert list(blocks([], [])) == []


def test_a_batch_may_take_many_pieces() -> None:
    found = list(blocks(pieces_of([2] * 7), [9, 4, 1]))
    assert [own for _, own in found] == [[9], [4], [1]]
    assert [row for columns, _ in found for row in columns["x"].tolist()] == list(range(14))


@pytest.mark.parametrize(
    ("pieces", "sizes", "message"),
    [
        ([3], [2, 2], "the rows ended after 3, and 1 more were expected"),
        ([], [2], "the rows ended after 0, and 2 more were expected"),
        ([3, 4], [2], "2 rows were expected, and there are 5 more"),
        ([2, 4], [2], "2 rows were expected, and there are 4 more"),
        ([3, 4, 1], [2, 3], "5 rows were expected, and there are 3 more"),
    ],
)
def test_missing_and_additional_rows_are_errors(pieces: List[int], sizes: List[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(blocks(pieces_of(pieces), sizes))
