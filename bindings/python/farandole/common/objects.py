"""Gives Python objects to all ranks, whatever the framework: pickled, as bytes, and their number before them."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any, List, Optional

from farandole.common import job
from farandole.common.calls import ALLGATHER_AT_ONCE, broadcasts
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set

if TYPE_CHECKING:
    import numpy

MOST_BYTES = 2**31 - 1

_NAME = "object"
"""Not the object's type: other ranks may well pass None."""


@public
def broadcast_object(
    obj: Any, root_rank: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Any:
    import numpy

    from farandole.common.arrays import start

    name = name or _NAME
    is_root = job.where().rank == root_rank
    content = pickled(obj, name) if is_root else numpy.empty(0, "uint8")
    length = numpy.array([content.size], "int32")
    request = broadcasts[root_rank]
    start(request, f"{name}.sz", length, length, process_set).finish()
    if not is_root:
        content = numpy.empty(int(length[0]), "uint8")
    start(request, f"{name}.t", content, content, process_set).finish()
    return obj if is_root else pickle.loads(content.data)


@public
def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    import numpy

    from farandole.common.arrays import start_unsized

    name = name or _NAME
    content = pickled(obj, name)
    length = numpy.array([content.size], "int64")
    lengths = start_unsized(ALLGATHER_AT_ONCE, f"{name}.sz", length, process_set).finish()
    gathered = start_unsized(ALLGATHER_AT_ONCE, f"{name}.t", content, process_set).finish()
    return [pickle.loads(each.data) for each in numpy.split(gathered, numpy.cumsum(lengths)[:-1])]


def pickled(obj: Any, name: str) -> numpy.ndarray:
    """The object as bytes; ``ValueError`` if they are too many to be sent at once."""
    import cloudpickle
    import numpy

    stream = io.BytesIO()
    cloudpickle.dump(obj, stream)
    size = stream.tell()
    if size > MOST_BYTES:
        rank = job.where().rank
        raise ValueError(
            f"{name}: the object of rank {rank} takes {size} bytes when pickled, and at most {MOST_BYTES} (2 GiB) can "
            "be sent at once; send it in parts"
        )
    return numpy.frombuffer(stream.getbuffer(), "uint8")
