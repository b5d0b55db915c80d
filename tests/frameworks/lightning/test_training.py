"""Lightning's trainers, in both of its packages: on several ranks they train like one process on the whole batch."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any, Dict, List

import horovod.lightning
import horovod.torch as hvd
import pytest
import torch
from newer_versions import needs
from trained_module import BATCH, QUIET, SAMPLES, loader, module, network, samples, trainer

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def batches_of_all(size: int, epoch: int) -> List[torch.Tensor]:
    """The samples of all ranks together, by step: Lightning's samplers shuffle, and deal samples out one by one."""
    data = samples()
    if size == 1:
        return list(data.split(BATCH))
    shares = []
    for rank in range(size):
        sampler = torch.utils.data.DistributedSampler(data, size, rank)  # type: ignore[arg-type]
        sampler.set_epoch(epoch)
        shares.append(data[list(sampler)].split(BATCH))
    return [torch.cat(each) for each in zip(*shares)]


def alone(size: int, epochs: int = 2, clip: float = 0.0, accumulate: int = 1, normalised: bool = False) -> Any:
    """The layers after one process has trained them on the samples of all ranks."""
    torch.manual_seed(3)
    layers = network(normalised)
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.2, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for epoch in range(epochs):
        batches = batches_of_all(size, epoch)
        for first in range(0, len(batches), accumulate):
            optimizer.zero_grad()
            for batch in batches[first : first + accumulate]:
                (layers(batch).square().mean() / accumulate).backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(layers.parameters(), clip)
            optimizer.step()
        scheduler.step()
    return layers


def assert_same(model: Any, expected: torch.nn.Module, **close: float) -> None:
    for (name, value), other in zip(model.layers.state_dict().items(), expected.state_dict().values()):
        torch.testing.assert_close(value, other, msg=lambda text, name=name: f"{name}: {text}", **(close or {}))
    flat = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
    assert all(torch.equal(each, flat) for each in hvd.allgather(flat.unsqueeze(0), name="flat"))


@pytest.mark.parametrize(
    "names", [{}, {"strategy": "horovod"}, {"accelerator": "horovod", "strategy": "auto"}], ids=str
)
def test_a_trainer_on_several_ranks_trains_like_one_process(
    pl: Any, names: Dict[str, str], rank: int, size: int
) -> None:
    model = module(pl, seed=3 if rank == 0 else 4)  # all ranks receive rank 0's weights
    fitted = trainer(pl, **names)
    fitted.fit(model, loader())
    assert fitted.world_size == size and fitted.global_rank == rank and fitted.is_global_zero == (rank == 0)
    assert isinstance(fitted.strategy, horovod.lightning.classes_for(pl.__name__).strategy)
    sampler = fitted.train_dataloader.sampler
    if size > 1:
        assert (sampler.num_replicas, sampler.rank) == (size, rank)
    assert_same(model, alone(size), rtol=1e-4, atol=1e-5)
    steps = SAMPLES // size // BATCH
    assert fitted.global_step == 2 * steps and len(model.norms) == 2 * steps
    expected_sum = samples().sum() / (steps * size)
    torch.testing.assert_close(fitted.callback_metrics["sum"], expected_sum, rtol=1e-4, atol=1e-4)
    losses = hvd.allgather_object(float(fitted.callback_metrics["loss"]), "losses")
    assert all(each == losses[0] for each in losses)


@pytest.mark.parametrize(
    "options",
    [
        {"gradient_clip_val": 0.02},
        {"accumulate_grad_batches": 2},
        {"gradient_clip_val": 0.02, "accumulate_grad_batches": 3},
    ],
    ids=str,
)
def test_clipping_and_accumulation_use_averaged_gradients(pl: Any, options: Any, size: int) -> None:
    model = module(pl)
    trainer(pl, **options).fit(model, loader())
    expected = alone(size, 2, options.get("gradient_clip_val", 0.0), options.get("accumulate_grad_batches", 1))
    assert_same(model, expected, rtol=1e-4, atol=1e-5)
    norms = hvd.allgather_object(model.norms, "norms")
    assert all(each == norms[0] for each in norms)


def test_manual_optimization_trains_like_one_process(pl: Any, size: int) -> None:
    model = module(pl, automatic=False)
    trainer(pl, max_epochs=1).fit(model, loader())
    assert_same(model, alone(size, epochs=1), rtol=1e-4, atol=1e-5)


def test_gradients_of_two_backward_passes_are_summed_once(pl: Any, size: int) -> None:
    model = module(pl, automatic=False)

    def step(batch: torch.Tensor) -> None:
        optimizer = model.optimizers()
        optimizer.zero_grad()
        for half in batch.chunk(2):
            model.manual_backward(model.layers(half).square().mean() / 2)
        optimizer.step()

    model.training_step = step
    model.configure_optimizers = lambda: torch.optim.SGD(model.parameters(), lr=0.2 / size, momentum=0.9)
    strategy = horovod.lightning.classes_for(pl.__name__).strategy(op=hvd.Sum)
    trainer(pl, max_epochs=1, strategy=strategy).fit(model, loader())
    assert_same(model, alone(size, epochs=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("automatic", [True, False])
def test_lbfgs_calls_the_closure_as_often_as_in_one_process(pl: Any, automatic: bool, size: int) -> None:
    calls = {"ranks": 0, "one process": 0}

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        calls["ranks"] += 1
        return model.layers(batch).square().mean()

    def step_by_hand(batch: torch.Tensor) -> None:
        optimizer = model.optimizers()

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(batch)
            model.manual_backward(loss)
            return loss

        optimizer.step(closure)

    def made(layers: Any) -> Any:
        return torch.optim.LBFGS(layers.parameters(), max_iter=4, line_search_fn="strong_wolfe")

    model = module(pl, automatic=automatic)
    model.training_step = loss_of if automatic else step_by_hand
    model.configure_optimizers = lambda: made(model)
    trainer(pl, max_epochs=1, precision="64-true").fit(model, loader())

    torch.manual_seed(3)
    layers = network().double()
    reference = made(layers)

    def of_all(batch: torch.Tensor) -> torch.Tensor:
        calls["one process"] += 1
        reference.zero_grad()
        loss = layers(batch).square().mean()
        loss.backward()
        return loss

    for batch in batches_of_all(size, epoch=0):
        reference.step(functools.partial(of_all, batch.double()))
    assert calls["ranks"] == calls["one process"] > 0
    assert_same(model, layers, rtol=1e-4, atol=1e-6)


def test_synchronized_batch_normalization_trains_like_one_process(pl: Any, size: int) -> None:
    model = module(pl, normalised=True)
    trainer(pl, sync_batchnorm=True).fit(model, loader())
    assert_same(model, alone(size, normalised=True), rtol=1e-3, atol=1e-4)
    assert type(model.layers[1]) is torch.nn.BatchNorm1d


def test_evaluation_covers_every_sample(pl: Any, rank: int, size: int) -> None:
    model = module(pl)
    evaluating = trainer(pl)
    evaluating.validate(model, loader(), verbose=False)
    seen = model.seen.compute() if size > 1 else samples()[:, 0]
    torch.testing.assert_close(seen.sort().values, samples()[:, 0].sort().values)
    whole = model.layers(samples()).square().mean()
    torch.testing.assert_close(evaluating.callback_metrics["val"], whole.detach(), rtol=1e-4, atol=1e-5)
    predictions = torch.cat(evaluating.predict(model, loader()))
    assert predictions.shape == (SAMPLES // size, 2)


@needs("lightning", "2.6", "fit(weights_only=…)")
@pytest.mark.parametrize("everywhere", [True, False])
def test_a_checkpoint_is_written_once_and_resumed_on_all_ranks(
    pl: Any, everywhere: bool, tmp_path: Path, rank: int, size: int
) -> None:
    folder = Path(hvd.broadcast_object(str(tmp_path), name="folder"))
    saving = pl.callbacks.ModelCheckpoint(dirpath=folder / "kept", filename="first", save_last=False)
    first = trainer(pl, max_epochs=1, enable_checkpointing=True, callbacks=[saving])
    first.fit(module(pl), loader())
    assert [each.name for each in (folder / "kept").iterdir()] == ["first.ckpt"]
    assert saving.best_model_path == str(folder / "kept" / "first.ckpt")
    # A rank whose host has no such file gets the file that rank 0 reads.
    path = saving.best_model_path if everywhere or rank == 0 else str(tmp_path / "elsewhere.ckpt")
    resumed = module(pl, seed=9)
    second = trainer(pl, max_epochs=2)
    second.fit(resumed, loader(), ckpt_path=path, weights_only=False)
    assert second.current_epoch == 2
    assert_same(resumed, alone(size), rtol=1e-4, atol=1e-5)


@several_ranks
def test_a_checkpoint_that_no_rank_has_is_an_error_on_all_ranks(pl: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        trainer(pl).fit(module(pl), loader(), ckpt_path=str(tmp_path / "none.ckpt"))


def test_all_ranks_stop_training_when_one_rank_decides_to(pl: Any, rank: int, size: int) -> None:
    class Impatient(pl.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            wanted = trainer.global_step == 2 and trainer.global_rank == size - 1
            trainer.should_stop = trainer.strategy.reduce_boolean_decision(wanted, all=False)

    stopped = trainer(pl, max_epochs=5, callbacks=[Impatient()])
    stopped.fit(module(pl), loader())
    assert stopped.global_step == 2


def test_parameters_that_are_unfrozen_during_training_train_like_one_process(pl: Any, size: int) -> None:
    class Thawing(pl.callbacks.BaseFinetuning):  # type: ignore[misc]
        def freeze_before_training(self, model: Any) -> None:
            self.freeze(model.layers[0])

        def finetune_function(self, model: Any, epoch: int, optimizer: Any) -> None:
            if epoch == 1:
                self.unfreeze_and_add_param_group(model.layers[0], optimizer, lr=0.1)

    model = module(pl)
    model.on_before_optimizer_step = lambda optimizer: None
    model.configure_optimizers = lambda: torch.optim.SGD(
        [each for each in model.parameters() if each.requires_grad], lr=0.2
    )
    trainer(pl, callbacks=[Thawing()]).fit(model, loader())

    torch.manual_seed(3)
    layers = network()
    optimizer = torch.optim.SGD(layers[2].parameters(), lr=0.2)
    for epoch in range(2):
        if epoch == 1:
            optimizer.add_param_group({"params": layers[0].parameters(), "lr": 0.1})
        for batch in batches_of_all(size, epoch):
            optimizer.zero_grad()
            layers(batch).square().mean().backward()
            optimizer.step()
    assert_same(model, layers, rtol=1e-4, atol=1e-5)


def test_the_strategy_reduces_broadcasts_and_gathers(pl: Any, rank: int, size: int) -> None:
    strategy = trainer(pl).strategy
    own = torch.full((2,), float(rank), requires_grad=True)
    assert strategy.reduce(own)[0] == (size - 1) / 2
    assert strategy.reduce(own, reduce_op="max")[0] == size - 1
    assert strategy.reduce(own, reduce_op=torch.distributed.ReduceOp.SUM)[0] == size * (size - 1) / 2
    assert strategy.reduce("no tensor") == "no tensor"
    ranks, is_first = strategy.reduce(torch.tensor(rank)), strategy.reduce(torch.tensor(rank == 0))
    assert ranks.dtype == is_first.dtype == torch.float32
    assert (float(ranks), float(is_first)) == ((size - 1) / 2, pytest.approx(1 / size))
    assert strategy.reduce(torch.tensor([rank]), reduce_op="sum").dtype == torch.int64
    assert strategy.broadcast({"from": rank}, src=size - 1) == {"from": size - 1}
    gathered = strategy.all_gather(own, sync_grads=True)
    assert gathered.shape == (size, 2) and not strategy.all_gather(own).requires_grad
    (gathered * (rank + 1)).sum().backward()
    assert own.grad is not None and own.grad[0] == sum(range(1, size + 1))
    with pytest.raises(ValueError, match="reduce_op"):
        strategy.reduce(own, reduce_op="median")
    with pytest.raises(ValueError, match="process set"):
        strategy.reduce(own, group="some")


def test_the_strategy_accepts_the_options_of_the_distributed_optimizer(pl: Any, size: int) -> None:
    made = horovod.lightning.classes_for(pl.__name__).strategy
    with pytest.raises(ValueError, match="configure_optimizers"):
        made(op=hvd.Adasum)
    with pytest.raises(TypeError):
        made(compresion=hvd.Compression.fp16)
    model = module(pl)
    trainer(pl, strategy=made(compression=hvd.Compression.bf16, groups=2)).fit(model, loader())
    assert_same(model, alone(size), rtol=0.1, atol=0.05)


def test_an_optimizer_that_is_already_wrapped_reduces_its_gradients_itself(pl: Any, size: int) -> None:
    model = module(pl)
    model.on_before_optimizer_step = lambda optimizer: None

    def configure() -> Any:
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9), model.named_parameters()
        )
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]

    model.configure_optimizers = configure
    trainer(pl).fit(model, loader())
    assert_same(model, alone(size), rtol=1e-4, atol=1e-5)


@several_ranks
def test_a_plain_optimizer_beside_a_wrapped_one_is_refused(pl: Any) -> None:
    model = module(pl, automatic=False)
    wrapped = hvd.DistributedOptimizer(torch.optim.SGD(model.layers[0].parameters(), lr=0.2))
    model.configure_optimizers = lambda: [wrapped, torch.optim.Adam(model.layers[2].parameters())]
    with pytest.raises(ValueError, match=r"optimizer 1 of configure_optimizers\(\), Adam, .* wrap all of them"):
        trainer(pl).fit(model, loader())


@several_ranks
def test_numbers_of_devices_and_nodes_that_do_not_match_the_job_are_refused(pl: Any, size: int) -> None:
    with pytest.raises(ValueError, match=f"devices=7.*{size} process.*horovodrun -np 7"):
        trainer(pl, accelerator="cpu", devices=7).fit(module(pl), loader())
    trainer(pl, accelerator="cpu", devices=size, max_epochs=1).fit(module(pl), loader())
    with pytest.raises(ValueError, match="num_nodes=3"):
        trainer(pl, num_nodes=3).fit(module(pl), loader())


def test_lightning_refuses_the_gpus_option_and_unknown_accelerators(pl: Any) -> None:
    with pytest.raises(TypeError, match="gpus"):
        pl.Trainer(accelerator="horovod", gpus=1)
    with pytest.raises(ValueError, match="invalid accelerator"):
        pl.Trainer(accelerator="horowod")


@pytest.mark.parametrize("arguments", [{"strategy": "horovod"}, {"strategy": "Farandole"}, {"accelerator": "horovod"}])
def test_a_trainer_with_the_strategy_looks_for_no_other_launcher(
    pl: Any, arguments: Dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search initializes MPI where mpi4py is installed, and refuses jobs of Slurm that have ``--ntasks``."""
    environments = importlib.import_module(f"{pl.__name__}.plugins.environments")
    searched: List[str] = []
    for each in ("TorchElasticEnvironment", "SLURMEnvironment", "LSFEnvironment", "MPIEnvironment"):
        monkeypatch.setattr(getattr(environments, each), "detect", lambda each=each: bool(searched.append(each)))
    made = pl.Trainer(**arguments, **QUIET, enable_checkpointing=False)
    assert searched == []
    assert made._accelerator_connector.cluster_environment is made.strategy.cluster_environment
    assert made.world_size == hvd.size()


def test_the_strategys_environment_counts_and_other_plugins_are_kept(pl: Any) -> None:
    checkpoints = importlib.import_module(f"{pl.__name__}.plugins").TorchCheckpointIO()
    other = importlib.import_module(f"{pl.__name__}.plugins.environments").LightningEnvironment()
    for plugins in (checkpoints, [checkpoints], (checkpoints, other)):
        made = trainer(pl, strategy="horovod", plugins=plugins)
        assert made.strategy.checkpoint_io is checkpoints
        assert type(made.strategy.cluster_environment).__name__ == "FarandoleEnvironment"


def test_all_ranks_begin_with_the_buffers_and_extra_states_of_rank_0(pl: Any) -> None:
    class Model(type(module(pl))):  # type: ignore[misc]
        extra = [hvd.rank()] * (hvd.rank() + 1)

        def get_extra_state(self) -> Any:
            return torch.tensor(self.extra)

        def set_extra_state(self, state: Any) -> None:
            self.extra = state.tolist()

    model = Model()
    model.register_buffer("offset", torch.full((2,), float(hvd.rank())))
    trainer(pl, max_epochs=1).fit(model, loader())
    assert model.offset.tolist() == [0.0, 0.0] and model.extra == [0]


def test_an_older_lightning_is_refused(pl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    package = pl.__name__.partition(".")[0]
    monkeypatch.setattr(importlib.import_module(package), "__version__", "2.1.4")
    with pytest.raises(ImportError, match=r"needs Lightning 2\.2\.0 or later, and 2\.1\.4 is installed"):
        horovod.lightning.classes_for.__wrapped__(pl.__name__)
