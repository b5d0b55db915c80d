"""Sends the messages of gradient compressors, round by round; see ``farandole.torch.compression.gradient``."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from farandole.common import calls
from farandole.common.calls import GATHERED_REDUCTION, abandon, following, handles_of
from farandole.common.process_sets import ProcessSet
from farandole.common.reduction import adds
from farandole.torch import entry
from farandole.torch.arguments import require_memory, require_tensor
from farandole.torch.compression.gradient import Allgather, Allreduce, GradientCompressor, Message, Reduction, check
from farandole.torch.compression.wire import bytes_of
from farandole.torch.memory import elements_of, has_unknown_type, like, rows_of_bytes
from farandole.torch.ops.sparse import start_no_values, summed
from farandole.torch.submission import untraced


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
    contributes nothing, and others have a sparse gradient, which is not compressed, the result is sparse. Therefore the
    first message has the name of its gradient: the others gather indices, of int64, under this name. The other messages
    of the first round are sent ahead, and waited for as a round of their own. A rank that contributes nothing sends
    them only when the first message has been answered: if the gradient is sparse, no rank answers them.

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
        self._names_after: Dict[int, str] = {}
        """By gradient, the first part of the names of all messages but the first, once there are any."""
        self._gradients = gradients
        self._how = how
        self._process_set = process_set
        self._in_place = in_place
        self._steps = [compressor.exchange(name, each, how) for name, each in zip(names, gradients)]
        self._reduced: List[Optional[torch.Tensor]] = [None] * len(self._steps)
        self._rows: List[_Rows] = []
        self._held: Dict[int, List[Tuple[int, Message]]] = {}
        """By gradient, the other messages of its first round that are not sent yet, with their positions."""
        self._first_answers: Dict[int, List[Any]] = {}
        """By gradient, the answer to its first message, until those to the others come."""
        self._is_first = True
        self._round: List[_Bucket] = []
        self._ahead: List[_Bucket] = []
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
            for bucket in self._ahead:
                abandon(bucket.call)  # ranks with a sparse gradient do not request these
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
            for (index, position, message), each, handle in zip(bucket.asked, results, handles_of(bucket.call)):
                if handle.has_rows:
                    self._steps[index].close()
                    self._rows.append(self._gather(index, torch.utils.dlpack.from_dlpack(handle.dlpack())))
                    continue
                if not handle.has_result:
                    self._steps[index].close()
                    continue
                self._compressor.count(received=bytes_of(each))
                came.setdefault(index, {})[position] = _as_given(message, each)
        return {
            index: parts[_ALONE] if _ALONE in parts else [parts[position] for position in sorted(parts)]
            for index, parts in came.items()
        }

    def _gather(self, index: int, places: torch.Tensor) -> _Rows:
        """Takes part in the gathering of values at these places, with no values of this rank."""
        gradient = self._gradients[index]
        values = start_no_values(gradient, places, self._names[index], self._process_set)
        return _Rows(index, places.to(gradient.device), values)

    @torch.no_grad()
    def _next(self, answers: Dict[int, Any]) -> None:
        self._round, self._ahead = self._ahead, []
        buckets: Dict[Any, _Bucket] = {}
        for index, answer in answers.items():
            for position, message in self._asked(index, answer):
                is_ahead = self._is_first and position > 0
                kind = (is_ahead, type(message), getattr(message, "op", None))
                buckets.setdefault(kind, _Bucket()).asked.append((index, position, message))
        for (is_ahead, *_), bucket in buckets.items():
            bucket.call = self._start(bucket)
            (self._ahead if is_ahead else self._round).append(bucket)
        self._is_first = False
        for bucket in buckets.values():
            if bucket.may_be_absent:
                self._absent.difference_update(index for index, _, _ in bucket.asked)

    def _asked(self, index: int, answer: Any) -> List[Tuple[int, Message]]:
        """The messages that follow this answer, with their positions; none if the exchange has ended."""
        if index in self._held:
            self._first_answers[index] = answer
            return self._held.pop(index)
        if index in self._first_answers:
            answer = self._first_answers.pop(index) + answer
        try:
            said = self._steps[index].send(answer)
        except StopIteration as ended:
            self._reduced[index] = ended.value
            return []
        if isinstance(said, (Allreduce, Allgather)):
            return [(_ALONE, said)]
        asked = list(enumerate(said))
        if not asked:
            raise ValueError(f"the compressor of {self._names[index]!r} yielded an empty list: nothing can come of it")
        if self._is_first and len(asked) > 1:
            self._name_after(index)  # while the first message is not in flight
            sent = 1 if index in self._absent else len(asked)
            asked, self._held[index] = asked[:sent], asked[sent:]
        return asked

    def _name(self, index: int, position: int, message: Message) -> str:
        """The same on all ranks, whichever other gradients are in the group there."""
        if self._is_first and position in (_ALONE, 0):
            return self._names[index]
        return ".".join(filter(None, (self._name_after(index), message.label, str(position) if position > 0 else "")))

    def _name_after(self, index: int) -> str:
        name = self._names_after.get(index)
        if name is None:
            first = self._names[index]
            name = self._names_after[index] = following(first, GATHERED_REDUCTION, first, self._process_set)
        return name

    def _start(self, bucket: _Bucket) -> Any:
        asked = bucket.asked
        names = [self._name(*each) for each in asked]
        tensors = [_as_sent(message) for _, _, message in asked]
        self._compressor.count(sent=sum(bytes_of(each) for each in tensors))
        alone = len(asked) == 1
        absent = [bucket.may_be_absent and index in self._absent for index, _, _ in asked]
        message = asked[0][2]
        if isinstance(message, Allgather):
            request = GATHERED_REDUCTION
            if alone:
                return entry.start_unsized(request, names[0], tensors[0], self._process_set, absent=absent[0])
            return entry.start_group(request, names, tensors, None, self._process_set, absent=absent)
        # A compressor's tensors are not overwritten, except the gradient itself if the caller allows it.
        targets = [
            tensor if self._in_place and tensor is self._gradients[index] else like(tensor)
            for tensor, (index, _, _) in zip(tensors, asked)
        ]
        how = self._how if message.op is None else Reduction(message.op, 1.0, 1.0, self._how.size)
        request = calls.reduction(None, how.op, how.prescale, how.postscale)
        if alone:
            return entry.start(request, names[0], tensors[0], targets[0], self._process_set, absent=absent[0])
        return entry.start_group(request, names, tensors, targets, self._process_set, absent=absent)


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


def _as_sent(message: Message) -> torch.Tensor:
    """The tensor to send for a message. A gathered tensor travels as bytes if it is of int64, the type of the
    indices that other ranks may gather under the same name, or of a type that the runtime does not know."""
    tensor = message.tensor.contiguous()
    if isinstance(message, Allgather) and (tensor.dtype == torch.int64 or has_unknown_type(tensor)):
        return rows_of_bytes(tensor.resolve_neg())
    return tensor


def _as_given(message: Message, result: torch.Tensor) -> torch.Tensor:
    """The result of a message in the type that the compressor has given it."""
    return result if result.dtype == message.tensor.dtype else elements_of(result, message.tensor.dtype)


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


@untraced
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
