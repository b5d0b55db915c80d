"""Elastic states in a job whose members stay: what they commit, agree on and bring to each other."""

from __future__ import annotations

from typing import Any, List

import horovod.numpy
import horovod.torch as hvd
import pytest
import torch
from farandole.common import job, membership
from farandole.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.torch.elastic import ElasticSampler, TorchState
from horovod.torch.elastic.state import ModelStateHandler, get_handler_registry, set_handler_registry
from scripted_membership import Runtime, make_elastic


def network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Linear(3, 2)


@pytest.mark.parametrize("who", ["first", "last", "all"])
def test_all_are_interrupted_at_the_same_commit(
    monkeypatch: pytest.MonkeyPatch, rank: int, size: int, who: str
) -> None:
    runtime = make_elastic(monkeypatch)
    hears = {"first": rank == 0, "last": rank == size - 1, "all": True}[who]
    state = TorchState(network(rank), step=0)
    interrupted: List[int] = []
    for state.step in range(6):
        if state.step >= 2 and hears:
            runtime.change = (1 + (state.step >= 4), True)
        try:
            state.commit()
        except HostsUpdatedInterrupt as told:
            assert told.skip_sync
            interrupted.append(state.step)
    assert interrupted == [2, 4]


def test_a_member_that_has_heard_of_more_is_believed(monkeypatch: pytest.MonkeyPatch, rank: int, size: int) -> None:
    make_elastic(monkeypatch, change=(1, True) if rank else (3, False))
    state = TorchState(step=0)
    with pytest.raises(HostsUpdatedInterrupt) as told:
        state.check_host_updates()
    assert not told.value.skip_sync
    state.check_host_updates()


def test_a_commit_costs_nothing_where_members_stay(size: int) -> None:
    state = TorchState(step=0)
    before = job.runtime.counters()
    for _ in range(3):
        state.commit()
    assert job.runtime.counters() == before


def test_what_members_agree_by_cannot_meet_what_a_script_calls_so(
    monkeypatch: pytest.MonkeyPatch, rank: int, size: int
) -> None:
    make_elastic(monkeypatch)
    state = TorchState(step=0)
    started = []
    for taken in ("agreed", "elastic.changes.agreed"):
        started.append(hvd.allreduce_async(torch.ones(3), name=taken, op=hvd.Sum))
        state.commit()
    assert all(hvd.synchronize(each).tolist() == [size] * 3 for each in started)


def test_training_goes_on_through_resets(rank: int, size: int) -> None:
    """With real resets: every member leaves the job and joins the next."""
    model = network(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = ElasticSampler(list(range(12 * size)), shuffle=False)
    state = TorchState(model, optimizer, sampler=sampler, step=0)
    met: List[int] = []
    resets: List[int] = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
    events: List[Any] = [None, HostsUpdatedInterrupt(True), HorovodInternalError("scripted"), None]

    @hvd.elastic.run
    def train(state: Any) -> int:
        for index in state.sampler:
            state.optimizer.zero_grad()
            state.model(torch.full((1, 3), float(index))).tanh().sum().backward()
            state.optimizer.step()
            state.step += 1
            met.append(index)
            state.sampler.record_batch(state.step, 1)
            event = events.pop(0) if events else None
            if isinstance(event, HostsUpdatedInterrupt):
                state.save()
            if event is not None:
                raise event
            state.commit()
        return int(state.step)

    assert train(state) == 12
    assert resets == [size, size]
    # The step that failed was taken back and done again; all others once.
    assert met == [step * size + rank for step in (0, 1, 2, *range(2, 12))]
    parameters = torch.cat([each.detach().flatten() for each in model.parameters()])
    everywhere = hvd.allgather(parameters.reshape(1, -1), name="parameters")
    assert all(torch.equal(each, parameters) for each in everywhere)


def test_who_joined_late_communicates_in_its_loop_only(rank: int, size: int, name: str) -> None:
    hvd.shutdown()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(membership, "is_elastic", lambda: True)
        patched.setattr(membership, "_in_loop", False)
        begin = job.start

        def begin_late(*arguments: Any) -> bool:
            begun = begin(*arguments)
            job.runtime = Runtime(job.runtime, joined_late=True)
            return begun

        patched.setattr(job, "start", begin_late)
        hvd.init()
        assert (hvd.rank(), hvd.size()) == (rank, size)
        for call in (
            lambda: hvd.allreduce(torch.ones(2), name=name),
            lambda: hvd.allreduce_(torch.ones(2), name=name),
            lambda: hvd.grouped_allreduce([torch.ones(2)], name=name),
            lambda: horovod.numpy.allgather([1.0], name=name),
            lambda: hvd.broadcast_object(1, name=name),
            hvd.barrier,
            hvd.join,
        ):
            with pytest.raises(HorovodInternalError, match=r"elastic\.run"):
                call()
        state = TorchState(network(rank), step=0)
        train = hvd.elastic.run(lambda state: hvd.allreduce(torch.ones(2), name=name, op=hvd.Sum).tolist())
        assert train(state) == [size, size]
        hvd.shutdown()
    hvd.init()


class Fails(ModelStateHandler):
    """Its member is lost while it syncs."""

    def sync(self) -> None:
        raise HorovodInternalError("scripted")


class Bare(torch.nn.Module):
    """Has no parameters."""


def test_a_sync_that_fails_halfway_leaves_the_whole_commit(rank: int) -> None:
    registry = get_handler_registry()
    set_handler_registry([(Bare, Fails), *registry])
    try:
        model = network(rank + 1)
        own = {key: value.clone() for key, value in model.state_dict().items()}
        state = TorchState(model, later=Bare(), step=rank)
        with pytest.raises(HorovodInternalError):
            state.sync()
        state.restore()
    finally:
        set_handler_registry(registry)
    assert state.step == rank
    assert all(torch.equal(value, own[key]) for key, value in model.state_dict().items())


def test_values_that_are_given_later_are_saved_and_brought_to_all(rank: int) -> None:
    state = TorchState(network(rank), optimizer=None, step=rank)
    state.model = network(rank + 10)
    torch.nn.init.zeros_(state.model.weight)
    state.restore()
    assert torch.equal(state.model.weight, network(rank + 10).weight)
    state.sync()
    assert torch.equal(state.model.weight, network(10).weight)
    assert state.optimizer is None and state.step == 0


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_an_epoch_that_members_leave_in_the_middle_meets_every_sample(
    monkeypatch: pytest.MonkeyPatch, size: int, count: int
) -> None:
    """The samplers of another number of members go on where this job's stood."""
    sampler = ElasticSampler(list(range(25)), seed=3)
    sampler.set_epoch(1)
    sampler.record_batch(0, 2)
    first = [sampler.remaining_indices[:]]
    met = [each for part in hvd.allgather_object(list(sampler)[:2], name="dealt") for each in part]
    stood = sampler.state_dict()
    assert stood == {"epoch": 1, "processed_num": 2 * size} and len(first[0]) == 25
    monkeypatch.setattr("farandole.torch.mpi_ops.size", lambda: count)
    dealt = []
    for member in range(count):
        monkeypatch.setattr("farandole.torch.mpi_ops.rank", lambda member=member: member)
        other = ElasticSampler(list(range(25)), seed=3)
        other.load_state_dict(stood)
        share = list(other)
        assert len(share) == len(other) == -(-(25 - 2 * size) // count)
        dealt += share
    assert sorted(set(met) | set(dealt)) == list(range(25))
    assert not set(met) & set(dealt)


def test_max_size_is_what_the_launcher_says(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for each in (hvd, horovod.numpy):
        monkeypatch.delenv("FARANDOLE_MAX_NP", raising=False)
        assert each.max_size() == size
        monkeypatch.setenv("FARANDOLE_MAX_NP", str(size + 5))
        assert each.max_size() == size + 5


def test_gradients_of_a_job_of_one_are_reduced_too_if_it_may_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(0)
    monkeypatch.setattr("farandole.torch.mpi_ops.size", lambda: 1)
    plain = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    assert not plain._reductions.hooks
    make_elastic(monkeypatch)
    growing = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    assert len(growing._reductions.hooks) == 2


def test_the_total_batch_stays_whatever_the_number_of_members(rank: int, size: int) -> None:
    """The recipe of docs/guides/elastic.md: the same parts of every batch, dealt out to those that are there."""
    parts, lr = 7, 0.1
    generator = torch.Generator().manual_seed(1)
    data = torch.randn(6, parts, 2, 3, generator=generator, dtype=torch.float64)
    model, alone = network(0).double(), network(0).double()

    def train(trained: torch.nn.Module, optimizer: Any, batches: torch.Tensor, own: range) -> None:
        for batch in batches:
            optimizer.zero_grad()
            for part in own:
                (trained(batch[part]).square().mean() / parts).backward()
            optimizer.step()

    train(alone, torch.optim.SGD(alone.parameters(), lr=lr), data, range(parts))
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=lr), named_parameters=model.named_parameters(), op=hvd.Sum
    )
    # In the middle, every rank gets the share of another, as after a change of members.
    for place, batches in ((rank, data[:3]), (size - 1 - rank, data[3:])):
        own = range(place, parts, size)
        optimizer.set_backward_passes_per_step(len(own))
        train(model, optimizer, batches, own)
    for mine, theirs in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def test_adasum_takes_its_own_optimizer_in_a_job_of_one_that_may_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(0)
    monkeypatch.setattr("farandole.torch.mpi_ops.size", lambda: 1)
    plain = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), op=hvd.Adasum)
    make_elastic(monkeypatch)
    growing = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), op=hvd.Adasum)
    with plain.skip_synchronize():  # type: ignore[attr-defined]
        pass
    with pytest.raises(AssertionError), growing.skip_synchronize():  # type: ignore[attr-defined]
        pass
