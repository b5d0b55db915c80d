"""The arithmetic of callbacks: learning rates by batch, commits, and the batch at which an epoch resumes."""

from __future__ import annotations

from typing import List, Optional, Tuple

import pytest
from farandole.common.callbacks import Cadence, RestOfEpoch, Schedule, epochs_done, warmup


def rates(schedule: Schedule, epochs: int, batches: int, rate: float) -> List[Tuple[float, float]]:
    """Rate and momentum factor of each batch, as a training would see them."""
    seen = []
    for epoch in range(epochs):
        for batch in range(batches):
            change = schedule.at(epoch, batch, rate)
            if change is not None:
                rate = change.learning_rate
            seen.append((rate, 1.0 if change is None else change.momentum_factor))
    return seen


def test_a_staircase_schedule_changes_the_rate_at_the_first_batch_of_each_epoch() -> None:
    schedule = Schedule(0.8, lambda epoch: 0.5**epoch)
    assert [rate for rate, _ in rates(schedule, 3, 2, 0.8)] == [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]


def test_a_constant_multiplier_is_raised_to_the_number_of_epochs_since_the_start() -> None:
    schedule = Schedule(1.0, 0.1, start_epoch=1, end_epoch=3)
    assert [rate for rate, _ in rates(schedule, 4, 1, 7.0)] == pytest.approx([7.0, 1.0, 0.1, 0.1])


@pytest.mark.parametrize("epoch, changes", [(0, False), (1, False), (2, True), (4, True), (5, False)])
def test_a_schedule_includes_start_epoch_and_excludes_end_epoch(epoch: int, changes: bool) -> None:
    schedule = Schedule(1.0, lambda epoch: 0.5, start_epoch=2, end_epoch=5)
    assert (schedule.at(epoch, 0, 1.0) is not None) == changes


def test_without_a_staircase_the_multiplier_receives_fractions_of_epochs() -> None:
    asked: List[float] = []

    def multiplier(epoch: float) -> float:
        asked.append(epoch)
        return 1.0

    schedule = Schedule(1.0, multiplier, is_staircase=False, steps_per_epoch=4)
    rates(schedule, 2, 4, 1.0)
    assert asked == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]


def test_momentum_is_scaled_by_the_ratio_of_rates_for_one_batch() -> None:
    schedule = Schedule(1.0, lambda epoch: 0.5**epoch)
    assert [factor for _, factor in rates(schedule, 2, 2, 2.0)] == [0.5, 1.0, 0.5, 1.0]
    uncorrected = Schedule(1.0, lambda epoch: 0.5**epoch, corrects_momentum=False)
    assert {factor for _, factor in rates(uncorrected, 2, 2, 2.0)} == {1.0}
    # A rate of zero gives no ratio, so momentum is not scaled.
    change = schedule.at(0, 0, 0.0)
    assert change is not None and change.momentum_factor == 1.0


def test_a_schedule_without_initial_lr_or_steps_per_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match="initial_lr"):
        Schedule(None, 0.1)
    with pytest.raises(ValueError, match="steps_per_epoch"):
        Schedule(1.0, 0.1, is_staircase=False).at(0, 0, 1.0)


@pytest.mark.parametrize("size", [1, 2, 8])
@pytest.mark.parametrize("epochs", [1, 5])
def test_warmup_rises_from_the_rate_of_one_rank_to_the_rate_of_all_ranks(size: int, epochs: int) -> None:
    steps, initial = 10, 0.8
    multiplier = warmup(size, epochs, lambda: steps)
    schedule = Schedule(initial, multiplier, 0, epochs, is_staircase=False, steps_per_epoch=steps)
    seen = [rate for rate, _ in rates(schedule, epochs + 1, steps, initial)]
    # lr = initial / size * (e * (size - 1) / epochs + 1), where e counts the batch that is trained.
    wanted = [initial / size * ((number + 1) / steps * (size - 1) / epochs + 1) for number in range(epochs * steps)] + [
        initial
    ] * steps
    assert seen == pytest.approx(wanted)
    assert seen == sorted(seen)


def test_a_cadence_commits_after_every_given_number_of_batches() -> None:
    cadence = Cadence(3)
    assert [cadence.batch_ended() for _ in range(7)] == [False, False, True, False, False, True, False]
    cadence.restart()
    assert [cadence.batch_ended() for _ in range(3)] == [False, False, True]
    assert all(Cadence().batch_ended() for _ in range(3))


@pytest.mark.parametrize("batches", [0, -1])
def test_a_cadence_that_is_not_positive_is_refused(batches: int) -> None:
    with pytest.raises(ValueError, match=str(batches)):
        Cadence(batches)


def test_a_resumed_epoch_has_only_the_remaining_batches() -> None:
    rest = RestOfEpoch()
    given: Optional[int] = 100
    given = rest.steps(given, 30)
    assert given == 70
    # The framework now reports the reduced number of batches, yet the next epoch has all of them.
    assert rest.steps(given, 0) == 100
    rest.restart()
    assert rest.steps(50, 0) == 50
    assert RestOfEpoch().steps(None, 3) is None


def test_epochs_of_earlier_fits_are_counted() -> None:
    assert [epochs_done(4, epoch) for epoch in range(3)] == [5, 6, 7]
