"""The reader of Parquet: rows per second beside PyArrow alone, and peak memory beside a process that reads nothing:
`python reading.py ROUNDS NAME…` prints JSON. `python reading.py peak-of FOLDER` reads the folder, or only loads PyTorch
and the reader if its name is empty, and prints its peak memory in bytes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Callable

ROWS, COLUMNS, GROUPS = 1_000_000, 20, 4
LARGE_ROWS, LARGE_GROUPS = 50_000_000, 40
"""Random floats cannot be compressed: 80 bytes a row, 4 GB in the file."""
BATCH = 1000


def write(folder: Path, rows: int, groups: int) -> None:
    import numpy
    import pyarrow.parquet

    random = numpy.random.default_rng(1)
    schema = pyarrow.schema([(f"c{i}", pyarrow.float32()) for i in range(COLUMNS)])
    with pyarrow.parquet.ParquetWriter(folder / "part-0.parquet", schema) as file:
        for _ in range(groups):
            columns = [random.random(rows // groups, dtype=numpy.float32) for _ in range(COLUMNS)]
            file.write_table(pyarrow.table(columns, schema), row_group_size=rows // groups)


def ours(folder: Path, wanted: int = ROWS) -> float:
    from farandole.spark.torch.datamodule import PetastormDataModule

    with PetastormDataModule(
        train_dir=str(folder), val_dir="", has_val=False, train_batch_size=BATCH, shuffle=True, verbose=False
    ) as data:
        loader = data.train_data()
        begin = time.perf_counter()
        rows = sum(len(batch["c0"]) for batch in loader)
        seconds = time.perf_counter() - begin
    assert rows == wanted, rows
    return wanted / seconds


def other(folder: Path) -> float:
    import pyarrow.dataset

    begin = time.perf_counter()
    rows = 0
    for batch in pyarrow.dataset.dataset(str(folder)).to_batches(batch_size=BATCH):
        rows += len([column.to_numpy() for column in batch.columns][0])
    assert rows == ROWS, rows
    return ROWS / (time.perf_counter() - begin)


def peak_of(folder: str) -> int:
    """The peak memory of a process that reads the large data, or only loads PyTorch and the reader."""
    ran = subprocess.run([sys.executable, __file__, "peak-of", folder], stdout=subprocess.PIPE, text=True, check=True)
    return int(ran.stdout)


def own_peak(folder: str) -> int:
    import farandole.spark.torch.datamodule  # noqa: F401

    if folder:
        ours(Path(folder), LARGE_ROWS)
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def taking_turns(rounds: int, our: Callable[[], float], their: Callable[[], float]) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {"ours": [], "other": []}
    for _ in range(rounds):
        samples["other"].append(their())
        samples["ours"].append(our())
    return samples


def main() -> None:
    if sys.argv[1] == "peak-of":
        print(own_peak(sys.argv[2]))
        return
    rounds, names = int(sys.argv[1]), sys.argv[2:]
    results = {}
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as name:
        folder = Path(name)
        if "read" in names:
            write(folder, ROWS, GROUPS)
            samples = taking_turns(rounds + 1, partial(ours, folder), partial(other, folder))
            results["read"] = {each: values[1:] for each, values in samples.items()}  # the first fills caches
        if "reading_memory" in names:
            write(folder, LARGE_ROWS, LARGE_GROUPS)
            results["reading_memory"] = taking_turns(rounds, partial(peak_of, name), partial(peak_of, ""))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
