"""Several optimizers in one job, such as those of a GAN: each trains as in one process, or an error names both."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref
from typing import Any, Callable, Dict, List, Tuple

import horovod.torch as hvd
import pytest
import torch
from farandole.torch import several_optimizers

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
STEPS = 4


class Adversaries:
    """A generator and a discriminator, with their optimizers: wrapped, or plain for one process."""

    def __init__(self, is_alone: bool, passes: int = 1, freezes: bool = False, **options: Any) -> None:
        torch.manual_seed(9)
        self.generator = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 4))
        self.discriminator = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
        self.ranks = range(hvd.size()) if is_alone else [hvd.rank()]
        self.freezes = freezes
        self.of_generator: Any = torch.optim.Adam(self.generator.parameters(), lr=0.02)
        self.of_discriminator: Any = torch.optim.SGD(self.discriminator.parameters(), lr=0.1, momentum=0.9)
        if not is_alone:
            named = [[(f"{key}.{name}", each) for name, each in getattr(self, key).named_parameters()] for key in PARTS]
            self.of_generator = hvd.DistributedOptimizer(self.of_generator, named[0], **options)
            self.of_discriminator = hvd.DistributedOptimizer(
                self.of_discriminator, named[1], backward_passes_per_step=passes, **options
            )

    def mean(self, loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], step: int) -> torch.Tensor:
        losses = []
        for rank in self.ranks:
            source = torch.Generator().manual_seed(100 * step + rank)
            losses.append(loss_of(torch.randn(6, 4, generator=source), torch.randn(6, 3, generator=source)))
        return sum(losses) / len(losses)  # type: ignore[return-value]

    def real(self, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.softplus(-self.discriminator(x)).mean()

    def fake(self, _: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.softplus(self.discriminator(self.generator(noise).detach())).mean()

    def fooled(self, _: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.softplus(-self.discriminator(self.generator(noise))).mean()


PARTS = ("generator", "discriminator")


def one_loss(both: Adversaries, step: int, clear: Callable[[Any, Any], None]) -> None:
    clear(both.of_discriminator, both.discriminator)
    both.mean(lambda x, noise: both.real(x, noise) + both.fake(x, noise), step).backward()
    both.of_discriminator.step()
    step_generator(both, step, clear)


def two_passes(both: Adversaries, step: int, clear: Callable[[Any, Any], None]) -> None:
    """The discriminator's loss in two backward passes, as in PyTorch's tutorial."""
    clear(both.of_discriminator, both.discriminator)
    both.mean(both.real, step).backward()
    both.mean(both.fake, step).backward()
    both.of_discriminator.step()
    step_generator(both, step, clear)


def attached(both: Adversaries, step: int, clear: Callable[[Any, Any], None]) -> None:
    """The discriminator's pass reaches the generator, too."""
    clear(both.of_discriminator, both.discriminator)
    fake = lambda x, noise: torch.nn.functional.softplus(both.discriminator(both.generator(noise))).mean()  # noqa: E731
    both.mean(lambda x, noise: both.real(x, noise) + fake(x, noise), step).backward()
    both.of_discriminator.step()
    step_generator(both, step, clear)


def step_generator(both: Adversaries, step: int, clear: Callable[[Any, Any], None]) -> None:
    both.discriminator.requires_grad_(not both.freezes)
    clear(both.of_generator, both.generator)
    both.mean(both.fooled, step).backward()
    both.of_generator.step()
    both.discriminator.requires_grad_(True)


CLEARING: Dict[str, Callable[[Any, Any], None]] = {
    "optimizer": lambda optimizer, model: optimizer.zero_grad(),
    "optimizer zeros": lambda optimizer, model: optimizer.zero_grad(set_to_none=False),
    "model": lambda optimizer, model: model.zero_grad(),
}


@pytest.mark.parametrize("freezes", [False, True])
@pytest.mark.parametrize("clearing", list(CLEARING))
@pytest.mark.parametrize("loop", [one_loss, two_passes, attached])
@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"groups": 1}, marks=pytest.mark.slow), {"compression": hvd.Compression.fp16}],
    ids=str,
)
def test_a_gan_trains_like_one_process(
    options: Dict[str, Any], loop: Callable[..., None], clearing: str, freezes: bool, rank: int
) -> None:
    passes = 2 if loop is two_passes else 1
    both, alone = Adversaries(False, passes, freezes, **options), Adversaries(True, freezes=freezes)
    for step in range(STEPS):
        loop(both, step, CLEARING[clearing])
        loop(alone, step, CLEARING[clearing])
    close = {"rtol": 5e-2, "atol": 2e-2} if "compression" in options else {"rtol": 1e-4, "atol": 1e-5}
    for part in PARTS:
        for value, other in zip(getattr(both, part).parameters(), getattr(alone, part).parameters()):
            torch.testing.assert_close(value, other, **close)
            everywhere = hvd.allgather(value.detach().unsqueeze(0), name=f"ends.{part}")
            assert all(torch.equal(each, value) for each in everywhere)


def test_ranks_that_have_dropped_gradients_train_with_new_ones_after_a_broadcast(rank: int, size: int) -> None:
    """As in an elastic job, in which the others have joined after the first ranks took some steps."""
    both = Adversaries(False)
    for step in range(2):
        one_loss(both, step, CLEARING["optimizer"])
    if rank == 0:
        both.of_discriminator._reductions.discard()
    else:
        both.of_discriminator._reductions.give_up()
    state = hvd.elastic.TorchState(
        models=[both.generator, both.discriminator], optimizers=[both.of_generator, both.of_discriminator]
    )
    state.sync()
    one_loss(both, 2, CLEARING["optimizer"])
    for value in both.discriminator.parameters():
        everywhere = hvd.allgather(value.detach().unsqueeze(0), name="ends")
        assert all(torch.equal(each, value) for each in everywhere)


@several_ranks
def test_gradients_of_another_optimizers_pass_that_are_not_cleared_are_an_error_with_both(rank: int) -> None:
    both = Adversaries(False)
    step_generator(both, 0, CLEARING["optimizer"])
    with pytest.raises(AssertionError, match=r"for SGD \(4 .*then Adam \(4 .*zero_grad\(\) of the former"):
        both.mean(both.real, 0).backward()
    both.of_discriminator.synchronize()


@several_ranks
@pytest.mark.parametrize("title", ["other parameters", "the same parameters", "other parameters without names"])
def test_two_optimizers_whose_names_collide_are_both_named(title: str, rank: int) -> None:
    first, second = torch.nn.Linear(2, 3), torch.nn.Linear(3, 2)
    is_shared = title == "the same parameters"
    models = [first, first if is_shared else second]
    named = [None if title.endswith("names") else model.named_parameters() for model in models]
    optimizers: List[Any] = [
        hvd.DistributedOptimizer(torch.optim.SGD(models[0].parameters(), lr=0.1), named[0]),
        hvd.DistributedOptimizer(torch.optim.Adam(models[1].parameters(), lr=0.1), named[1]),
    ]
    expected = "two parameter groups" if is_shared else "names of its own"
    with pytest.raises(ValueError, match=rf"two distributed optimizers, .*(SGD.*Adam|Adam.*SGD).*{expected}"):
        second(first(torch.ones(1, 2))).sum().backward()
    for optimizer in optimizers:
        optimizer.let_go()


@several_ranks
def test_names_collide_in_two_objects_of_one_process_set(rank: int, size: int) -> None:
    added = hvd.add_process_set(list(range(size - 1)) or [0])
    if not added.included():
        hvd.remove_process_set(added)
        return
    models = [torch.nn.Linear(2, 3), torch.nn.Linear(3, 2)]
    optimizers: List[Any] = [
        hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), process_set=process_set
        )
        for model, process_set in zip(models, [added, copy.copy(added)])
    ]
    with pytest.raises(ValueError, match="names of its own"):
        models[1](models[0](torch.ones(1, 2))).sum().backward()
    for optimizer in optimizers:
        optimizer.let_go()
    hvd.remove_process_set(added)


def two_rates(model: torch.nn.Module) -> Tuple[Any, Any]:
    head, body = list(model.parameters())[:2], list(model.parameters())[2:]
    return torch.optim.SGD(head, lr=0.1, momentum=0.9), torch.optim.Adam(body, lr=0.01)


def test_two_optimizers_step_after_one_pass(rank: int, size: int) -> None:
    def network() -> torch.nn.Module:
        torch.manual_seed(2)
        return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))

    model, expected = network(), network()
    together: Any = [hvd.DistributedOptimizer(each, model.named_parameters()) for each in two_rates(model)]
    alone = two_rates(expected)
    for step in range(STEPS):
        x = [torch.randn(6, 4, generator=torch.Generator().manual_seed(10 * step + other)) for other in range(size)]
        model(x[rank]).square().mean().backward()
        (sum(expected(each).square().mean() for each in x) / size).backward()  # type: ignore[union-attr]
        for first, second in zip(together, alone):
            first.step()
            second.step()
            first.zero_grad()
            second.zero_grad()
    for value, other in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-5)


@several_ranks
def test_optimizers_of_different_process_sets_may_use_the_same_names(rank: int, size: int) -> None:
    part = hvd.add_process_set([0])
    first, second = torch.nn.Linear(2, 3), torch.nn.Linear(3, 2)
    together = hvd.DistributedOptimizer(torch.optim.SGD(first.parameters(), lr=0.1), first.named_parameters())
    apart = hvd.DistributedOptimizer(
        torch.optim.SGD(second.parameters(), lr=0.1), second.named_parameters(), process_set=part
    )
    second(first(torch.ones(1, 2))).sum().backward()
    together.step()
    apart.step()
    assert first.bias.grad is not None
    assert all(torch.equal(each, first.bias.grad) for each in hvd.allgather(first.bias.grad.unsqueeze(0), name="bias"))
    hvd.remove_process_set(part)


def test_a_second_optimizer_takes_over_after_the_first_has_let_go(rank: int, size: int) -> None:
    model = torch.nn.Linear(2, 1)
    hvd.broadcast_parameters(model.state_dict(), 0)
    first: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    model(torch.full((1, 2), float(rank))).sum().backward()
    first.step()
    first.zero_grad()
    first.let_go()
    second = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.1), model.named_parameters())
    model(torch.full((1, 2), float(rank))).sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second.step()
    assert model.weight.grad is not None
    assert torch.equal(model.weight.grad, torch.full((1, 2), (size - 1) / 2))


def lets_go(optimizer: Any, wrapped: Callable[[], Any]) -> Any:
    optimizer.let_go()
    return wrapped()


def is_given_a_state(optimizer: Any, wrapped: Callable[[], Any]) -> Any:
    optimizer.load_state_dict(optimizer.state_dict())
    return optimizer


def is_dropped(optimizer: Any, wrapped: Callable[[], Any]) -> Any:
    reductions = weakref.ref(optimizer._reductions)
    del optimizer
    gc.collect()
    assert reductions() is None
    return wrapped()


@several_ranks
@pytest.mark.parametrize("ends", [lets_go, is_given_a_state, is_dropped])
@pytest.mark.parametrize("clears", [True, False])
def test_the_next_gradients_wait_for_reductions_that_were_abandoned(
    ends: Callable[..., Any], clears: bool, rank: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 abandons its reductions before the others have begun theirs."""
    model = torch.nn.Linear(2, 1)
    hvd.broadcast_parameters(model.state_dict(), 0)
    x = torch.full((1, 2), float(rank))

    def wrapped() -> Any:
        return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())

    def waits(transfers: Any) -> None:
        monkeypatch.undo()
        hvd.allreduce_async(torch.zeros(1), name="rank 0 waits")
        several_optimizers.wait_for(transfers)

    optimizers = [wrapped()]
    if rank > 0:
        hvd.allreduce(torch.zeros(1), name="rank 0 waits")
    model(x).sum().backward()
    if rank == 0:
        monkeypatch.setattr(several_optimizers, "wait_for", waits)
    next_one = ends(optimizers.pop(), wrapped)
    if clears:
        next_one.zero_grad(set_to_none=False)
    else:
        model.zero_grad()
    model(x).sum().backward()
    next_one.step()
    assert model.weight.grad is not None
    assert torch.equal(model.weight.grad, torch.full((1, 2), (size - 1) / 2))
    next_one.let_go()


@several_ranks
@pytest.mark.parametrize("ends", [lets_go, is_given_a_state])
def test_a_reduction_that_only_one_rank_has_begun_is_not_taken_for_the_next_one(
    ends: Callable[..., Any], rank: int, size: int
) -> None:
    experts = torch.nn.ModuleList(torch.nn.Linear(1, 1, bias=False) for _ in range(2))
    hvd.broadcast_parameters(experts.state_dict(), 0)

    def wrapped() -> Any:
        return hvd.DistributedOptimizer(torch.optim.SGD(experts.parameters(), lr=1.0), experts.named_parameters())

    def compute(x: float, used: int) -> None:
        sum(expert(torch.full((1, 1), x)).sum() for expert in experts[:used]).backward()  # type: ignore[union-attr]

    optimizers = [wrapped()]
    compute(100.0, used=2 if rank == 0 else 1)
    next_one = ends(optimizers.pop(), wrapped)
    for step in range(2):
        next_one.zero_grad()
        compute(float(rank + step), used=2)
        next_one.step()
        for expert in experts:
            assert expert.weight.grad.item() == pytest.approx((size - 1) / 2 + step)
    next_one.let_go()


@several_ranks
def test_a_pass_for_another_optimizer_may_reach_different_parameters_on_each_rank(rank: int, size: int) -> None:
    parts = [torch.nn.ModuleList(torch.nn.Linear(1, 1, bias=False) for _ in range(2)) for _ in range(2)]
    optimizers = []
    for number, part in enumerate(parts):
        hvd.broadcast_parameters(part.state_dict(), 0)
        named = [(f"{number}.{name}", each) for name, each in part.named_parameters()]
        optimizers.append(hvd.DistributedOptimizer(torch.optim.SGD(part.parameters(), lr=0.0), named))
    x = torch.full((1, 1), float(rank))
    sum(each(x).sum() for each in [*parts[0], parts[1][0 if rank == 0 else 1]]).backward()  # type: ignore[union-attr]
    optimizers[0].step()
    optimizers[1].zero_grad()
    sum(each(x).sum() for each in parts[1]).backward()  # type: ignore[union-attr]
    optimizers[1].step()
    for each in parts[1]:
        assert each.weight.grad.item() == pytest.approx((size - 1) / 2)
    for optimizer in optimizers:
        optimizer.let_go()


@pytest.mark.parametrize("passes", [1, 2])
def test_a_gradient_is_summed_once_although_others_are_dropped_after_it_has_come(passes: int, size: int) -> None:
    """That of ``late`` comes before that of ``trunk``, which the pass for the other optimizer has reached. ``late`` has
    just been thawed, or waits for a second pass."""

    def trained(factor: float, wraps: bool) -> torch.nn.ModuleDict:
        torch.manual_seed(5)
        model = torch.nn.ModuleDict({key: torch.nn.Linear(3, 3) for key in ("trunk", "late", "head")})
        model["late"].requires_grad_(passes == 2)
        named = list(model.named_parameters())
        parts = named[:4], named[4:]
        optimizers: Any = [torch.optim.SGD([each for _, each in part], lr=0.01) for part in parts]
        if wraps:
            options = {"op": hvd.Sum, "backward_passes_per_step": passes}
            optimizers = [hvd.DistributedOptimizer(each, part, **options) for each, part in zip(optimizers, parts)]
        for _ in range(2):
            for keys, part, optimizer in zip((("trunk", "late", "head"), ("trunk", "head")), parts, optimizers):
                for _, parameter in part:
                    parameter.grad = None
                for _ in range(passes):
                    x = torch.ones(1, 3)
                    for key in keys:
                        x = torch.tanh(model[key](x))
                    (factor * x.sum()).backward()
                optimizer.step()
            model["late"].requires_grad_(True)
        for optimizer in optimizers if wraps else ():
            optimizer.let_go()
        return model

    for value, expected in zip(trained(1.0, True).parameters(), trained(size, False).parameters()):
        torch.testing.assert_close(value, expected)


@several_ranks
def test_a_gradient_that_was_cleared_while_it_was_reduced_stays_cleared(rank: int) -> None:
    table, head = torch.nn.Embedding(2, 1, sparse=True), torch.nn.Linear(1, 1, bias=False)
    optimizers: List[Any] = [
        hvd.DistributedOptimizer(torch.optim.SGD(each.parameters(), lr=1.0), [(key, each.weight)])
        for key, each in (("table", table), ("head", head))
    ]
    before = table.weight.detach().clone()
    head(table(torch.tensor([rank % 2]))).sum().backward()
    optimizers[1].step()
    table.zero_grad()
    optimizers[0].step()  # after no pass of its own
    assert table.weight.grad is None
    assert torch.equal(table.weight, before)
    for optimizer in optimizers:
        optimizer.let_go()


def test_the_names_of_the_parameters_are_at_hand(rank: int) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    assert optimizer._parameter_names == {model.weight: "weight", model.bias: "bias"}
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
    assert list(optimizer._parameter_names.values()) == ["weight", "bias", "allreduce.noname.1.0"]
    unnamed: Any = hvd.DistributedOptimizer(torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=1.0))
    assert list(unnamed._parameter_names.values()) == ["allreduce.noname.0.0", "allreduce.noname.0.1"]
