"""Distributed trials for Ray Tune: each trial is a job of several workers."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional, cast

from farandole.ray.runner import RayExecutor
from farandole.ray.trial_session import Report, TrialFacts, packed, run_in_session, unpacked


def DistributedTrainableCreator(
    func: Callable[[Dict[str, Any]], Any],
    use_gpu: bool = False,
    num_hosts: Optional[int] = None,
    num_workers: int = 1,
    num_cpus_per_worker: int = 1,
    num_gpus_per_worker: Optional[int] = None,
    timeout_s: int = 30,
    replicate_pem: bool = False,
    num_slots: Optional[int] = None,
    num_cpus_per_slot: Optional[int] = None,
    num_gpus_per_slot: Optional[int] = None,
) -> Any:
    """Makes a training function a trainable for ``tune.Tuner`` and ``tune.run``, whose trials have several workers.

    The function runs on each worker with the trial's configuration, and calls ``hvd.init()``. ``tune.report`` counts on
    rank 0, and does nothing on others; ``tune.get_checkpoint`` returns the trial's checkpoint on all of them.

    :param num_hosts: nodes of each trial; None: any
    :param num_workers: workers of each trial; with ``num_hosts``, workers on each node (also ``num_slots``)
    :param num_cpus_per_worker: also ``num_cpus_per_slot``, and ``num_gpus_per_worker`` also ``num_gpus_per_slot``
    :param timeout_s: seconds until all workers of a trial must have called ``init()``, after the first
    :param replicate_pem: not used: no worker is started by ssh
    """
    from ray import tune

    num_workers = num_workers if num_slots is None else num_slots
    cpus = num_cpus_per_worker if num_cpus_per_slot is None else num_cpus_per_slot
    gpus = num_gpus_per_worker if num_gpus_per_slot is None else num_gpus_per_slot
    sizes: Dict[str, Any] = {"use_gpu": use_gpu, "cpus_per_worker": cpus, "gpus_per_worker": gpus}
    executor_of_trial = functools.partial(
        RayExecutor,
        RayExecutor.create_settings(timeout_s=timeout_s),
        num_workers=num_workers * (num_hosts or 1),
        **sizes,
    )
    executor_of_trial()  # refuses contradictions before any trial starts

    @functools.wraps(func)
    def trial(config: Dict[str, Any]) -> Any:
        return _run_trial(func, config, executor_of_trial())

    del trial.__wrapped__  # Tune looks at the parameters of this function
    resources = {"CPU": cpus, **({"GPU": gpus or 1} if use_gpu else {})}
    if num_hosts is None:
        bundles, strategy = [dict(resources) for _ in range(num_workers)], "PACK"
    else:
        of_host = {name: count * num_workers for name, count in resources.items()}
        bundles, strategy = [dict(of_host) for _ in range(num_hosts)], "STRICT_SPREAD"
    # The first bundle is that of the process that waits for the workers.
    return tune.with_resources(trial, tune.PlacementGroupFactory([{}, *bundles], strategy=strategy))


def _run_trial(func: Callable[[Dict[str, Any]], Any], config: Dict[str, Any], executor: RayExecutor) -> Any:
    """Runs in the process of the trial. Returns the result of rank 0, which Tune reports if it is not None."""
    from ray import tune

    context = tune.get_context()
    facts = TrialFacts(
        trial_id=context.get_trial_id(),
        trial_name=context.get_trial_name(),
        trial_dir=context.get_trial_dir(),
        experiment_name=context.get_experiment_name(),
        trial_resources=context.get_trial_resources(),
    )
    checkpoint = tune.get_checkpoint()

    def forward(report: Any) -> None:
        if isinstance(report, Report):
            with unpacked(report.checkpoint) as folder:
                own = tune.Checkpoint.from_directory(folder) if folder is not None else None
                tune.report(report.metrics, checkpoint=own)

    try:
        executor.start()
        arguments: List[Any] = [func, config, facts, packed(checkpoint)]
        return executor.run(cast(Callable[[Any], Any], run_in_session), arguments, callbacks=[forward])[0]
    finally:
        executor.shutdown()
