"""Sends the messages of gradient compressors, round by round; see ``farandole.torch.compression.gradient``."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from farandole.common import calls
from farandole.common.calls import handles_of
from farandole.common.process_sets import ProcessSet
from farandole.common.reduction import adds
from farandole.torch import entry
from farandole.torch.arguments import require_memory, require_tensor
from farandole.torch.compression.gradient import Allgather, Allreduce, GradientCompressor, Message, Reduction, check
from farandole.torch.compression.wire import bytes_of
from farandole.torch.memory import like
from farandole.torch.ops.sparse import start_values, summed


class Rounds:
    """An operation in progress in rounds, each of which starts when this rank has waited for the one before."""

    def advance(self) -> bool:
        """Waits for this round and starts the next; returns False if there is none."""
        raise NotImplementedError

    def wait(self) -> None:
        """Waits for all rounds."""
        while self.advance():
            pass


class Exchange(Rounds):
    """The exchange in progress of one compressed gradient or a group of them. The messages that a group sends in one
    round, and that are reduced alike, become ready together.

    If no rank contributes to a gradient, its result is None, and its compressor keeps its state. If this rank
    contributes nothing, and others have a sparse gradient, which is not compressed, the result is sparse. Therefore a
    first message that is reduced has the name of its gradient: the others gather indices under this name.

    :param absent: for each gradient, whether this rank contributes nothing; the gradient is zeros then
    """

    def __init__(
        self,
        compressor: GradientCompressor,
        names: Sequence[str],
        gradients: Sequence[torch.Tensor],
        how: Reduction,
        process_set: ProcessSet,
        in_place: bool = False,
        absent: Optional[Sequence[bool]] = None,
    ) -> None:
        self._absent = {index for index, is_absent in enumerate(absent or []) if is_absent}
        """The absent gradients of which no message has said so yet: the first that may be absent does."""
        self._compressor = compressor
        self._names = names
        self._gradients = gradients
        self._how = how
        self._process_set = process_set
        self._in_place = in_place
        self._steps = [compressor.exchange(name, each, how) for name, each in zip(names, gradients)]
        self._reduced: List[Optional[torch.Tensor]] = [None] * len(self._steps)
        self._rows: List[_Rows] = []
        self._is_first = True
        self._round: List[_Bucket] = []
        self._problem: Optional[BaseException] = None
        compressor.count(raw=sum(bytes_of(each) for each in gradients))
        self._next(dict.fromkeys(range(len(self._steps))))

    def advance(self) -> bool:
        if self._problem is not None:
            raise self._problem
        if not self._in_progress():
            return False
        for call in self._calls():
            try:
                call.wait()  # may be called again after an interrupt
            except (RuntimeError, ValueError) as problem:
                self._problem = problem
        if self._problem is not None:
            raise self._problem
        try:
            self._add_rows()
            self._next(self._answers())
        except BaseException as problem:
            self._problem = problem
            raise
        return self._in_progress()

    def settled(self) -> bool:
        """Whether this round is complete, so that ``advance`` would not wait."""
        return all(call.settled() for call in self._calls())

    def finish(self) -> List[Any]:
        """Waits for all rounds, and returns the reduced gradients."""
        self.wait()
        return self._reduced

    def _in_progress(self) -> bool:
        return bool(self._round or self._rows)

    def _calls(self) -> List[Any]:
        return [bucket.call for bucket in self._round] + [rows.call for rows in self._rows]

    def _add_rows(self) -> None:
        """Makes sparse gradients of the rows that have been gathered."""
        for rows in self._rows:
            gradient, values = self._gradients[rows.index], rows.call.finish()
            self._reduced[rows.index] = summed(gradient, rows.places, values, self._how.op, self._process_set)
        self._rows = []

    def _answers(self) -> Dict[int, Any]:
        """The results of this round, by the index of the gradient."""
        came: Dict[int, Dict[int, Any]] = {}
        for bucket in self._round:
            result = bucket.call.finish()
            results = [result] if len(bucket.asked) == 1 else result
            for (index, position, _), each, handle in zip(bucket.asked, results, handles_of(bucket.call)):
                if handle.has_rows:
                    self._steps[index].close()
                    self._rows.append(self._gather(index, torch.utils.dlpack.from_dlpack(handle.dlpack())))
                    continue
                if not handle.has_result:
                    self._steps[index].close()
                    continue
                self._compressor.count(received=bytes_of(each))
                came.setdefault(index, {})[position] = each
        return {
            index: parts[_ALONE] if _ALONE in parts else [parts[position] for position in sorted(parts)]
            for index, parts in came.items()
        }

    def _gather(self, index: int, places: torch.Tensor) -> _Rows:
        """Takes part in the gathering of values at these places, with no values of this rank."""
        gradient = self._gradients[index]
        values = gradient.new_empty((0, *gradient.shape[places.size(1) :]))
        return _Rows(index, places.to(gradient.device), start_values(values, self._names[index], self._process_set))

    @torch.no_grad()
    def _next(self, answers: Dict[int, Any]) -> None:
        self._round = []
        buckets: Dict[Any, _Bucket] = {}
        for index, answer in answers.items():
            try:
                said = self._steps[index].send(answer)
            except StopIteration as ended:
                self._reduced[index] = ended.value
                continue
            asked = [(_ALONE, said)] if isinstance(said, (Allreduce, Allgather)) else list(enumerate(said))
            if not asked:
                raise ValueError(
                    f"the compressor of {self._names[index]!r} yielded an empty list: nothing can come of it"
                )
            for position, message in asked:
                kind = (type(message), getattr(message, "op", None))
                buckets.setdefault(kind, _Bucket()).asked.append((index, position, message))
        for bucket in buckets.values():
            bucket.call = self._start(bucket)
            self._round.append(bucket)
        self._is_first = False
        for bucket in buckets.values():
            if bucket.may_be_absent:
                self._absent.difference_update(index for index, _, _ in bucket.asked)

    def _start(self, bucket: _Bucket) -> Any:
        asked = bucket.asked
        tensors = [each.tensor.contiguous() for _, _, each in asked]
        self._compressor.count(sent=sum(bytes_of(each) for each in tensors))
        index, position, message = asked[0]
        is_first = self._is_first and isinstance(message, Allreduce)
        name = f"{self._names[index]}.{message.label}" if message.label else self._names[index]
        if is_first and position == _ALONE:
            name = self._names[index]
        alone = len(asked) == 1
        absent = [bucket.may_be_absent and each in self._absent for each, _, _ in asked]
        if isinstance(message, Allgather):
            if alone:
                request = calls.allgathers[False]
                return entry.start_unsized(request, name, tensors[0], self._process_set, absent=absent[0])
            return entry.start_group(calls.GROUPED_ALLGATHER, name, tensors, None, self._process_set, absent=absent)
        # A compressor's tensors are not overwritten, except the gradient itself if the caller allows it.
        targets = [
            tensor if self._in_place and tensor is self._gradients[index] else like(tensor)
            for tensor, (index, _, _) in zip(tensors, asked)
        ]
        how = self._how if message.op is None else Reduction(message.op, 1.0, 1.0, self._how.size)
        if alone:
            request = calls.reduction(None, how.op, how.prescale, how.postscale)
            return entry.start(request, name, tensors[0], targets[0], self._process_set, absent=absent[0])
        if is_first and all(position == _ALONE for _, position, _ in asked):
            names = [self._names[each] for each, _, _ in asked]  # the group may have other members on other ranks
            request = calls.reduction(None, how.op, how.prescale, how.postscale)
            return entry.start_group(request, names, tensors, targets, self._process_set, absent=absent)
        request = calls.grouped_reduction(None, how.op, how.prescale, how.postscale)
        return entry.start_group(request, name, tensors, targets, self._process_set, absent=absent)


class _Bucket:
    """Messages that are sent in one operation. ``asked`` holds the index of the gradient, the position among its
    messages of this round (``_ALONE`` if it yielded no list), and the message."""

    __slots__ = ("asked", "call")

    def __init__(self) -> None:
        self.asked: List[Tuple[int, int, Message]] = []
        self.call: Any = None

    @property
    def may_be_absent(self) -> bool:
        """Whether a rank may contribute nothing to these messages. A reduction that does not add needs them all."""
        op = getattr(self.asked[0][2], "op", None)
        return op is None or adds(op)


class _Rows:
    """The values of a sparse gradient that only other ranks have, on their way, and their places."""

    def __init__(self, index: int, places: torch.Tensor, call: Any) -> None:
        self.index = index
        self.places = places
        self.call = call


_ALONE = -1


def advance_together(calls: Sequence[Any]) -> None:
    """Runs the rounds of all calls that have such concurrently. Each runs to its end even if another one fails, because
    other ranks wait for its messages. The error of one that has failed is raised by its ``wait``."""
    going_on = [call for call in calls if isinstance(call, Rounds)]
    while going_on:
        going_on = [rounds for rounds in going_on if _advances(rounds)]


def _advances(rounds: Rounds) -> bool:
    try:
        return rounds.advance()
    except (RuntimeError, ValueError):
        return False


def wanted(op: int, prescale: float, postscale: float, process_set: ProcessSet) -> Reduction:
    """The caller's options of a reduction, with the number of ranks that take part."""
    set_rank = calls.set_rank_in(process_set)
    return Reduction(op, prescale, postscale, 1 if set_rank is None else set_rank.size)


def reduce(
    compressor: GradientCompressor,
    tensors: Sequence[torch.Tensor],
    names: Sequence[str],
    average: Optional[bool],
    op: Optional[int],
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> List[torch.Tensor]:
    """Reduces tensors as one group by a compressor that stores errors by name, and waits for the result."""
    if op is None or average is not None:
        op = calls.handle_average_backwards_compatibility(op, average)
    check(compressor, op)
    for name, each in zip(names, tensors):
        require_tensor("allreduce", name, each)
        require_memory("allreduce", name, each)
    if entry.records_gradients(tensors):
        raise ValueError(f"{type(compressor).__name__} lets no gradients through: detach() the tensor first")
    return Exchange(compressor, names, tensors, wanted(op, prescale, postscale, process_set), process_set).finish()
