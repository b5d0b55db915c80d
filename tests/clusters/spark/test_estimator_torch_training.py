"""The training of a rank for PyTorch, on real ranks without Spark, compared with the same steps in one process."""

from __future__ import annotations

from typing import Any, Dict, List

import estimator_samples as samples
import pytest
import torch
from estimator_samples import LR, RANKS

pytestmark = pytest.mark.slow


def add_penalty(model, optimizer, transform_outputs, loss_fn, inputs, labels, sample_weights):  # type: ignore[no-untyped-def]
    """A user's minibatch function, which does the same as the default one with one more step."""
    optimizer.zero_grad()
    outputs, labels = transform_outputs(model(*inputs), labels)
    assert labels[0].max() <= samples.LABELS.max()
    loss = loss_fn(outputs, labels, sample_weights)
    (loss + 0.0 * outputs[0].sum()).backward()
    optimizer.step()
    return outputs, loss


class StopAfter:
    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self.begun: List[int] = []

    def on_train_begin(self, model: Any, optimizer: Any) -> None:
        (group,) = optimizer.param_groups
        assert [group["lr"], group["initial_lr"]] == pytest.approx([LR * RANKS] * 2)

    def on_epoch_begin(self, epoch: int) -> None:
        self.begun.append(epoch)

    def on_epoch_end(self, epoch: int, record: Dict[str, Any]) -> bool:
        assert self.begun == list(range(epoch + 1)) and record["epoch"] == epoch
        return epoch == self._epoch


class Scaler:
    """A minibatch function with a gradient scaler, and a callback that compares the ranks."""

    def __init__(self, init_scale: float) -> None:
        self.scaler = torch.amp.GradScaler("cpu", init_scale, growth_interval=3)
        self.overflows = init_scale > 1e30
        self.skipped = 0

    def __call__(self, model, optimizer, transform_outputs, loss_fn, inputs, labels, sample_weights):  # type: ignore[no-untyped-def]
        optimizer.zero_grad()
        outputs, labels = transform_outputs(model(*inputs), labels)
        loss = loss_fn(outputs, labels, sample_weights)
        self.scaler.scale(loss).backward()
        optimizer.synchronize()
        before = self.scaler.get_scale()
        with optimizer.skip_synchronize():
            self.scaler.step(optimizer)
        self.scaler.update()
        self.skipped += self.scaler.get_scale() < before
        return outputs, loss

    def on_train_begin(self, model: Any, optimizer: Any) -> None:
        self.model = model

    def on_epoch_end(self, epoch: int, record: Dict[str, Any]) -> None:
        import farandole.torch as hvd

        own = (self.scaler.state_dict(), self.skipped, [each.tolist() for each in self.model.parameters()])
        first, *others = hvd.allgather_object(own)
        assert others == [first] * (RANKS - 1)
        assert 0 < self.skipped < len(STEPS) if self.overflows else not self.skipped


def of_rows(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """A loss that cannot be had for each row."""
    return ((output - label) ** 2).mean()


def plan_with(scaler: Scaler, **params: Any) -> Any:
    return samples.plan_of(train_minibatch_fn=scaler, callbacks=[scaler], **params)


PLANS = {
    "weights": samples.plan_of(sample_weight_col="w"),
    "passes": samples.plan_of(backward_passes_per_step=2, batch_size=2),
    "custom": samples.plan_of(train_minibatch_fn=add_penalty, data_module=samples.OnceModule, epochs=2),
    "scaler": plan_with(Scaler(8.0)),
    "overflow": plan_with(Scaler(2.0**127), data_module=samples.EmptyRankModule),
    "own statistics": samples.plan_of(train_minibatch_fn=add_penalty, data_module=samples.EmptyRankModule),
    "empty rank": samples.plan_of(data_module=samples.EmptyRankModule),
    "steps": samples.plan_of(train_steps_per_epoch=2, epochs=2),
    "stop": samples.plan_of(epochs=5, callbacks=[StopAfter(1)]),
    "constructors": samples.plan_of(loss=None, loss_constructors=[torch.nn.MSELoss], random_seed=1),
    "compressed": samples.plan_of(gradient_compression="fp16"),
    "normalised": samples.plan_of(train_minibatch_fn=add_penalty, data_module=samples.EmptyRankModule, rows=(64, 64)),
    "no rows of the loss": samples.plan_of(loss=of_rows, sample_weight_col="w"),
}


@pytest.fixture(scope="module")
def results() -> Dict[str, List[Any]]:
    """What each rank returned for each plan."""
    import horovod.torch as hvd
    from farandole.spark.torch.training import Training

    trainings = {}
    for name, plan in PLANS.items():
        if plan.gradient_compression:
            plan.params["gradient_compression"] = getattr(hvd.Compression, plan.gradient_compression)
        layer = {"normalised": hvd.SyncBatchNorm, "own statistics": torch.nn.BatchNorm1d}.get(name)
        model = samples.normalised_network(layer) if layer else samples.network()
        optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.5)
        optimizer.param_groups[0]["initial_lr"] = LR  # as if it had a scheduler
        trainings[name] = (plan, Training(model, optimizer))
    return samples.trained_on_ranks(trainings)


def result_of(results: Dict[str, List[Any]], name: str) -> Any:
    from farandole.spark.torch.training import Result

    return Result.from_bytes(samples.content_of(results[name]))


def assert_same(result: Any, model: torch.nn.Module) -> None:
    for name, value in model.state_dict().items():
        torch.testing.assert_close(result.model_state[name], value, atol=1e-6, rtol=1e-5)


STEPS = samples.steps_of(samples.ArrayModule.bounds, 4)


def test_the_weights_of_rows_count_over_all_ranks(results: Any) -> None:
    assert_same(result_of(results, "weights"), samples.trained_by_hand(STEPS, LR * RANKS, weights=samples.WEIGHTS))


def test_several_passes_are_a_step_with_all_their_rows(results: Any) -> None:
    assert_same(result_of(results, "passes"), samples.trained_by_hand(STEPS, LR * RANKS))


def test_a_minibatch_function_and_data_that_are_iterated_once_give_the_same(results: Any) -> None:
    assert_same(result_of(results, "custom"), samples.trained_by_hand(STEPS, LR * RANKS, epochs=2))


def test_a_rank_without_rows_takes_part(results: Any) -> None:
    steps = samples.steps_of(samples.EmptyRankModule.bounds, 4)
    assert_same(result_of(results, "empty rank"), samples.trained_by_hand(steps, LR * RANKS))


def test_a_rank_without_rows_takes_part_in_synchronised_batch_normalisation(results: Any) -> None:
    steps = samples.steps_of(samples.EmptyRankModule.bounds, 4)
    expected = samples.normalised_network(torch.nn.BatchNorm1d)
    assert_same(result_of(results, "normalised"), samples.trained_by_hand(steps, LR * RANKS, model=expected))


def test_a_gradient_scaler_takes_and_skips_the_same_steps_on_all_ranks(results: Any) -> None:
    assert_same(result_of(results, "scaler"), samples.trained_by_hand(STEPS, LR * RANKS))
    result_of(results, "overflow")


def test_a_rank_without_rows_keeps_its_statistics(results: Any) -> None:
    batches = -(-samples.EmptyRankModule.bounds[1] // 4)  # of rank 0; rank 2 has one more
    assert result_of(results, "own statistics").model_state["1.num_batches_tracked"] == batches


def test_compressed_gradients_are_nearly_the_same(results: Any) -> None:
    result, model = result_of(results, "compressed"), samples.trained_by_hand(STEPS, LR * RANKS)
    weights = [result.model_state["0.weight"], model.state_dict()["0.weight"]]
    torch.testing.assert_close(*weights, atol=1e-2, rtol=0)
    assert not torch.equal(*weights)


def test_steps_per_epoch_continue_in_the_next_epoch(results: Any) -> None:
    result = result_of(results, "steps")
    assert [each["epoch"] for each in result.history] == [0, 1]
    assert_same(result, samples.trained_by_hand(STEPS[:4], LR * RANKS))


def test_a_callback_ends_the_training_on_all_ranks(results: Any) -> None:
    assert [each["epoch"] for each in result_of(results, "stop").history] == [0, 1]


def test_loss_constructors_make_the_losses(results: Any) -> None:
    assert_same(result_of(results, "constructors"), samples.trained_by_hand(STEPS, LR * RANKS))


def test_the_learning_rate_is_scaled_once_and_returned_unscaled(results: Any) -> None:
    for name in ("custom", "stop"):
        (group,) = result_of(results, name).optimizer_state["param_groups"]
        assert [group["lr"], group["initial_lr"]] == pytest.approx([LR, LR])


def test_a_loss_without_a_value_for_each_row_refuses_weights(results: Any) -> None:
    for answer in results["no rows of the loss"]:
        assert "sample_weight_col needs a loss for each row, but the loss returns the shape []" in answer
