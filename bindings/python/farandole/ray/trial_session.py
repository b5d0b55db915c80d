"""The session of Ray Tune in the workers of a trial, so that ``tune.report`` and ``tune.get_checkpoint`` work there.

Tune offers no way to provide a session, so this module sets the variable that Tune's functions read. Checkpoints travel
as archives, because the trial may run on another node.
"""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import tempfile
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, Optional

from farandole.ray import ray_logger


@dataclass(frozen=True)
class TrialFacts:
    """The answers of ``tune.get_context()``."""

    trial_id: str
    trial_name: str
    trial_dir: str
    experiment_name: str
    trial_resources: Any


@dataclass(frozen=True)
class Report:
    """The arguments of ``tune.report`` on rank 0."""

    metrics: Dict[str, Any]
    checkpoint: Optional[bytes]
    """An archive of the checkpoint's folder."""


def packed(checkpoint: Any) -> Optional[bytes]:
    """An archive of a checkpoint of Ray; None without one."""
    if checkpoint is None:
        return None
    content = io.BytesIO()
    with checkpoint.as_directory() as folder, tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(folder, arcname=".")
    return content.getvalue()


@contextlib.contextmanager
def unpacked(content: Optional[bytes]) -> Iterator[Optional[str]]:
    """A temporary folder with the files of an archive; None without one."""
    if content is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="farandole-checkpoint-") as folder:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(folder)  # made by ``packed()`` in a process of this job
        yield folder


class WorkerSession:
    """Takes the place of Tune's session in a worker."""

    world_rank = None
    """As in a trial that Tune runs itself."""

    def __init__(self, facts: TrialFacts, checkpoint: Any) -> None:
        self._facts = facts
        self.loaded_checkpoint = checkpoint

    def report(self, metrics: Dict[str, Any], checkpoint: Any = None) -> None:
        """Sends metrics and a checkpoint of rank 0 to the trial; the files may be removed afterwards."""
        if os.environ.get("HOROVOD_RANK", "0") == "0":
            ray_logger.log(Report(dict(metrics), packed(checkpoint)))

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._facts, name)
        except AttributeError:
            raise AttributeError(
                f"Ray Tune's session has no {name} in the workers of a distributed trial; there are report(), "
                "get_checkpoint() and the facts about the trial"
            ) from None


def run_in_session(
    func: Callable[[Dict[str, Any]], Any], config: Dict[str, Any], facts: TrialFacts, checkpoint: Optional[bytes]
) -> Any:
    """Runs a training function in a worker of a trial."""
    from ray import tune
    from ray.train._internal import session

    with unpacked(checkpoint) as folder:
        before = session._session
        own = tune.Checkpoint.from_directory(folder) if folder is not None else None
        session._session = WorkerSession(facts, own)
        try:
            return func(config)
        finally:
            session._session = before
