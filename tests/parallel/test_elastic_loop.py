"""The elastic loop without a job: tests script its events and check the calls that the loop makes."""

from __future__ import annotations

import random
import weakref
from types import SimpleNamespace
from typing import Any, List, Optional

import pytest
from farandole.common import calls, job, membership, process_sets, reduction, set_generations
from farandole.common.basics import HorovodBasics
from farandole.common.elastic import (
    HostUpdateResult,
    ObjectState,
    State,
    loop,
    notification_manager,
    run_fn,
    set_faults,
)
from farandole.common.elastic.retry import Decision, RetryPolicy
from farandole.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt, MismatchError, make_error
from farandole.common.process_sets import ProcessSet
from scripted_membership import make_elastic

pytestmark = pytest.mark.skipif("os.environ.get('HOROVOD_RANK', '0') != '0'", reason="one rank is enough")

SHORTEST_DELAY_S = 0.1
LONGEST_DELAY_S = 10.0


def lost(kind: str = "disconnected", process_set: Optional[int] = None) -> HorovodInternalError:
    problem = HorovodInternalError(f"an operation ended {kind}")
    problem.kind = kind
    problem.process_set = process_set
    return problem


@pytest.fixture(autouse=True)
def delays(monkeypatch: pytest.MonkeyPatch) -> List[float]:
    """The delays for which the loop would have slept between its tries."""
    waited: List[float] = []
    monkeypatch.setattr(loop, "_sleep", waited.append)
    return waited


class Recorded(State):
    """A state that records its calls and raises scripted exceptions."""

    def __init__(self, record: List[str], in_sync: List[Optional[Exception]], in_on_reset: List[Optional[Exception]]):
        super().__init__(bcast_object=lambda value: value, get_rank=lambda: 0)
        self.record = record
        self.in_sync = in_sync
        self.in_on_reset = in_on_reset

    def save(self) -> None:
        self.record.append("save")

    def restore(self) -> None:
        self.record.append("restore")

    def sync(self) -> None:
        self.record.append("sync")
        raise_next(self.in_sync)

    def reset(self) -> None:
        self.record.append("on_reset")
        raise_next(self.in_on_reset)


def raise_next(problems: List[Optional[Exception]]) -> None:
    problem = problems.pop(0) if problems else None
    if problem is not None:
        raise problem


class Replay:
    """Runs the loop with a function that raises the ``events`` one after the other, and then returns."""

    def __init__(self, *events: Exception, **problems: List[Optional[Exception]]) -> None:
        self.record: List[str] = []
        self.events: List[Optional[Exception]] = list(events)
        self.in_reset = problems.get("in_reset", [])
        self.state = Recorded(self.record, problems.get("in_sync", []), problems.get("in_on_reset", []))

    def train(self, state: State, value: str) -> str:
        assert notification_manager._listeners == [state]
        self.record.append("train")
        raise_next(self.events)
        return value

    def reset(self) -> None:
        self.record.append("reset")
        raise_next(self.in_reset)

    def run(self) -> List[str]:
        try:
            assert run_fn(self.train, self.reset)(self.state, "done") == "done"
        finally:
            assert notification_manager._listeners == []
        return self.record


START = ["sync", "train"]
WHOLE_RESET = ["restore", "reset", "on_reset", "sync", "train"]


def test_the_loop_syncs_once_and_returns_the_functions_value() -> None:
    assert Replay().run() == START


def test_after_a_lost_member_the_state_is_restored_and_synced() -> None:
    assert Replay(lost(), lost("unknown")).run() == START + 2 * WHOLE_RESET


def test_programs_are_completed_before_a_planned_change_and_not_after_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replay = Replay(HostsUpdatedInterrupt(False), lost())
    monkeypatch.setattr(job, "complete", lambda: replay.record.append("complete"))
    assert replay.run() == [*START, "complete", *WHOLE_RESET[1:], *WHOLE_RESET]


@pytest.mark.parametrize("skip_sync", [False, True])
def test_a_planned_change_resets_without_a_restore(skip_sync: bool) -> None:
    sync = [] if skip_sync else ["sync"]
    assert Replay(HostsUpdatedInterrupt(skip_sync)).run() == [*START, "reset", "on_reset", *sync, "train"]


@pytest.mark.parametrize("must_sync", [False, True])
@pytest.mark.parametrize("skip_sync", [False, True])
def test_in_an_elastic_job_the_rendezvous_decides_whether_members_sync(
    monkeypatch: pytest.MonkeyPatch, must_sync: bool, skip_sync: bool
) -> None:
    make_elastic(monkeypatch, must_sync=must_sync)
    sync = ["sync"] if must_sync else []
    assert Replay(HostsUpdatedInterrupt(skip_sync)).run() == [*START, "reset", "on_reset", *sync, "train"]
    assert Replay(lost()).run() == [*START, "restore", "reset", "on_reset", *sync, "train"]


def explicitly(problem: Exception) -> Exception:
    try:
        raise KeyError("a framework's own") from problem
    except KeyError as wrapped:
        return wrapped


def while_handling(problem: Exception) -> Exception:
    try:
        try:
            raise problem
        except Exception:
            raise KeyError("a framework's own")  # noqa: B904
    except KeyError as wrapped:
        return wrapped


@pytest.mark.parametrize("wrap", [explicitly, while_handling])
def test_an_event_inside_a_frameworks_exception_is_recognized(wrap: Any) -> None:
    planned = wrap(wrap(HostsUpdatedInterrupt(True)))
    assert Replay(planned, wrap(lost())).run() == [*START, "reset", "on_reset", "train", *WHOLE_RESET]


def test_any_other_exception_ends_the_loop() -> None:
    replay = Replay(ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        replay.run()
    assert replay.record == START
    unrelated = KeyError("said to have nothing to do with it")
    unrelated.__context__, unrelated.__suppress_context__ = lost(), True
    with pytest.raises(KeyError):
        Replay(unrelated).run()


@pytest.mark.parametrize("kind", ["mismatch", "invalid argument", "unimplemented", "precondition"])
def test_an_error_of_the_script_ends_the_loop_at_once(kind: str) -> None:
    for problem in (make_error(kind, "shapes differ"), explicitly(make_error(kind, "shapes differ"))):
        replay = Replay(problem)
        with pytest.raises(type(problem)):
            replay.run()
        assert replay.record == START
    with pytest.raises(HorovodInternalError, match="shapes differ"):
        Replay(in_sync=[make_error(kind, "shapes differ")]).run()
    with pytest.raises(MismatchError):
        Replay(MismatchError("raised by a script")).run()


@pytest.mark.parametrize("requests", [calls.scatters, calls.grouped_scatters])
def test_a_reducescatter_with_adasum_ends_the_loop_at_once(requests: calls.Scatters) -> None:
    replay = Replay(requests.refusal(HorovodBasics.Adasum))
    with pytest.raises(HorovodInternalError, match="cannot reduce with Adasum") as ended:
        replay.run()
    assert ended.value.kind == "unimplemented"
    assert replay.record == START


def test_failures_without_progress_double_the_delay_and_a_commit_resets_it(delays: List[float]) -> None:
    replay = Replay(*[lost() for _ in range(12)])
    replay.run()
    assert len(delays) == 11  # the loop tries again at once after the first failure
    for repeated, delay in enumerate(delays):
        longest = min(LONGEST_DELAY_S, SHORTEST_DELAY_S * 2 ** (repeated + 1))
        assert longest / 2 <= delay < longest
    delays.clear()

    class Stepping(Replay):
        def train(self, state: State, value: str) -> str:
            state.commit()
            return super().train(state, value)

    Stepping(*[lost() for _ in range(5)]).run()
    assert delays == []


def test_a_job_without_progress_ends_at_the_reset_limit_with_the_last_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FARANDOLE_RESET_LIMIT", "2")
    replay = Replay(lost(), lost("unknown"), make_error("timed out", "the deadline has passed"), lost())
    with pytest.raises(HorovodInternalError, match=r"--reset-limit 2 allows; .*: the deadline has passed") as ended:
        replay.run()
    assert ended.value.kind == "timed out"
    assert replay.record == [*START, *2 * WHOLE_RESET, "restore"]
    make_elastic(monkeypatch)
    with pytest.raises(HorovodInternalError, match="--reset-limit 2 allows"):
        Replay(lost(), in_reset=[lost() for _ in range(5)]).run()


def test_the_retry_policy_depends_only_on_failures_and_changes() -> None:
    policy = RetryPolicy(3, uniform=lambda: 0.5)
    assert policy.failed() == Decision(0.0, False)
    assert policy.failed() == Decision(pytest.approx(0.15), False)
    policy.changed()
    assert policy.failed() == Decision(0.0, False)  # over the limit, but members have made steps: the launcher decides
    assert policy.failed() == Decision(pytest.approx(0.15), True)
    unlimited = RetryPolicy(None, uniform=lambda: 0.999)
    assert not any(unlimited.failed().gives_up for _ in range(1000))
    assert unlimited.failed().delay_s <= LONGEST_DELAY_S
    assert RetryPolicy(0).failed().gives_up


def test_a_dismissed_member_exits_with_status_0() -> None:
    replay = Replay(HostsUpdatedInterrupt(False), in_reset=[lost("dismissed")])
    with pytest.raises(SystemExit) as left:
        replay.run()
    assert left.value.code == 0 and replay.record == [*START, "reset"]


def test_a_member_lost_during_a_reset_or_a_sync_repeats_the_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    make_elastic(monkeypatch)
    one_more = explicitly(lost("unknown"))
    assert Replay(lost(), in_reset=[lost(), one_more]).run() == [
        *START,
        *["restore", "reset", "reset", "reset", "on_reset", "sync", "train"],
    ]
    assert Replay(lost(), in_on_reset=[lost()]).run() == [*START, "restore", "reset", "on_reset", *WHOLE_RESET]
    assert Replay(lost(), in_sync=[None, lost()]).run() == [*START, *WHOLE_RESET[:-1], *WHOLE_RESET]
    assert Replay(in_sync=[lost()]).run() == ["sync", *WHOLE_RESET]


@pytest.mark.parametrize("kind", ["precondition", "timed_out"])
def test_a_refused_reset_raises_its_reason(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    make_elastic(monkeypatch)
    with pytest.raises(HorovodInternalError, match=kind):
        Replay(lost(), in_reset=[lost(kind)]).run()


def test_a_member_that_cannot_rejoin_gives_up_after_its_tries_or_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        HorovodInternalError, match="disconnected"
    ):  # a job with fixed members: no other member can join
        Replay(lost(), in_reset=[lost()]).run()
    make_elastic(monkeypatch)
    replay = Replay(lost(), in_reset=[lost() for _ in range(loop.TRIES_IN_A_ROW)])
    with pytest.raises(HorovodInternalError, match="disconnected"):
        replay.run()
    assert replay.record.count("reset") == loop.TRIES_IN_A_ROW
    monkeypatch.setenv("HOROVOD_ELASTIC_TIMEOUT", "0")
    replay = Replay(lost(), in_reset=[lost(), None])
    with pytest.raises(HorovodInternalError, match="disconnected"):
        replay.run()
    assert replay.record.count("reset") == 1


def test_only_members_that_have_agreed_go_back_without_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Replay(lost(process_set=2)).run() == START + WHOLE_RESET  # in a job that is not elastic, none can agree
    make_elastic(monkeypatch)
    agreed = set_faults.GoBack("set 2 failed on another rank")
    agreed.kind, agreed.process_set = "disconnected", 2
    assert Replay(agreed).run() == [*START, "restore", "train"]
    assert Replay(lost(process_set=0)).run() == START + WHOLE_RESET


class Big:
    """Stands for the gradients of a step."""


def test_objects_of_a_failed_step_are_freed_before_the_next() -> None:
    alive: List[Any] = []
    held: List[bool] = []

    def train(state: State) -> None:
        held.append(any(reference() is not None for reference in alive))
        big = Big()
        alive.append(weakref.ref(big))
        if len(alive) < 4:
            raise explicitly(lost())

    state = ObjectState(bcast_object=lambda value: value, get_rank=lambda: 0)
    run_fn(train, lambda: None)(state)
    assert held == [False] * 4


@pytest.mark.parametrize("seed", range(50))
def test_any_order_of_events_leads_to_the_expected_calls(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    draw = random.Random(seed)
    runtime = make_elastic(monkeypatch)
    # The failure of a process set counts as settled among its members.
    monkeypatch.setattr(set_faults, "settled", lambda problem, patience_s: bool(problem.process_set))
    # The events of each function in the order of its calls, and the calls that the loop must make.
    planned: List[Optional[Exception]] = []
    resets: List[Optional[Exception]] = []
    syncs: List[Optional[Exception]] = [None]
    wanted = list(START)
    for _ in range(draw.randrange(12)):
        event = draw.choice([lost(), lost(process_set=1), HostsUpdatedInterrupt(draw.random() < 0.5)])
        planned.append(draw.choice([explicitly, while_handling, lambda problem: problem])(event))
        if isinstance(event, HorovodInternalError):
            wanted.append("restore")
            if event.process_set:
                wanted.append("train")
                continue
        wanted.append("reset")
        while draw.random() < 0.3:
            resets.append(lost())
            wanted.append("reset")
        resets.append(None)
        wanted += ["on_reset", "sync"]
        while draw.random() < 0.3:
            syncs.append(lost())
            resets.append(None)
            wanted += ["restore", "reset", "on_reset", "sync"]
        syncs.append(None)
        wanted.append("train")
    runtime.must_sync = True
    assert Replay(*planned, in_reset=resets, in_sync=syncs).run() == wanted, f"seed {seed}"  # type: ignore[arg-type]


# ---- process sets ----


def test_a_set_that_is_lost_while_members_live_raises_its_reason_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members were lost in add_process_set(), before all had come to its end."""
    pair, other, gone = ProcessSet([0, 1]), ProcessSet([1, 2]), ProcessSet([3])
    known = [(1, False, 0, 1, [0, 1]), (1, False, 1, 2, [1, 2]), (0, False, 0, 3, [3])]
    before = SimpleNamespace(kept_sets=lambda: known, slots=[0, 1, 2, 3])
    after = SimpleNamespace(kept_sets=lambda: [], slots=[0, 1, 2])
    monkeypatch.setattr(job, "topology", job.Topology(0, 3, 0, 3, 0, 1, True))
    monkeypatch.setattr(process_sets, "_registered", {1: [pair], 2: [other], 3: [gone]})
    monkeypatch.setattr(job, "runtime", before)
    set_generations.carry()
    monkeypatch.setattr(job, "runtime", after)
    set_generations.enter([], [])
    assert [each.included() for each in (pair, other, gone)] == [True, False, False]
    assert [reduction.takes_part(each) for each in (other, gone)] == [False, False]
    for use in (pair.size, pair.rank, lambda: reduction.takes_part(pair)):
        with pytest.raises(ValueError, match=r"process set 1 is gone: .* Add it again"):
            use()


# ---- notifications ----


def test_each_notification_interrupts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "topology", None)
    state = ObjectState(bcast_object=lambda value: value, get_rank=lambda: 0, step=1)
    state.check_host_updates()
    state.on_hosts_updated(1.0, HostUpdateResult.removed)
    with pytest.raises(HostsUpdatedInterrupt) as only_removed:
        state.commit()
    state.check_host_updates()
    state.on_hosts_updated(1.0, HostUpdateResult.added)
    with pytest.raises(HostsUpdatedInterrupt) as added:
        state.check_host_updates()
    state.check_host_updates()
    assert only_removed.value.skip_sync and not added.value.skip_sync
    state.on_hosts_updated(1.0, HostUpdateResult.mixed)
    state.on_reset()
    state.check_host_updates()


def test_a_change_between_two_commits_costs_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "topology", None)
    state = ObjectState(bcast_object=lambda value: value, get_rank=lambda: 0, step=0)
    played: List[int] = []

    def train(state: Any) -> None:
        while state.step < 3:
            played.append(state.step)
            state.step += 1
            if played == [0, 1]:
                notification_manager.handle_hosts_updated(0.0, HostUpdateResult.added)
            state.check_host_updates()

    run_fn(train, lambda: None)(state)
    assert played == [0, 1, 2]


def test_the_manager_notifies_states_while_their_loop_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "topology", None)
    state = ObjectState(bcast_object=lambda value: value, get_rank=lambda: 0, round=0)

    def train(state: Any) -> int:
        state.round += 1
        if state.round < 3:
            notification_manager.handle_hosts_updated(0.0, HostUpdateResult.added)
        state.commit()
        return int(state.round)

    called = []
    state.register_reset_callbacks([lambda: called.append("first"), lambda: called.append("second")])
    assert run_fn(train, lambda: None)(state) == 3
    assert called == ["first", "second"] * 2
    notification_manager.handle_hosts_updated(0.0, HostUpdateResult.added)
    state.check_host_updates()


def test_elastic_names_are_importable_from_horovods_modules() -> None:
    import horovod.common.elastic
    import horovod.runner.elastic.worker as worker
    import horovod.torch as hvd

    assert horovod.common.elastic.notification_manager is notification_manager
    assert isinstance(notification_manager, worker.WorkerNotificationManager)
    assert [int(result) for result in (worker.HostUpdateResult.removed, worker.HostUpdateResult.added)] == [1, 2]
    assert worker.HostsUpdatedRequest(1.5).res == worker.HostUpdateResult.no_update
    assert issubclass(hvd.elastic.TorchState, hvd.elastic.ObjectState)
    assert hvd.elastic.ObjectState is ObjectState and hvd.elastic.State is State


@pytest.mark.parametrize(
    "text, expected",
    [("1", True), ("true", True), ("On", True), ("2", True), ("0", False), ("no", False), ("", False), ("x", False)],
)
def test_horovod_elastic_is_parsed_as_a_boolean(monkeypatch: pytest.MonkeyPatch, text: str, expected: bool) -> None:
    monkeypatch.setenv("HOROVOD_ELASTIC", text)
    assert membership.is_elastic() is expected
