"""allreduce: the same sum, average, minimum, maximum or product on every rank."""

from __future__ import annotations

from typing import Any

from farandole.common import job as _job
from farandole.common.arguments import FAILURES
from farandole.common.basics import HorovodBasics
from farandole.common.calls import allreduces, grouped_reduction, handle_average_backwards_compatibility, reduction
from farandole.common.handles import keep, pending_handles
from farandole.common.process_sets import ProcessSet
from farandole.common.wrappers import public_in
from farandole.torch.arguments import explain, pack, pack_group, require_tensors
from farandole.torch.compression import Compression, GradientCompressor
from farandole.torch.compression.halves import compress_at_once, decompress_all
from farandole.torch.entry import (
    records_gradients,
    start,
    start_group_in_place,
    start_group_new,
    start_in_place,
    start_new,
)
from farandole.torch.exchange import reduce
from farandole.torch.gpu import must_copy
from farandole.torch.graph import is_tracing, reductions
from farandole.torch.memory import with_reals
from farandole.torch.ops.piecewise import allreduce_in_pieces, pays
from farandole.torch.ops.recorded import Gradients, recorded_in, wrapper_for
from farandole.torch.profiler_ranges import flags
from farandole.torch.submission import OFFERS_EXCHANGE_TABLE

public = public_in("torch", Compression=Compression)
wrapper = wrapper_for(__name__)
recorded = recorded_in(__name__)

_unscaled = allreduces.unscaled

allreduce_async = wrapper("allreduce_async", start_new)
grouped_allreduce_async = wrapper("grouped_allreduce_async", start_group_new)
grouped_allreduce_, grouped_allreduce_async_ = wrapper.both("grouped_allreduce_", start_group_in_place, reductions)


# Hand-written training loops call the following two for every gradient, so the common case takes one native call.
@public
def allreduce_(tensor, average, name, op, prescale_factor, postscale_factor, process_set):
    if is_tracing():
        return reductions.allreduce_(tensor, average, name, op, prescale_factor, postscale_factor, process_set)
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average)
    request = allreduces[op, prescale_factor, postscale_factor, True]
    if OFFERS_EXCHANGE_TABLE and not flags._is_profiler_enabled:
        try:
            return _job.runtime.submit_and_wait(request, name, tensor, tensor, process_set.process_set_id)
        except FAILURES:
            explain(request.prefix, name, tensor, process_set, in_place=True)
            raise
        except NotImplementedError:
            if not tensor.is_neg() and not must_copy(tensor):
                raise
    return start(request, name, tensor, tensor, process_set).finish()


@public
def allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set):
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average)
    if prescale_factor == 1.0 and postscale_factor == 1.0:
        request = _unscaled.get(op)
    else:
        request = allreduces.get((op, prescale_factor, postscale_factor, False))
    if request is not None and OFFERS_EXCHANGE_TABLE and not flags._is_profiler_enabled:
        try:
            return _job.runtime.submit_pending(
                pending_handles, request, name, tensor, tensor, process_set.process_set_id
            )
        except FAILURES:
            explain(request.prefix, name, tensor, process_set, in_place=True)
            raise
        except NotImplementedError:
            if not tensor.is_neg() and not must_copy(tensor):
                raise
    request = reduction(None, op, prescale_factor, postscale_factor)
    return keep(start(request, name, tensor, tensor, process_set))


def alike(ctx: Any, gradients: Gradients) -> Gradients:
    """the gradients are reduced in the same way."""
    average, _, op, *scales, process_set = ctx.options
    if ctx.is_group:
        return grouped_allreduce(gradients, average, None, Compression.none, op, *scales, process_set)
    return [allreduce(gradients[0], average, None, Compression.none, op, *scales, process_set)]


def averaged(ctx: Any, gradients: Gradients, process_set: ProcessSet) -> Gradients:
    """Averages gradients over all ranks, the first step of the gradients of allgather and broadcast."""
    how: Any = {"op": HorovodBasics.Average, "process_set": process_set}
    if ctx.is_group:
        return with_reals(lambda reals: grouped_allreduce(reals, **how), gradients)
    return with_reals(lambda reals: [allreduce(reals[0], **how)], gradients)


HorovodAllreduce = recorded("allreduce", start_new, alike)
HorovodGroupedAllreduce = recorded("grouped_allreduce", start_group_new, alike)


def _is_own(compression: Any, context: Any) -> bool:
    """Whether the packed tensor was made by one of Farandole's compressors, so that its memory may hold the
    result."""
    return context is not None and compression in (Compression.fp16, Compression.bf16)


def _require_name(name: Any) -> None:
    if name is None:
        raise ValueError("a compressor with error feedback needs the tensor's name; pass name=")


@public
def allreduce(tensor, average, name, compression, op, prescale_factor, postscale_factor, process_set):
    if isinstance(compression, GradientCompressor):
        _require_name(name)
        return reduce(compression, [tensor], [name], average, op, prescale_factor, postscale_factor, process_set)[0]
    if pays(tensor, compression, op) and not records_gradients((tensor,)):
        request = reduction(average, op, prescale_factor, postscale_factor)
        return allreduce_in_pieces(request, name, tensor, compression, process_set)
    packed, context = pack("allreduce", name, compression, tensor)
    if is_tracing():
        how = (average, name, op, prescale_factor, postscale_factor, process_set)
        reduced = reductions.allreduce(packed, *how)
    elif records_gradients((packed,)):
        reduced = HorovodAllreduce.apply(packed, average, name, op, prescale_factor, postscale_factor, process_set)
    else:
        begin = start_in_place if _is_own(compression, context) else start_new
        request = reduction(average, op, prescale_factor, postscale_factor, waits=True)
        reduced = begin(request, name, packed, process_set).finish()
    return compression.decompress(reduced, context)


@public
def grouped_allreduce(tensors, average, name, compression, op, prescale_factor, postscale_factor, process_set):
    tensors = require_tensors("grouped_allreduce", name, tensors)
    if not tensors:
        return []
    how = (average, name, op, prescale_factor, postscale_factor, process_set)
    if isinstance(compression, GradientCompressor):
        _require_name(name)
        names = [f"{name}.{number}" for number in range(len(tensors))]
        return reduce(compression, tensors, names, average, op, prescale_factor, postscale_factor, process_set)
    at_once = compress_at_once(compression, tensors)
    packed, contexts = at_once or pack_group("grouped_allreduce", name, compression, tensors)
    if is_tracing():
        reduced = reductions.grouped_allreduce(packed, *how)
    elif records_gradients(packed):
        reduced = HorovodGroupedAllreduce.apply(*how, *packed)
    else:
        request = grouped_reduction(average, op, prescale_factor, postscale_factor, waits=True)
        reused = [_is_own(compression, context) for context in contexts]
        reduced = start_group_new(request, name, packed, process_set, reused).finish()
    return decompress_all(compression, reduced, contexts)
