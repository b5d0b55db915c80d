"""Both readers, where petastorm is installed: every row of every epoch is counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("petastorm")

from farandole.spark.torch.datamodule import PetastormDataModule  # noqa: E402


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("pool", ["petastorm", "thread"])
@pytest.mark.parametrize("ranks", [2, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 3, 4))])
def test_each_row_reaches_one_rank_in_each_epoch(tmp_path: Path, pool: str, ranks: int) -> None:
    start = 0
    for number, rows in enumerate((5, 1, 40, 21)):
        x = np.arange(start, start + rows)
        pair = pa.array([[float(i), float(-i)] for i in x.tolist()])
        pq.write_table(pa.table({"x": x, "y": x / 2, "pair": pair}), tmp_path / f"{number}.parquet")
        start += rows
    found: Counter = Counter()
    for rank in range(ranks):
        with PetastormDataModule(
            reader_pool_type=pool,
            train_reader_worker_count=2,
            train_dir=f"file://{tmp_path}",
            val_dir=f"file://{tmp_path}",
            transform_fn=lambda frame: frame.assign(y=frame["y"] * 2),
            train_batch_size=4,
            cur_shard=rank,
            shard_count=ranks,
            schema_fields=["x", "y", "pair"],
            verbose=False,
        ) as module:
            loader = module.train_data()
            for _ in range(2):
                for batch in loader:
                    assert batch["y"].tolist() == batch["x"].tolist() == batch["pair"][:, 0].tolist()
                    found.update(batch["x"].tolist())
    assert found == Counter(dict.fromkeys(range(start), 2))
