"""Operations are ranges in a running ``torch.profiler``, and cost nothing more if none runs."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import farandole.torch as hvd
import pytest
import torch
from farandole.common.calls import allreduces
from farandole.torch import entry
from farandole.torch.profiler_ranges import CallInRange, start_in_range
from torch.profiler import ProfilerActivity, profile


@pytest.fixture(autouse=True)
def job() -> None:
    hvd.init()


def profiler() -> Any:
    return profile(activities=[ProfilerActivity.CPU])


def names_of(profiled: Any) -> Counter[str]:
    """How often each range of this library occurs."""
    return Counter(event.name for event in profiled.events() if event.name.startswith("horovod:"))


def test_each_operation_is_a_range_with_its_name() -> None:
    size = hvd.size()
    ones = torch.ones(size, 2)
    with profiler() as profiled:
        hvd.allreduce(ones, name="profiled")
        hvd.allreduce_(ones.clone(), name="profiled.in_place")
        hvd.grouped_allreduce([ones, ones], name="profiled")
        hvd.allgather(ones, name="profiled")
        hvd.grouped_allgather([ones, ones], name="profiled")
        hvd.broadcast(ones, 0, name="profiled")
        hvd.alltoall(ones, name="profiled")
        output, _ = hvd.alltoall(ones, splits=[1] * size, name="profiled.splits")
        hvd.reducescatter(ones, name="profiled")
        hvd.grouped_reducescatter([ones, ones], name="profiled")
        handles = [hvd.allreduce_async_(ones.clone(), name="profiled.async")]
        handles.append(hvd.allgather_async(ones, name="profiled.async"))
        results = [hvd.synchronize(handle) for handle in handles]
    assert output.shape == (size, 2)
    assert [result.shape[0] for result in results] == [size, size * size]
    counts = names_of(profiled)
    assert {name: count for name, count in counts.items() if not name.endswith(" wait")} == {
        "horovod:allreduce": 3,
        "horovod:grouped_allreduce": 1,
        "horovod:allgather": 2,
        "horovod:grouped_allgather": 1,
        "horovod:broadcast": 1,
        "horovod:alltoall": 2,
        "horovod:reducescatter": 1,
        "horovod:grouped_reducescatter": 1,
    }
    # A function that waits is one range.
    assert "horovod:broadcast wait" not in counts and "horovod:alltoall wait" not in counts


def test_the_gradients_of_an_optimizer_are_ranges() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters()
    )
    with profiler() as profiled:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    assert names_of(profiled)["horovod:allreduce"] == 2


class FakeCall:
    """A call that has not ended."""

    handles: list[Any] = []
    number = 7

    def settled(self) -> bool:
        return False

    def wait(self) -> None:
        pass

    def finish(self) -> str:
        return "result"


def begin_fake(request: Any, name: str, *_: Any, is_in_range: bool) -> FakeCall:
    assert is_in_range
    if name == "refused":
        raise ValueError("refused")
    return FakeCall()


def test_a_wait_for_an_asynchronous_call_is_a_range_of_its_own() -> None:
    request = SimpleNamespace(prefix="allreduce", waits=False)
    with profiler() as profiled:
        call = start_in_range(request, "a", begin_fake)
        call.wait()
        assert call.finish() == "result"
        assert (call.number, call.handles, call.settled()) == (7, [], False)
        with pytest.raises(ValueError, match="refused"):
            start_in_range(request, "refused", begin_fake)
    assert names_of(profiled) == {"horovod:allreduce": 2, "horovod:allreduce wait": 2}


def test_a_call_whose_caller_waits_at_once_is_one_range_until_it_has_waited() -> None:
    request = SimpleNamespace(prefix="allreduce", waits=True)
    with profiler() as profiled:
        call = start_in_range(request, "a", begin_fake)
        torch.ones(1)
        call.finish()
    assert names_of(profiled) == {"horovod:allreduce": 1}
    event = next(each for each in profiled.events() if each.name == "horovod:allreduce")
    assert "aten::ones" in [child.name for child in event.cpu_children]


def test_without_a_profiler_calls_are_not_wrapped() -> None:
    ones = torch.ones(2)
    call = entry.start(allreduces[hvd.Sum, 1.0, 1.0, True], "plain", ones, ones, hvd.global_process_set)
    assert not isinstance(call, CallInRange)
    call.finish()
