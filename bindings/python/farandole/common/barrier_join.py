"""barrier and join: operations without a tensor."""

from __future__ import annotations

from farandole import _native
from farandole.common import job as _job
from farandole.common import operations
from farandole.common.arguments import require_process_set
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set

_BARRIER = _native.Request(operations.BARRIER, "barrier")
_JOIN = _native.Request(operations.JOIN, "join")


@public
def barrier(process_set: ProcessSet = global_process_set) -> None:
    require_process_set("barrier", None, process_set)
    _job.runtime.submit(_BARRIER, None, None, None, process_set.process_set_id).wait()


@public
def join(device: int = -1) -> int:
    _job.complete()
    handle = _job.runtime.submit(_JOIN, None, None, None, 0)
    handle.wait()
    return handle.last_rank
