"""Calls a training function until it ends by itself, and brings members together again when they have changed."""

from __future__ import annotations

import functools
import logging
import os
import time
from typing import TYPE_CHECKING, Callable, NamedTuple, Optional, TypeVar, Union

from farandole.common import job, membership, set_generations
from farandole.common.basics import HorovodBasics, leave
from farandole.common.departure import chain
from farandole.common.elastic import events, set_faults
from farandole.common.elastic.notices import notification_manager
from farandole.common.elastic.retry import RetryPolicy
from farandole.common.elastic.state import State
from farandole.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt, is_fault_of_the_call, make_error

if TYPE_CHECKING:
    # Type checkers bring this module along; Python 3.9 has none of its own.
    from typing_extensions import Concatenate, ParamSpec

    Rest = ParamSpec("Rest")
    """The parameters of a training function after its state."""

StateType = TypeVar("StateType", bound=State)
Result = TypeVar("Result")
Event = Union[HorovodInternalError, HostsUpdatedInterrupt]

TRIES_IN_A_ROW = 100
"""A process that failed this often in a row to join a generation gives up: another try would not help."""

_log = logging.getLogger("farandole.elastic")
_sleep = time.sleep


class _Next(NamedTuple):
    """The steps before the training function is called again."""

    reset: bool
    sync: bool


def run_fn(
    func: Callable[Concatenate[StateType, Rest], Result], reset: Callable[[], None]
) -> Callable[Concatenate[StateType, Rest], Result]:
    """Makes a training function, which takes a state first, go on when members have changed.

    It starts from rank 0's state. When members were lost it is called again with the state of the last commit, when
    members join or leave as planned with the state as it is; ``reset`` brings the process into the next generation.
    Errors that show a mistake in the script (``MismatchError``, for example) end the loop on every rank that gets them.
    """

    @functools.wraps(func)
    def wrapper(state: StateType, *args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        notification_manager.init()
        notification_manager.register_listener(state)
        membership.enter_loop()
        try:
            with membership.sigterm_is_a_wish():
                policy = RetryPolicy(membership.reset_limit())
                return _run(functools.partial(func, state, *args, **kwargs), state, reset, policy)
        finally:
            notification_manager.remove_listener(state)

    return wrapper


def run(func: Callable[Concatenate[StateType, Rest], Result]) -> Callable[Concatenate[StateType, Rest], Result]:
    """Decorates a training function that takes a state first. It starts from rank 0's state; when members have
    changed, training goes on with the members of the new generation."""
    return run_fn(func, restart)


def restart() -> None:
    """Enters the next generation, for a process that holds no resources of the last one."""
    leave()
    HorovodBasics(__file__).init()


def _run(train: Callable[[], Result], state: State, reset: Callable[[], None], policy: RetryPolicy) -> Result:
    coming = _Next(reset=False, sync=True)
    while True:
        if coming.reset:
            _regroup(reset, policy)
        training = False
        completed_before = state._completed_steps
        try:
            if coming.reset:
                state.on_reset()
                decided = membership.must_sync()
                coming = coming if decided is None else coming._replace(sync=decided)
            if job.is_started():
                events.tell("generation", rank=job.where().rank, size=job.where().size)
            if coming.sync:
                state.sync()
            training = True
            membership.begins_to_train()
            events.tell("training")
            result = train()
            events.tell("ended")
            return result
        except Exception as problem:
            event = _event_behind(problem)
            if event is None or (isinstance(event, HorovodInternalError) and is_fault_of_the_call(event)):
                raise
            _leave_if_dismissed(event)
        # Outside the handler, so that later errors are not chained to this one, and objects in its frames are freed.
        if state._completed_steps != completed_before:
            policy.progressed()
        coming = _after(event, state, training, policy)
        del event


def _after(event: Event, state: State, training: bool, policy: RetryPolicy) -> _Next:
    if isinstance(event, HostsUpdatedInterrupt):
        policy.changed()
        events.tell("changed")
        _log.info("members change; training goes on with the others")
        job.complete()
        return _Next(reset=True, sync=not event.skip_sync)
    events.tell("lost", state)
    # A process set that failed alone can be used again: only its members retry, and the other ranks go on.
    alone = training and set_faults.settled(event, _patience_s())
    state.restore()
    events.tell("restored", state)
    if alone:
        set_faults.went_back()
    else:
        membership.rolled_back()
    _log.warning("back to the last commit%s: %s", ", without a reset" if alone else "", event)
    _wait_before_retry(event, policy)
    return _Next(reset=not alone, sync=not alone)


def _event_behind(problem: BaseException) -> Optional[Event]:
    """The change of membership that an exception stands for: itself, or one that it was raised from or while handling.

    Frameworks put errors of their own around those of the functions that they call.
    """
    for each in chain(problem):
        if isinstance(each, (HorovodInternalError, HostsUpdatedInterrupt)):
            return each
    return None


def _wait_before_retry(event: HorovodInternalError, policy: RetryPolicy) -> None:
    """Raises the error once more if there is to be no other try."""
    decision = policy.failed()
    if decision.gives_up:
        limit = policy.reset_limit
        text = (
            f"the training made no progress and was started over more often than --reset-limit {limit} allows; "
            f"the last error was: {event}"
        )
        raise make_error(event.kind, text, event.process_set) from event
    if decision.delay_s > 0:
        _log.warning("no step was completed since the last failure; the next try is in %.1f s", decision.delay_s)
        _sleep(decision.delay_s)


def _leave_if_dismissed(event: Event) -> None:
    if isinstance(event, HorovodInternalError) and event.kind == "dismissed":
        _log.info("%s", event)
        events.tell("left")
        raise SystemExit(0) from event


def _regroup(reset: Callable[[], None], policy: RetryPolicy) -> None:
    """Enters the next generation, with the process sets of this one."""
    events.tell("reset")
    try:
        _reset_with_others(reset, policy)
    finally:
        set_generations.drop()


def _reset_with_others(reset: Callable[[], None], policy: RetryPolicy) -> None:
    """Enters the next generation; in an elastic job, retries if members are lost meanwhile."""
    until = time.monotonic() + _patience_s()
    for left in reversed(range(TRIES_IN_A_ROW)):
        set_generations.carry()
        try:
            reset()
            membership.regrouped()
            set_faults.regrouped()
            return
        except Exception as problem:
            event = _event_behind(problem)
            if not isinstance(event, HorovodInternalError):
                raise
            _leave_if_dismissed(event)
            lost_another = event.kind in ("disconnected", "unknown", "shut down")
            if not lost_another or not membership.is_elastic() or not left or time.monotonic() >= until:
                raise
            _log.warning("members changed again before all had come together: %s", event)
            _wait_before_retry(event, policy)


def _patience_s() -> float:
    try:
        return float(os.environ.get("HOROVOD_ELASTIC_TIMEOUT", ""))
    except ValueError:
        return 600.0
