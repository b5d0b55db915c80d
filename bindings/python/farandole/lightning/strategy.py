"""The strategy, as far as it is the same for both packages that Lightning comes in.

Gradients are averaged while the backward pass goes on, by the distributed optimizer's reductions; the optimizers of the
module are left as they are. So schedulers, checkpoints, clipping and closures see plain PyTorch optimizers, and
gradients that are complete when ``backward`` returns. L-BFGS also gets the loss of all ranks, reduced as gradients are,
by which it decides how often it calls the closure.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch

import farandole.torch as hvd
from farandole.lightning import batch_norm, exchange
from farandole.torch.functions import broadcast_module
from farandole.torch.optimizer import _DistributedOptimizer

OPTIONS = ("compression", "op", "gradient_predivide_factor", "groups", "sparse_as_dense")


class Launcher:
    """Starts no processes: ``horovodrun`` has. Raises if the trainer was asked for other processes than there are."""

    is_interactive_compatible = True

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy

    def launch(self, function: Any, *args: Any, trainer: Any = None, **kwargs: Any) -> Any:
        """Calls the function in this process."""
        self._strategy.require_as_started()
        return function(*args, **kwargs)

    def kill(self, signum: Any) -> None:
        """There is nothing to kill: the launcher looks after the other processes."""


class Strategy:
    """Data parallel training in processes that ``horovodrun`` has started.

    :param device: the device of this process; by default the CPU, or the GPU of its local rank
    :param compression: as in ``hvd.DistributedOptimizer``, and so are ``op`` (not Adasum), ``groups``,
        ``gradient_predivide_factor`` and ``sparse_as_dense``
    """

    strategy_name = "farandole"
    environment_class: Any
    launcher_class: Any
    num_nodes = 1  # set by the trainer

    def __init__(self, cluster_environment: Any = None, device: Optional[str] = None, **options: Any) -> None:
        chosen = {name: options.pop(name) for name in OPTIONS if name in options}
        if chosen.get("op") == hvd.Adasum:
            raise ValueError(
                "the strategy averages gradients, and Adasum combines steps: wrap the optimizer in "
                "configure_optimizers(), hvd.DistributedOptimizer(…, op=hvd.Adasum), and leave op= out here"
            )
        super().__init__(cluster_environment=cluster_environment or self.environment_class(), **options)  # type: ignore[call-arg]
        self._device = None if device is None else torch.device(device)
        self._reduction_options: Dict[str, Any] = chosen
        self._reducer: Any = None
        self._accumulating = False
        self._are_sums = False
        self._normalised: List[batch_norm.Replaced] = []

    # ---- ranks and devices ----

    def _configure_launcher(self) -> None:
        self._launcher = self.launcher_class(self)

    def set_world_ranks(self) -> None:
        """Sets the rank for ``rank_zero_only``: its functions then run on rank 0 alone."""
        from lightning_utilities.core.rank_zero import rank_zero_only

        rank_zero_only.rank = self.global_rank  # type: ignore[attr-defined]

    def setup_environment(self) -> None:
        """Called first in every run: members may have changed since the last."""
        self.set_world_ranks()
        super().setup_environment()  # type: ignore[misc]

    def require_as_started(self) -> None:
        """``ValueError`` where the trainer was told other numbers than those of the processes that there are."""
        devices, hosts = len(self.parallel_devices or [0]), self.num_nodes  # type: ignore[attr-defined]
        here = hvd.local_size()
        if self.root_device.type == "cpu" and devices not in (1, here):
            raise ValueError(
                f"Trainer(devices={devices}): rank {hvd.rank()} runs on a host with {here} process(es) of this job. "
                f"horovodrun starts them: horovodrun -np {devices} python …, and leave devices out"
            )
        if hosts not in (1, hvd.cross_size()):
            raise ValueError(
                f"Trainer(num_nodes={hosts}): this job has processes on {hvd.cross_size()} host(s); horovodrun starts "
                "them: leave num_nodes out"
            )

    @property
    def root_device(self) -> torch.device:
        """The device of this process: with GPUs, that of its local rank unless one was given."""
        if self._device is not None:
            return self._device
        devices = self.parallel_devices or [torch.device("cpu")]  # type: ignore[attr-defined]
        if devices[0].type != "cuda":
            return devices[0]
        return torch.device("cuda", self.local_rank % max(1, torch.cuda.device_count()))

    @property
    def global_rank(self) -> int:
        """This process's number in the job."""
        rank: int = self.cluster_environment.global_rank()  # type: ignore[attr-defined]
        return rank

    @property
    def local_rank(self) -> int:
        """This process's number on its host."""
        rank: int = self.cluster_environment.local_rank()  # type: ignore[attr-defined]
        return rank

    @property
    def world_size(self) -> int:
        """Processes in the job."""
        size: int = self.cluster_environment.world_size()  # type: ignore[attr-defined]
        return size

    @property
    def is_distributed(self) -> bool:
        """Whether metrics are to be reduced, and samplers to be replaced by distributed ones."""
        return self.world_size > 1

    @property
    def distributed_sampler_kwargs(self) -> Dict[str, Any]:
        """The arguments that Lightning passes to ``DistributedSampler``."""
        return {"num_replicas": self.world_size, "rank": self.global_rank}

    # ---- set-up ----

    def model_to_device(self) -> None:
        """Moves the model to this process's device."""
        self.model.to(self.root_device)  # type: ignore[attr-defined]

    def _setup_model(self, model: torch.nn.Module) -> torch.nn.Module:
        if self._layer_sync is not None:  # type: ignore[attr-defined]
            # Lightning's own for sync_batchnorm=True puts in layers of torch.distributed.
            if type(self._layer_sync).__name__ == "TorchSyncBatchNorm":  # type: ignore[attr-defined]
                self._normalised = batch_norm.synchronise(model)
            else:
                model = self._layer_sync.apply(model)  # type: ignore[attr-defined]
        broadcast_module(model)
        exchange.share_metrics(model)
        return model

    def setup(self, trainer: Any) -> None:
        """Moves, converts and broadcasts the model, and sees to its gradients if it is to be trained."""
        super().setup(trainer)  # type: ignore[misc]
        if trainer.state.fn == "fit":
            self._reducer = self._make_reducer()

    def _make_reducer(self) -> Any:
        are_wrapped = [isinstance(each, _DistributedOptimizer) for each in self.optimizers]  # type: ignore[attr-defined]
        if any(are_wrapped) and not all(are_wrapped):
            plain = are_wrapped.index(False)
            name = type(self.optimizers[plain]).__name__  # type: ignore[attr-defined]
            raise ValueError(
                f"optimizer {plain} of configure_optimizers(), {name}, is plain, and others are wrapped in "
                "hvd.DistributedOptimizer: the ranks would not exchange its gradients; wrap all of them, or none"
            )
        named = list(self.model.named_parameters())  # type: ignore[attr-defined]
        if any(are_wrapped) or not named:
            return None  # wrapped in configure_optimizers(): they reduce themselves
        # It steps nothing: only its reductions are wanted. All parameters are in it, so those that are frozen now and
        # not later, or come to an optimizer later, are reduced when they have gradients.
        silent = torch.optim.SGD([each for _, each in named], lr=0.0)
        return hvd.DistributedOptimizer(silent, named_parameters=named, **self._reduction_options)

    def on_train_start(self) -> None:
        """Lets an epoch that was interrupted end after one more batch at least. With more members it may have fewer
        batches than were trained already, and Lightning would begin it again."""
        super().on_train_start()  # type: ignore[misc]
        loop = self.lightning_module.trainer.fit_loop  # type: ignore[attr-defined]
        progress = loop.epoch_loop.batch_progress
        if loop.restarting and not progress.is_last_batch:
            # Newer versions add the batch in whose end the state was saved, and older ones would repeat it.
            added_later = getattr(loop.epoch_loop, "restarted_on_train_batch_end", False)
            progress.current.completed = min(progress.current.processed, loop.max_batches - 1) - added_later
            loop._restarting = False  # at this epoch's end, all schedulers are due as usual

    def teardown(self) -> None:
        """Forgets what belonged to this run."""
        if self._reducer is not None:
            self._reducer.let_go()  # it may live on in a traceback, and the module be trained by the next
            self._reducer = None
            self._are_sums = False
        batch_norm.put_back(self._normalised)
        self._normalised = []
        super().teardown()  # type: ignore[misc]

    # ---- gradients ----

    @contextlib.contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        """Inside, gradients add up on this rank; Lightning uses it for all but the last batch of an accumulation."""
        before, self._accumulating = self._accumulating, True
        try:
            yield
        finally:
            self._accumulating = before

    def pre_backward(self, closure_loss: torch.Tensor) -> None:
        """With two passes to wait for, none is due after one. The sums of an earlier call of ``manual_backward`` are
        divided, because they are added up once more."""
        if self._reducer is None:
            return
        self._reducer.set_backward_passes_per_step(2 if self._accumulating else 1)
        if self._are_sums:
            for each in self._reducer.param_groups[0]["params"]:
                if each.grad is not None and each.requires_grad:
                    each.grad.div_(hvd.size())
        self._are_sums = False

    def post_backward(self, closure_loss: torch.Tensor) -> None:
        """Gradients are averaged over all ranks when this returns; clipping and hooks come after it."""
        if self._reducer is not None and not self._accumulating:
            self._reducer.synchronize()
            self._are_sums = self._reduction_options.get("op") == hvd.Sum

    def optimizer_step(self, optimizer: Any, closure: Callable[[], Any], model: Any = None, **kwargs: Any) -> Any:
        """Steps. L-BFGS sees the loss of all ranks, so that all call the closure equally often."""

        def computed() -> Any:
            return self._reducer.reduced_loss(closure())

        decides_by_loss = self._reducer is not None and isinstance(optimizer, torch.optim.LBFGS)
        chosen = computed if decides_by_loss else closure
        return super().optimizer_step(optimizer, chosen, model, **kwargs)  # type: ignore[misc]

    # ---- collectives ----

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        """Reduces a tensor over all ranks, or over a process set. Returns a value that is not a tensor unchanged."""
        return exchange.reduced(tensor, group, reduce_op)

    def all_gather(self, tensor: torch.Tensor, group: Any = None, sync_grads: bool = False) -> torch.Tensor:
        """All ranks' tensors, stacked along a new first dimension."""
        return exchange.stacked(tensor, group, sync_grads)

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        """Gives one rank's object to all."""
        return hvd.broadcast_object(obj, src, name="lightning.broadcast")

    def barrier(self, name: Optional[str] = None) -> None:
        """Waits until all ranks have come here."""
        hvd.barrier()

    # ---- checkpoints ----

    def load_checkpoint(self, checkpoint_path: Any, **kwargs: Any) -> Any:
        """From each rank's own disk where all have the file; else rank 0 reads it and gives it to the others."""
        load = super().load_checkpoint  # type: ignore[misc]
        if self.reduce_boolean_decision(os.path.exists(checkpoint_path)):  # type: ignore[attr-defined]
            return load(checkpoint_path, **kwargs)
        content, problem = None, None
        if self.global_rank == 0:
            try:
                content = load(checkpoint_path, **kwargs)
            except Exception as failed:
                problem = failed
        content, problem = hvd.broadcast_object((content, problem), 0, name="lightning.checkpoint")
        if problem is not None:
            raise problem
        return content
