"""The output of a run on rank 0: a line for each epoch, and logs for TensorBoard where tensorboardX is installed."""

from __future__ import annotations

import importlib.util
import os
import time
from typing import Any, Dict, Optional

Record = Dict[str, Any]
"""An epoch of the history: ``epoch``, ``train`` and, with validation, ``validation``: means by name."""


def record(epoch: int, train: Dict[str, float], validation: Optional[Dict[str, float]]) -> Record:
    """An epoch of the history.

    :param epoch: its number from 0
    :param train: means over the rows that it was trained on, by name
    :param validation: means over the rows to validate with; None without validation
    """
    made: Record = {"epoch": epoch, "train": train}
    if validation is not None:
        made["validation"] = validation
    return made


class RunLog:
    """Prints the epochs of a run, and writes them to a folder for TensorBoard.

    :param folder: None to write none
    :param verbose: 0 to print nothing
    """

    def __init__(self, folder: Optional[str], verbose: int) -> None:
        self._verbose = verbose
        self._writer: Any = None
        self._started = time.monotonic()
        if folder is not None and importlib.util.find_spec("tensorboardX") is not None:
            from tensorboardX import SummaryWriter

            os.makedirs(folder, exist_ok=True)
            self._writer = SummaryWriter(folder)

    def epoch(self, epoch: Record, last_epoch: int) -> None:
        """Prints and writes an epoch."""
        parts = {"train": epoch["train"], "validation": epoch.get("validation", {})}
        if self._verbose:
            values = [f"{part} {name} {value:.6g}" for part, means in parts.items() for name, value in means.items()]
            seconds, self._started = time.monotonic() - self._started, time.monotonic()
            print(f"epoch {epoch['epoch'] + 1} of {last_epoch} ({seconds:.1f} s): {', '.join(values)}", flush=True)
        if self._writer is not None:
            for part, means in parts.items():
                for name, value in means.items():
                    self._writer.add_scalar(f"{part}/{name}", value, epoch["epoch"])
            self._writer.flush()

    def close(self) -> None:
        """Closes the files."""
        if self._writer is not None:
            self._writer.close()
