"""Gives Python objects to all ranks, for any framework: the length first, then the pickled bytes."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any, List, Optional

from farandole.common import job, object_tags, safe_objects
from farandole.common.calls import allgathers, broadcasts
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set

if TYPE_CHECKING:
    import numpy

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
    content = pickled(obj, name, process_set) if is_root else numpy.empty(0, "uint8")
    length = numpy.array([content.size], "int64")
    request = broadcasts[root_rank, True]
    start(request, f"{name}.sz", length, length, process_set).finish()
    if not is_root:
        content = numpy.empty(int(length[0]), "uint8")
    start(request, f"{name}.t", content, content, process_set).finish()
    return obj if is_root else unpickled(content, name, process_set, root_rank)


@public
def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    import numpy

    from farandole.common.arrays import start_unsized

    name = name or _NAME
    content = pickled(obj, name, process_set)
    length = numpy.array([content.size], "int64")
    lengths = start_unsized(allgathers[True], f"{name}.sz", length, process_set).finish()
    gathered = start_unsized(allgathers[True], f"{name}.t", content, process_set).finish()
    parts = numpy.split(gathered, numpy.cumsum(lengths)[:-1])
    return [unpickled(part, name, process_set) for part in parts]  # not one of each rank: some may have joined


def pickled(obj: Any, name: str, process_set: ProcessSet) -> numpy.ndarray:
    """The object as bytes, behind room for its tag."""
    import numpy

    from farandole.common.object_pickler import ObjectPickler

    tags = object_tags.of_this_job()
    stream = io.BytesIO(bytes(tags.header_bytes()))
    stream.seek(0, io.SEEK_END)
    ObjectPickler(stream).dump(obj)
    content = stream.getbuffer()
    tags.seal(content, name, _number(process_set))
    return numpy.frombuffer(content, "uint8")


def unpickled(content: numpy.ndarray, name: str, process_set: ProcessSet, sender: Optional[int] = None) -> Any:
    """The object that this global rank sent; None: any member of the set."""
    body = object_tags.of_this_job().open(content.data, name, _number(process_set), sender)
    return safe_objects.loads(body) if safe_objects.are_required() else pickle.loads(body)


def _number(process_set: ProcessSet) -> int:
    """Of a set that can be used; the operation refuses every other."""
    return getattr(process_set, "process_set_id", None) or 0
