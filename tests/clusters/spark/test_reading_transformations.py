"""Transformations of the rows that are read, and errors of those that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from farandole.spark.reading import RowReader
from farandole.spark.reading.transform import Transformation
from parquet_files import UNEVEN, write


def doubled(frame: pandas.DataFrame) -> pandas.DataFrame:
    frame["double"] = frame["x"] * 2
    frame["pair"] = [pair[::-1] for pair in frame["pair"]]
    frame["image"] = [np.full(4, x) for x in frame["x"]]
    return frame


def test_a_transformation_edits_and_removes_fields(tmp_path: Path) -> None:
    total = write(tmp_path, UNEVEN)
    transform = Transformation(doubled, [("image", np.uint8, (2, 2), False)], ["y"])
    batches = list(RowReader(str(tmp_path), transform=transform).batches(10))
    assert {name: (array.dtype, array.shape[1:]) for name, array in batches[0].items()} == {
        "x": (np.int64, ()),
        "pair": (np.float64, (2,)),
        "double": (np.int64, ()),
        "image": (np.uint8, (2, 2)),
    }
    x = np.concatenate([batch["x"] for batch in batches])
    assert x.tolist() == list(range(total))
    assert (np.concatenate([batch["double"] for batch in batches]) == 2 * x).all()
    assert (np.concatenate([batch["pair"] for batch in batches]) == np.stack([-x, x], axis=1)).all()
    assert (np.concatenate([batch["image"] for batch in batches])[:, 1, 1] == x).all()
    assert set(next(RowReader(str(tmp_path), transform=Transformation(None, None, ["y"])).batches(2))) == {"x", "pair"}


@pytest.mark.parametrize(
    ("function", "fields", "removed", "message"),
    [
        (lambda frame: frame[frame["x"] > 3], [], [], "transformation_fn was given 6 rows and returned 2: ranks would"),
        (lambda frame: 5, [], [], "transformation_fn returned a int, not a pandas.DataFrame"),
        (lambda frame: frame, [("z", np.int64, (), False)], [], r"transformation_edit_fields has \['z'\], and trans"),
        (
            lambda frame: frame.assign(pair=[np.ones(x + 1) for x in frame["x"]]),
            [],
            [],
            r"transformation_fn returned rows of the shapes \(1,\) and \(6,\) in the field pair",
        ),
        (
            lambda frame: frame,
            [("pair", np.int64, (3,), False)],
            [],
            r"has the shape \(3,\) for the field pair, and transformation_fn returned rows of the shape \(2,\)",
        ),
        (None, [], ["z"], r"transformation_removed_fields has \['z'\], and the rows have \['pair', 'x', 'y'\]"),
    ],
)
def test_transformations_that_cannot_be_used(
    tmp_path: Path, function: Any, fields: Any, removed: Any, message: str
) -> None:
    write(tmp_path, [[6]])
    with pytest.raises(ValueError, match=message):
        list(RowReader(str(tmp_path), transform=Transformation(function, fields, removed)).batches(10))


def test_a_transformation_gives_a_field_one_type(tmp_path: Path) -> None:
    write(tmp_path, [[6], [6]])

    def halved(frame: pandas.DataFrame) -> pandas.DataFrame:
        return frame.assign(x=frame["x"] / 2) if frame["x"].max() > 6 else frame

    message = r"the field x with the type int64 and the shape \(\) for some rows, and with float64 and \(\) for others"
    with pytest.raises(ValueError, match=message):
        list(RowReader(str(tmp_path), transform=Transformation(halved)).batches(10))
    edited = Transformation(halved, [("x", np.float32, (), False)])
    batches = list(RowReader(str(tmp_path), transform=edited, shuffle=True).batches(10))
    assert sorted(x for batch in batches for x in batch["x"].tolist()) == [0, 1, 2, 3, 3, 3.5, 4, 4, 4.5, 5, 5, 5.5]
