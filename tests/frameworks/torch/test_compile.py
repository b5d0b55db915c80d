"""Operations are nodes of compiled graphs: no breaks, the same numbers, gradients and errors as without a compiler."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Iterator, List

import horovod.torch as hvd
import pytest
import torch
from farandole.common import job
from newer_versions import needs
from torch._dynamo.testing import CompileCounter

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
needs_nodes = needs("torch", "2.8", "graphs with effects that Inductor compiles")
FULL = {"fullgraph": torch.__version__ >= "2.8", "backend": "aot_eager"}
"""Before PyTorch 2.8, operations are not nodes: they break the graph."""


@pytest.fixture(autouse=True)
def reset_compiler() -> None:
    torch._dynamo.reset()


def rows(count: int, rank: int) -> torch.Tensor:
    return (torch.arange(2.0 * count).reshape(count, 2) + rank).requires_grad_()


def outcome(function: Callable[..., Any], tensors: List[torch.Tensor]) -> List[torch.Tensor]:
    """The output and the gradients."""
    given = [each.detach().clone().requires_grad_(each.requires_grad) for each in tensors]
    output = function(*given)
    if output.requires_grad:
        output.square().sum().backward()
    return [output.detach(), *(each.grad for each in given if each.grad is not None)]


def in_place(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a = a.detach() * 2
    b = b.detach() + a.sum()
    hvd.allreduce_(a, name="in place")
    hvd.broadcast_(b, 0, name="in place")
    both = [a, b.t().contiguous()]
    hvd.grouped_allreduce_(both, op=hvd.Sum, name="in place group")
    return torch.cat([both[0].reshape(-1), both[1].reshape(-1)])


OPERATIONS: Dict[str, Callable[..., torch.Tensor]] = {
    "allreduce": lambda a, b: hvd.allreduce(a * 2, name="a") + 1,
    "allreduce without names": lambda a, b: hvd.allreduce(a * 2).sum() * hvd.allreduce(b, op=hvd.Sum),
    "allreduce, scaled": lambda a, b: hvd.allreduce(a, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0),
    "allreduce, fp16": lambda a, b: hvd.allreduce(a * 2, name="a", compression=hvd.Compression.fp16),
    "allreduce of a transposed view": lambda a, b: hvd.allreduce(torch.mm(a.t(), a).t().contiguous(), name="a"),
    "grouped_allreduce": lambda a, b: torch.cat(hvd.grouped_allreduce([a * 2, b], name="g")),
    "allgather": lambda a, b: hvd.allgather(a * 2, name="a"),
    "grouped_allgather": lambda a, b: torch.cat(hvd.grouped_allgather([a * 2, b], name="g")),
    "grouped_allgather with a mask": lambda a, b: torch.mul(*hvd.grouped_allgather([a, b[:-1] > 2], name="g")),
    "allgather, complex": lambda a, b: torch.view_as_real(hvd.allgather(torch.complex(a, a * 2), name="a")),
    "broadcast": lambda a, b: hvd.broadcast(a * 2, hvd.size() - 1, name="a"),
    "alltoall": lambda a, b: hvd.alltoall(a * 2, name="a"),
    "reducescatter": lambda a, b: hvd.reducescatter(b * 2, name="b"),
    "reducescatter, scaled": lambda a, b: hvd.reducescatter(b, name="b", op=hvd.Sum, prescale_factor=0.5),
    "grouped_reducescatter": lambda a, b: torch.cat(hvd.grouped_reducescatter([a * 2, b], name="g")),
    "in place": in_place,
}


VARIANTS = ("allreduce, scaled", "allreduce, fp16", "reducescatter, scaled")


@pytest.mark.parametrize(
    "operation", [pytest.param(each, marks=pytest.mark.slow) if each in VARIANTS else each for each in OPERATIONS]
)
def test_each_operation_compiles_into_one_graph_with_the_same_results_and_gradients(
    operation: str, rank: int, size: int
) -> None:
    tensors = [rows(2 * size, rank), rows(2 * size + 1, rank)]
    expected = outcome(OPERATIONS[operation], tensors)
    compiled = outcome(torch.compile(OPERATIONS[operation], **FULL), tensors)
    torch.testing.assert_close(compiled, expected)


@pytest.mark.slow
@needs_nodes
def test_the_default_compiler_compiles_operations_into_one_graph(rank: int, size: int) -> None:
    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        mean = hvd.allreduce(torch.sin(a), name="inductor.a")
        parts = hvd.grouped_allreduce([mean * 2, b], name="inductor.g")
        return hvd.allgather(parts[0] + 1, name="inductor.all") * parts[1].sum()

    tensors = [rows(2, rank), rows(3, rank)]
    compiled = outcome(torch.compile(step, fullgraph=True), tensors)
    torch.testing.assert_close(compiled, outcome(step, tensors), rtol=1e-5, atol=1e-4)  # sums in another order


def ragged(a: torch.Tensor) -> torch.Tensor:
    return hvd.allgather(a * 2, name="ragged")


def split(a: torch.Tensor) -> torch.Tensor:
    splits = [1] * hvd.size()
    splits[0] += a.shape[0] - hvd.size()
    return hvd.alltoall(a * 2, splits=torch.tensor(splits, dtype=torch.int32), name="split")[0]


def all_to_rank_0(a: torch.Tensor) -> torch.Tensor:
    splits = torch.tensor([a.shape[0]] + [0] * (hvd.size() - 1))
    return hvd.alltoall(a, splits=splits, name="many")[0]


@needs_nodes
def test_a_graph_refuses_more_received_rows_than_int32_counts(rank: int) -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(all_to_rank_0, **FULL)
        rows_without_elements = torch.empty(2**31, 0)
        if rank == 0:
            with pytest.raises(ValueError, match="more than 2147483647 rows came from one rank"):
                compiled(rows_without_elements)
        else:
            assert compiled(rows_without_elements).shape == (0, 0)


@pytest.mark.parametrize("function", [ragged, split])
def test_operations_with_dynamic_output_sizes_compile(function: Callable[..., Any], rank: int, size: int) -> None:
    tensors = [rows(size + rank, rank)]
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = outcome(torch.compile(function, **FULL), tensors)
    torch.testing.assert_close(compiled, outcome(function, tensors))


@several_ranks
@needs_nodes
def test_a_number_of_rows_that_the_graph_was_not_traced_for_is_an_error(rank: int, size: int) -> None:
    compiled = torch.compile(lambda a: hvd.allgather(a, name="unequal"), **FULL)
    with pytest.raises(ValueError, match="unequal.*capture_dynamic_output_shape_ops"):
        compiled(torch.ones(rank + 1, 2))
    assert compiled(torch.ones(3, 2)).shape == (3 * size, 2)


@several_ranks
def test_a_mismatch_in_a_compiled_function_names_both_shapes(rank: int, size: int) -> None:
    compiled = torch.compile(lambda a: hvd.allreduce(a, name="shapes"), **FULL)
    with pytest.raises(hvd.HorovodInternalError, match="shapes differ.*rank 0 has \\[3\\].*rank 1 has \\[4\\]"):
        compiled(torch.ones(3 if rank == 0 else 4))
    assert compiled(torch.ones(3))[0] == 1


@several_ranks
def test_an_operation_also_runs_on_ranks_that_do_not_use_its_result(rank: int, size: int) -> None:
    @torch.compile(**FULL)
    def step(a: torch.Tensor) -> torch.Tensor:
        mean = hvd.allreduce(a, name="used by rank 0")
        return mean if hvd.rank() == 0 else a

    assert step(torch.full((3,), float(rank)))[0] == ((size - 1) / 2 if rank == 0 else rank)


@pytest.fixture
def evens() -> Iterator[hvd.ProcessSet]:
    """A process set of every other rank, for one test."""
    made = hvd.ProcessSet(range(0, hvd.size(), 2))
    hvd.barrier()  # a rank that is still in init() of the previous test must not start the job again
    hvd.shutdown()
    hvd.init(process_sets=[made])
    yield made
    hvd.barrier()
    hvd.shutdown()


@several_ranks
def test_a_compiled_function_has_a_graph_for_each_process_set(evens: hvd.ProcessSet, rank: int, size: int) -> None:
    compiled = torch.compile(lambda a, of: hvd.allgather(a, name="of a set", process_set=of), **FULL)
    assert compiled(torch.ones(1), hvd.global_process_set).shape == (size,)
    if evens.included():
        assert compiled(torch.ones(1), evens).shape == (evens.size(),)


@needs_nodes
def test_a_changed_job_size_recompiles_the_graph(monkeypatch: pytest.MonkeyPatch, rank: int, size: int) -> None:
    """In another generation this process may have another rank, and its job another size."""
    counter = CompileCounter()
    compiled = torch.compile(lambda a: hvd.allgather(a, name="of members"), fullgraph=True, backend=counter)
    for _ in range(2):
        assert compiled(torch.ones(2, 3)).shape == (2 * size, 3)
    assert counter.frame_count == 1
    assert job.topology is not None
    monkeypatch.setattr(job, "topology", dataclasses.replace(job.topology, size=size + 1))
    with pytest.raises(ValueError, match=f"{size} ranks.*traced for {size + 1}"):
        compiled(torch.ones(2, 3))
    assert counter.frame_count == 2


def test_shapes_and_scale_factors_may_change_between_calls(rank: int, size: int) -> None:
    compiled = torch.compile(
        lambda a, scale: hvd.allreduce(hvd.allgather(a, name="of any size"), op=hvd.Sum, postscale_factor=scale), **FULL
    )
    for count in (2, 3, 5):
        reduced = compiled(torch.ones(count, 2), 0.5 * count)
        torch.testing.assert_close(reduced, torch.full((size * count, 2), 0.5 * count * size))


def network() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(10 * step + rank))


def wrapped(model: torch.nn.Module) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return hvd.DistributedOptimizer(optimizer, model.named_parameters())


def plain_step(model: Any, optimizer: Any, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def model_compiled(model: Any, optimizer: Any) -> Callable[[torch.Tensor], None]:
    forward = torch.compile(model, **FULL)
    return lambda x: plain_step(forward, optimizer, x)


def step_compiled(model: Any, optimizer: Any) -> Callable[[torch.Tensor], None]:
    return torch.compile(lambda x: plain_step(model, optimizer, x), backend="aot_eager")  # type: ignore[no-any-return]


def backward_compiled(model: Any, optimizer: Any) -> Callable[[torch.Tensor], None]:
    def step(x: torch.Tensor) -> None:
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
            plain_step(model, optimizer, x)

    return step


COMPILED: List[Callable[[Any, Any], Callable[[torch.Tensor], None]]] = [
    model_compiled,
    pytest.param(step_compiled, marks=needs("torch", "2.3", "compiled steps of SGD with momentum")),
    pytest.param(
        backward_compiled, marks=[pytest.mark.slow, needs("torch", "2.7", "torch._dynamo.compiled_autograd._enable")]
    ),
]


def trained(rank: int, make: Callable[[Any, Any], Callable[[torch.Tensor], None]]) -> List[torch.Tensor]:
    model = network()
    step = make(model, wrapped(model))
    for number in range(4):
        step(batch(rank, number))
    return [each.detach() for each in model.parameters()]


@pytest.mark.parametrize("make", COMPILED)
def test_a_compiled_training_step_matches_the_uncompiled_step(make: Any, rank: int) -> None:
    expected = trained(rank, lambda model, optimizer: lambda x: plain_step(model, optimizer, x))
    torch.testing.assert_close(trained(rank, make), expected)


@needs("torch", "2.7", "torch._dynamo.config.recompile_limit")
def test_a_compiled_step_does_not_compile_the_hooks_of_parameters(rank: int) -> None:
    """Each of the hooks would find another state, and be compiled again."""
    with torch._dynamo.config.patch(recompile_limit=2, fail_on_recompile_limit_hit=True):
        trained(rank, step_compiled)


def test_a_whole_training_step_compiles_into_one_graph(rank: int, size: int) -> None:
    model = network()
    parameters = dict(model.named_parameters())

    def loss_of(values: Dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, values, (x,)).square().mean()

    @torch.compile(**FULL)
    def step(values: Dict[str, torch.Tensor], x: torch.Tensor) -> Dict[str, torch.Tensor]:
        gradients = torch.func.grad(loss_of)(values, x)
        mean = hvd.grouped_allreduce(list(gradients.values()), name="gradients")
        return {name: value - 0.1 * each for (name, value), each in zip(values.items(), mean)}

    stepped = step({name: each.detach() for name, each in parameters.items()}, batch(rank, 0))
    total = sum(loss_of(parameters, batch(other, 0)) for other in range(size)) / size
    for name, slope in zip(parameters, torch.autograd.grad(total, list(parameters.values()))):
        torch.testing.assert_close(stepped[name], parameters[name].detach() - 0.1 * slope)


def asynchronous(a: torch.Tensor) -> torch.Tensor:
    handle = hvd.allreduce_async(a * 2, name="asynchronous")
    other = a + 1
    return hvd.synchronize(handle) + other


def remembering(a: torch.Tensor) -> torch.Tensor:
    return hvd.allreduce(a * 2, name="remembering", compression=hvd.Compression.powersgd(8))


@pytest.mark.parametrize("function", [asynchronous, remembering])
def test_calls_that_cannot_be_graph_nodes_break_the_graph_and_give_the_same_result(
    function: Callable[..., Any], rank: int
) -> None:
    a = torch.eye(8) + rank
    torch.testing.assert_close(torch.compile(function, backend="aot_eager")(a), function(a), rtol=1e-3, atol=1e-3)


@needs_nodes
def test_operators_pass_pytorchs_opcheck(rank: int, size: int) -> None:
    set_rank = (0, rank)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    reduction = (None, hvd.Average, 1.0, 1.0, 0)
    for operation, arguments in {
        "allreduce": (rows(3, rank), *reduction),
        "grouped_allreduce": ([rows(3, rank), rows(2, rank)], *reduction),
        "allgather": (rows(3, rank), None, *set_rank, [3] * size),
        "alltoall": (rows(2 * size, rank), None, 0),
        "broadcast": (rows(3, rank), 0, None, 0, rank == 0),
        "reducescatter": (rows(3, rank), *reduction, rank, size),
    }.items():
        torch.library.opcheck(getattr(torch.ops.farandole, operation).default, arguments, test_utils=checks)
