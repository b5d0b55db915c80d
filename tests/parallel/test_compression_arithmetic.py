"""The arithmetic of compressors, compared with NumPy. All ranks are simulated in one process; no job runs."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Tuple

import by_hand
import horovod.torch as hvd
import numpy as np
import pytest
import torch
from horovod.torch.compression import Allgather, Allreduce, ErrorFeedback, GradientCompressor
from horovod.torch.compression.powersgd import first_columns

pytestmark = pytest.mark.skipif("os.environ.get('HOROVOD_RANK', '0') != '0'", reason="one rank is enough")
RANKS = 3


class Rounded:
    """Sends three significant digits."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, torch.dtype]:
        return tensor.to(torch.bfloat16), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype) -> torch.Tensor:
        return tensor.to(ctx)


def every_other(name: str, tensor: torch.Tensor, reduction: Any) -> Any:
    """Runs its own exchange, which sends every other column."""
    contributed = torch.zeros_like(tensor)
    contributed[:, ::2] = tensor[:, ::2]
    reduced = torch.zeros_like(tensor)
    reduced[:, ::2] = yield Allreduce(tensor[:, ::2])
    return reduced, contributed


LOSSY: Dict[str, Callable[[], GradientCompressor]] = {
    "powersgd": lambda: hvd.Compression.powersgd(rank=2, min_elements=0),
    "topk": lambda: hvd.Compression.topk(ratio=0.2, min_elements=0),
    "pair": lambda: hvd.Compression.custom(Rounded, min_elements=0),
    "generator": lambda: hvd.Compression.custom(every_other, min_elements=0),
}


def gradients(step: int, shape: Tuple[int, ...] = (12, 20), dtype: torch.dtype = torch.float64) -> List[torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for _ in range(RANKS)]


# ---- compared with NumPy ----


def test_topk_matches_memory_sgd_of_stich() -> None:
    """Algorithm 1 of Stich, Cordonnier and Jaggi, on several ranks: g = top_k(m + x), m = m + x - g."""
    compressors = [hvd.Compression.topk(ratio=0.1) for _ in range(RANKS)]
    memory = [np.zeros((40, 50)) for _ in range(RANKS)]
    for step in range(5):
        given = gradients(step, (40, 50))
        reduced = by_hand.exchange(compressors, "w", given)
        total = np.zeros((40, 50))
        for rank in range(RANKS):
            corrected = memory[rank] + given[rank].numpy()
            threshold = np.sort(np.abs(corrected), axis=None)[-math.ceil(0.1 * corrected.size)]
            chosen = np.where(np.abs(corrected) >= threshold, corrected, 0.0)
            memory[rank] = corrected - chosen
            total += chosen
        for rank in range(RANKS):
            np.testing.assert_allclose(reduced[rank].numpy(), total / RANKS, rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(compressors[rank].state_dict()["errors"]["w"].numpy(), memory[rank], atol=1e-15)


def test_powersgd_matches_algorithm_1_of_vogels() -> None:
    """P = mean(M Q), P̂ = orthonormalised P, Q = mean(Mᵀ P̂), warm start from Q; with error feedback around it."""
    compressors = [hvd.Compression.powersgd(rank=2) for _ in range(RANKS)]
    memory = [np.zeros((40, 50)) for _ in range(RANKS)]
    start = first_columns("w", 50, 2).numpy()
    for step in range(5):
        given = gradients(step, (40, 50))
        reduced = by_hand.exchange(compressors, "w", given)
        corrected = [memory[rank] + given[rank].numpy() for rank in range(RANKS)]
        left = np.linalg.qr(np.mean([gradient @ start for gradient in corrected], axis=0))[0]
        start = np.mean([gradient.T @ left for gradient in corrected], axis=0)
        for rank in range(RANKS):
            memory[rank] = corrected[rank] - left @ (left.T @ corrected[rank])
            np.testing.assert_allclose(reduced[rank].numpy(), left @ start.T, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(compressors[rank].state_dict()["errors"]["w"].numpy(), memory[rank], atol=1e-12)


# ---- properties of every compressor ----


@pytest.mark.parametrize("kind", list(LOSSY))
@pytest.mark.parametrize("op, prescale, postscale", [("Average", 1.0, 1.0), ("Sum", 1.0, 1.0), ("Average", 0.5, 2.0)])
def test_results_plus_remembered_errors_equal_the_gradients(
    kind: str, op: str, prescale: float, postscale: float
) -> None:
    compressors: List[Any] = [LOSSY[kind]() for _ in range(RANKS)]
    given_in_all, returned = torch.zeros(12, 20).double(), torch.zeros(12, 20).double()
    factor = prescale * postscale / (RANKS if op == "Average" else 1)
    for step in range(6):
        given = gradients(step)
        given_in_all += sum(given)
        returned += by_hand.exchange(compressors, "w", given, getattr(hvd, op), prescale, postscale)[0] / factor
    remembered = sum(compressor.state_dict()["errors"]["w"] for compressor in compressors)
    assert isinstance(remembered, torch.Tensor) and remembered.abs().max() > 1e-4
    # The sums of the pair are rounded to bfloat16 on their way back, and no rank remembers that error.
    tolerance = 0.2 if kind == "pair" else 1e-10
    torch.testing.assert_close(returned + remembered, given_in_all, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("kind", list(LOSSY))
def test_all_ranks_get_the_same_bits(kind: str) -> None:
    compressors = [LOSSY[kind]() for _ in range(RANKS)]
    for step in range(4):
        reduced = by_hand.exchange(compressors, "w", gradients(step, dtype=torch.float32))
        assert all(torch.equal(result, reduced[0]) for result in reduced)


@pytest.mark.parametrize("kind", list(LOSSY))
def test_the_input_gradient_is_not_changed(kind: str) -> None:
    given = gradients(0)
    before = [gradient.clone() for gradient in given]
    compressors = [LOSSY[kind]() for _ in range(RANKS)]
    for _ in range(2):
        by_hand.exchange(compressors, "w", given)
    assert all(torch.equal(gradient, other) for gradient, other in zip(given, before))


@pytest.mark.parametrize("kind", list(LOSSY))
def test_error_feedback_minimises_a_quadratic(kind: str) -> None:
    """Each rank pulls towards its own target; the optimum is their mean."""
    targets = gradients(9)
    compressors = [LOSSY[kind]() for _ in range(RANKS)]
    at = torch.zeros(12, 20).double()
    reachable = at.clone()
    reachable += sum(targets) / RANKS
    if kind == "generator":  # every other column is never sent
        reachable[:, 1::2] = 0
    for _ in range(200):
        at -= 0.02 * by_hand.exchange(compressors, "w", [at - target for target in targets])[0]
    torch.testing.assert_close(at, reachable, rtol=0.0, atol=0.1)


@pytest.mark.parametrize("kind", list(LOSSY))
def test_errors_of_float16_gradients_are_kept_in_float32(kind: str) -> None:
    compressors: List[Any] = [LOSSY[kind]() for _ in range(RANKS)]
    reduced = by_hand.exchange(compressors, "w", gradients(0, (64, 64), torch.float16))
    assert all(result.dtype == torch.float16 for result in reduced)
    assert all(compressor.state_dict()["errors"]["w"].dtype == torch.float32 for compressor in compressors)


@pytest.mark.parametrize("kind", list(LOSSY))
@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_leaves_the_errors_unchanged(kind: str, bad: float) -> None:
    compressors: List[Any] = [LOSSY[kind]() for _ in range(RANKS)]
    by_hand.exchange(compressors, "w", gradients(0))
    before = [compressor.state_dict()["errors"]["w"].clone() for compressor in compressors]
    given = gradients(1)
    given[1][3, 4] = bad
    assert not all(torch.isfinite(result).all() for result in by_hand.exchange(compressors, "w", given))
    assert all(torch.equal(now.state_dict()["errors"]["w"], old) for now, old in zip(compressors, before))
    assert all(torch.isfinite(result).all() for result in by_hand.exchange(compressors, "w", gradients(2)))


@pytest.mark.parametrize("kind", list(LOSSY))
def test_a_loaded_state_continues_with_the_same_results(kind: str) -> None:
    first: List[Any] = [LOSSY[kind]() for _ in range(RANKS)]
    for step in range(2):
        by_hand.exchange(first, "w", gradients(step))
    second: List[Any] = [LOSSY[kind]() for _ in range(RANKS)]
    for compressor, other in zip(second, first):
        compressor.load_state_dict(other.state_dict())
    for step in range(2, 4):
        one, two = (by_hand.exchange(compressors, "w", gradients(step)) for compressors in (first, second))
        assert all(torch.equal(result, other) for result, other in zip(one, two))


@pytest.mark.parametrize("kind", list(LOSSY))
def test_a_changed_shape_under_one_name_is_refused(kind: str) -> None:
    compressors = [LOSSY[kind]() for _ in range(RANKS)]
    by_hand.exchange(compressors, "w", gradients(0))
    with pytest.raises(ValueError, match="'w' has the shape"):
        by_hand.exchange(compressors, "w", gradients(0, (20, 12)))


# ---- messages ----


def first_message(compressor: GradientCompressor, gradient: torch.Tensor) -> Any:
    return next(compressor.exchange("w", gradient, by_hand.Reduction(hvd.Average, 1.0, 1.0, RANKS)))


@pytest.mark.parametrize("kind", ["powersgd", "topk"])
@pytest.mark.parametrize(
    "gradient",
    [
        torch.ones(5000),
        torch.ones(31, 33),
        torch.ones(64, 64, dtype=torch.int32),
        torch.ones(0, 7),
        torch.ones(()),
        torch.ones(5000, 1),
    ],
    ids=lambda gradient: f"{tuple(gradient.shape)} {gradient.dtype}",
)
def test_small_flat_and_integer_tensors_are_sent_uncompressed(kind: str, gradient: torch.Tensor) -> None:
    compressor = hvd.Compression.powersgd(rank=4) if kind == "powersgd" else hvd.Compression.topk(ratio=0.5)
    message = first_message(compressor, gradient)
    assert isinstance(message, Allreduce) and message.tensor is gradient and message.op is None


def test_powersgd_sends_two_thin_factors() -> None:
    step = hvd.Compression.powersgd(rank=3).exchange(
        "w", torch.randn(32, 4, 10), by_hand.Reduction(hvd.Sum, 1.0, 1.0, RANKS)
    )
    left = next(step)
    assert left.tensor.shape == (32, 3)
    assert step.send(left.tensor).tensor.shape == (40, 3)


def test_topk_sends_values_and_indices() -> None:
    values, indices = first_message(hvd.Compression.topk(ratio=0.01), torch.randn(101, 101))
    assert isinstance(values, Allgather) and values.tensor.shape == (103,)
    assert indices.tensor.shape == (103,) and indices.tensor.dtype == torch.int32


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_powersgd_reduces_a_low_rank_matrix_exactly(rank: int) -> None:
    generator = torch.Generator().manual_seed(rank)
    left, right = (torch.randn(length, rank, generator=generator).double() for length in (30, 40))
    given = [factor * left @ right.t() for factor in (1.0, -0.5, 2.0)]
    compressors = [hvd.Compression.powersgd(rank=4, min_elements=0) for _ in range(RANKS)]
    for _ in range(3):
        torch.testing.assert_close(by_hand.exchange(compressors, "w", given)[0], sum(given) / RANKS)


def test_the_start_depends_only_on_the_name() -> None:
    state = torch.random.get_rng_state()
    assert torch.equal(first_columns("w", 5, 2), first_columns("w", 5, 2))
    assert not torch.equal(first_columns("w", 5, 2), first_columns("v", 5, 2))
    assert torch.equal(torch.random.get_rng_state(), state)


# ---- invalid arguments ----


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "4", None])
def test_a_rank_that_is_no_positive_integer_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="rank"):
        hvd.Compression.powersgd(rank=bad)


@pytest.mark.parametrize("bad", [0, -0.1, 1.1, math.nan])
def test_a_ratio_outside_0_to_1_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="ratio"):
        hvd.Compression.topk(ratio=bad)


@pytest.mark.parametrize("bad", [-1, 0.5, True])
def test_min_elements_that_is_no_count_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="min_elements"):
        hvd.Compression.topk(min_elements=bad)


@pytest.mark.parametrize("bad", [None, 3, ErrorFeedback, object()])
def test_custom_refuses_objects_that_are_no_compressors(bad: Any) -> None:
    with pytest.raises(ValueError, match="Compression.custom takes"):
        hvd.Compression.custom(bad)


def test_a_state_of_another_powersgd_rank_is_refused() -> None:
    state = hvd.Compression.powersgd(rank=2).state_dict()
    with pytest.raises(ValueError, match="rank=2"):
        hvd.Compression.powersgd(rank=3).load_state_dict(state)
