"""Elastic states in a job with fixed members: commits, agreement on changes, and syncs."""

from __future__ import annotations

import copy
from typing import Any, List

import horovod.numpy
import horovod.torch as hvd
import pytest
import torch
from farandole.common import job
from farandole.common.elastic import HostUpdateResult, references
from farandole.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.torch.elastic import ElasticSampler, TorchState
from horovod.torch.elastic.state import ModelStateHandler, get_handler_registry, set_handler_registry
from scripted_membership import make_elastic


def network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Linear(3, 2)


@pytest.mark.parametrize("told_ranks", ["first", "last", "all"])
def test_all_ranks_are_interrupted_at_the_same_commit(
    monkeypatch: pytest.MonkeyPatch, rank: int, size: int, told_ranks: str
) -> None:
    runtime = make_elastic(monkeypatch)
    is_told = {"first": rank == 0, "last": rank == size - 1, "all": True}[told_ranks]
    state = TorchState(network(rank), step=0)
    interrupted: List[int] = []
    for state.step in range(6):
        if state.step >= 2 and is_told:
            runtime.change = (1 + (state.step >= 4), True)
        try:
            state.commit()
        except HostsUpdatedInterrupt as told:
            assert told.skip_sync
            interrupted.append(state.step)
    assert interrupted == [2, 4]


def test_the_newest_change_known_to_any_member_counts(monkeypatch: pytest.MonkeyPatch, rank: int, size: int) -> None:
    make_elastic(monkeypatch, change=(1, True) if rank else (3, False))
    state = TorchState(step=0)
    with pytest.raises(HostsUpdatedInterrupt) as told:
        state.check_host_updates()
    assert not told.value.skip_sync
    state.check_host_updates()


def test_a_script_sees_the_messages_of_changes_before_it_commits(
    monkeypatch: pytest.MonkeyPatch, rank: int, size: int
) -> None:
    runtime = make_elastic(monkeypatch)
    state = TorchState(step=0)
    assert state._host_messages.empty() and state._last_updated_timestamp == 0
    runtime.change = (2, True)  # on the links
    state.on_hosts_updated(5.0, HostUpdateResult.added)
    assert [state._host_messages.get_nowait() for _ in range(2)][0] == (5.0, HostUpdateResult.added)
    assert state._host_messages.qsize() == 1
    (message,) = state._host_messages.queue
    assert message[1] == HostUpdateResult.removed and message[0] > 5
    with pytest.raises(HostsUpdatedInterrupt) as told:  # though messages were taken out
        state.check_host_updates()
    assert not told.value.skip_sync
    assert state._host_messages.empty() and state._last_updated_timestamp == message[0]
    state._last_updated_timestamp = 0
    state.check_host_updates()
    state.on_hosts_updated(6.0, HostUpdateResult.mixed)
    runtime.change = (0, False)
    state.on_reset()
    assert state._host_messages.empty() and state._last_updated_timestamp == 0


def test_a_commit_submits_no_operation_in_a_job_with_fixed_members(size: int) -> None:
    state = TorchState(step=0)
    before = job.runtime.counters()["submitted"]
    for _ in range(3):
        state.commit()
    assert job.runtime.counters()["submitted"] == before


def test_tensor_names_of_the_agreement_cannot_collide_with_those_of_a_script(
    monkeypatch: pytest.MonkeyPatch, rank: int, size: int
) -> None:
    make_elastic(monkeypatch)
    state = TorchState(step=0)
    started = []
    for taken in ("agreed", "elastic.changes.agreed"):
        started.append(hvd.allreduce_async(torch.ones(3), name=taken, op=hvd.Sum))
        state.commit()
    assert all(hvd.synchronize(handle).tolist() == [size] * 3 for handle in started)


def test_training_continues_after_resets(rank: int, size: int) -> None:
    """The resets are real: every member leaves the job and joins the next one."""
    model = network(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = ElasticSampler(list(range(12 * size)), shuffle=False)
    state = TorchState(model, optimizer, sampler=sampler, step=0)
    processed: List[int] = []
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
            processed.append(index)
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
    # The failed step was rolled back and repeated; all other steps ran once.
    assert processed == [step * size + rank for step in (0, 1, 2, *range(2, 12))]
    parameters = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everywhere = hvd.allgather(parameters.reshape(1, -1), name="parameters")
    assert all(torch.equal(row, parameters) for row in everywhere)


class Fails(ModelStateHandler):
    """A handler whose sync fails, as if a member was lost."""

    def sync(self) -> None:
        raise HorovodInternalError("scripted")


class Bare(torch.nn.Module):
    """A module without parameters."""


def test_restore_after_a_failed_sync_gives_the_complete_last_commit(rank: int) -> None:
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


def test_values_assigned_later_are_saved_and_synced(rank: int) -> None:
    state = TorchState(network(rank), optimizer=None, step=rank)
    state.model = network(rank + 10)
    torch.nn.init.zeros_(state.model.weight)
    state.restore()
    assert torch.equal(state.model.weight, network(rank + 10).weight)
    state.sync()
    assert torch.equal(state.model.weight, network(10).weight)
    assert state.optimizer is None and state.step == 0


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_an_epoch_with_a_changed_number_of_members_covers_every_sample(
    monkeypatch: pytest.MonkeyPatch, size: int, count: int
) -> None:
    """Samplers of another number of members continue from the saved state of this job's samplers."""
    sampler = ElasticSampler(list(range(25)), seed=3)
    sampler.set_epoch(1)
    sampler.record_batch(0, 2)
    first = [sampler.remaining_indices[:]]
    processed = [sample for part in hvd.allgather_object(list(sampler)[:2], name="dealt") for sample in part]
    saved = sampler.state_dict()
    assert saved == {"epoch": 1, "processed_num": 2 * size} and len(first[0]) == 25
    monkeypatch.setattr("farandole.torch.mpi_ops.size", lambda: count)
    remaining = []
    for member in range(count):
        monkeypatch.setattr("farandole.torch.mpi_ops.rank", lambda member=member: member)
        other = ElasticSampler(list(range(25)), seed=3)
        other.load_state_dict(saved)
        share = list(other)
        assert len(share) == len(other) == -(-(25 - 2 * size) // count)
        remaining += share
    assert sorted(set(processed) | set(remaining)) == list(range(25))
    assert not set(processed) & set(remaining)


def test_max_size_is_the_launchers_maximum(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for package in (hvd, horovod.numpy):
        monkeypatch.delenv("FARANDOLE_MAX_NP", raising=False)
        assert package.max_size() == size
        monkeypatch.setenv("FARANDOLE_MAX_NP", str(size + 5))
        assert package.max_size() == size + 5


def test_an_elastic_job_of_one_rank_reduces_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(0)
    monkeypatch.setattr("farandole.torch.mpi_ops.size", lambda: 1)
    plain = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    assert not plain._reductions.hooks
    make_elastic(monkeypatch)
    growing = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    assert len(growing._reductions.hooks) == 2


def test_training_on_redistributed_batch_parts_matches_one_process(rank: int, size: int) -> None:
    """The recipe of docs/guides/elastic.md: the same parts of every batch, distributed among the present members."""
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
    # Half-way, every rank gets the share of another rank, as after a change of members.
    for first_part, batches in ((rank, data[:3]), (size - 1 - rank, data[3:])):
        own = range(first_part, parts, size)
        optimizer.set_backward_passes_per_step(len(own))
        train(model, optimizer, batches, own)
    for value, expected in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(value, expected, rtol=1e-12, atol=1e-12)


def test_adasum_uses_its_own_optimizer_in_an_elastic_job_of_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(0)
    monkeypatch.setattr("farandole.torch.mpi_ops.size", lambda: 1)
    plain = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), op=hvd.Adasum)
    make_elastic(monkeypatch)
    growing = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), op=hvd.Adasum)
    with plain.skip_synchronize():  # type: ignore[attr-defined]
        pass
    with pytest.raises(AssertionError), growing.skip_synchronize():  # type: ignore[attr-defined]
        pass


class Follower:
    """Its copies fail if their model does."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __deepcopy__(self, memo: Any) -> Follower:
        model = copy.deepcopy(self.model, memo)
        if model == "broken":
            raise TypeError("follows no broken model")
        return Follower(model)


def test_a_value_with_references_that_a_rank_cannot_replace_is_refused() -> None:
    model = network(0)
    sent = references.with_references({"ema": Follower(model)}, {"net": model})
    assert references.with_own_values(sent, {"net": "own"})["ema"].model == "own"
    with pytest.raises(ValueError, match="refers to net"):
        references.with_own_values(sent, {})
    with pytest.raises(TypeError, match="no broken model"):
        references.with_own_values(sent, {"net": "broken"})
