"""Whole Lightning jobs: the example, the manual's snippet and a lost member; and imports in separate processes."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import List, Tuple

import pytest
from elastic_jobs import Hosts
from launched import DEADLINE_S, Job, clean_environment, needs_launcher, run_script, write_script

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"

pytestmark = needs_launcher


@pytest.mark.slow
def test_the_mnist_example_reaches_50_percent_accuracy() -> None:
    job = Job(["-np", "2", sys.executable, str(EXAMPLES / "lightning_mnist.py"), "--steps", "30", "--epochs", "1"])
    assert job.end() == 0, job.text
    assert "2 workers, 30 steps" in job.text
    accuracy = float(re.findall(r"accuracy on the held-out images: ([\d.]+)", job.text)[0])
    assert accuracy > 0.5, job.text


# The snippet of the manual, with "devices" for "gpus" as in Lightning 2, and with data.
SNIPPET = """
import {package} as pl
import torch

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, index):
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

# train Horovod on GPU (number of GPUs / machines provided on command-line)
trainer = pl.Trainer(accelerator='horovod', devices=1, **{quiet})
# train Horovod on CPU (number of processes / machines provided on command-line)
trainer = pl.Trainer(accelerator='horovod', **{quiet})
trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=2))
print("RANK", trainer.global_rank, "of", trainer.world_size, "steps", trainer.global_step, flush=True)
"""
QUIET = '{"max_epochs": 1, "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}'


@pytest.mark.slow
@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_the_manuals_snippet_trains_on_two_ranks(package: str, tmp_path: Path) -> None:
    done = run_script(2, tmp_path, SNIPPET.format(package=package, quiet=QUIET))
    assert done.returncode == 0, done.stdout
    assert sorted(re.findall(r"RANK (\d) of 2 steps 2", done.stdout)) == ["0", "1"], done.stdout


ELASTIC = """
import os, signal
import horovod.lightning, horovod.torch as hvd, torch
import lightning.pytorch as pl

slot = int(os.environ["HOROVOD_RANK"])
hvd.init()

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(slot)
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, index):
        if slot == 1 and self.trainer.global_step == 12:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

model = Model()
state = horovod.lightning.LightningState()

@hvd.elastic.run
def train(state):
    trainer = pl.Trainer(strategy="horovod", max_epochs=4, logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, callbacks=[state.commit_every(5)])
    state.fit(trainer, model, torch.utils.data.DataLoader(torch.ones(32, 2), batch_size=2))
    return trainer

trainer = train(state)
rate = trainer.optimizers[0].param_groups[0]["lr"]
print(f"DONE slot {slot} of {hvd.size()} steps {trainer.global_step} epochs {trainer.current_epoch} "
      f"rate {rate:.6f}", flush=True)
print("VALUES", model.layer.weight.tolist(), trainer.optimizers[0].state_dict()["state"], flush=True)
"""
# A member that is alone waits in a step until another one is about to join.
JOINED = """
from farandole.common import membership

def await_member():
    print("WAITS", flush=True)
    while not membership.change().changes:
        pass
""" + ELASTIC.replace("slot == 1", "hvd.size() == 1").replace("step == 12", "step == {step}").replace(
    "os.kill(os.getpid(), signal.SIGKILL)", "await_member()"
)


def test_a_trainer_continues_without_a_lost_member(tmp_path: Path, jobs: List[Job]) -> None:
    script = write_script(tmp_path, ELASTIC)
    jobs.append(Job(["-np", "2", "--min-np", "1", "-H", "localhost:2", sys.executable, script]))
    jobs[-1].end()
    # Ten steps are committed, two of them in the second epoch. Alone, the member has 14 more steps in that epoch, and
    # 16 in each of the other two.
    found = re.findall(r"DONE slot 0 of 1 steps 56 epochs 4 rate ([\d.]+)", jobs[-1].text)
    assert found, jobs[-1].text
    assert float(found[0]) == pytest.approx(0.1 * 0.1**4, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "steps"), [(2, 5 + 3 + 3 * 8), (14, 15 + 1 + 3 * 8)])
def test_a_member_that_joins_has_the_state_of_the_trainer(
    step: int, steps: int, tmp_path: Path, jobs: List[Job]
) -> None:
    hosts = Hosts(tmp_path)
    hosts.print_lines("localhost:1")
    flags = ["-np", "1", "--max-np", "2", "--host-discovery-script", str(hosts.script)]
    jobs.append(Job([*flags, sys.executable, write_script(tmp_path, JOINED.replace("{step}", str(step)))]))
    jobs[-1].read_until(lambda text: "WAITS" in text)
    hosts.print_lines("localhost:2")
    assert jobs[-1].end() == 0, jobs[-1].text
    # The members change after five or fifteen steps. Together they have eight in an epoch, and end that one.
    done = re.findall(rf"DONE slot \d of 2 steps {steps} epochs 4 rate 0.000010", jobs[-1].text)
    assert len(done) == 2, jobs[-1].text
    values = re.findall(r"VALUES (.*)", jobs[-1].text)
    assert len(values) == 2 and len(set(values)) == 1, jobs[-1].text


def test_without_lightning_the_import_names_the_package_to_install() -> None:
    script = "import sys; sys.modules['lightning'] = sys.modules['pytorch_lightning'] = None; import horovod.lightning"
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert "ImportError: farandole.lightning needs Lightning: pip install lightning" in done.stderr


def run_python(script: str, *options: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a script in a separate process, with ``path`` on PYTHONPATH."""
    return subprocess.run(
        [sys.executable, *options, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={**clean_environment(), "PYTHONPATH": path},
    )


ORDERS = """
import importlib.util, sys
for name in {order}:
    __import__(name)
# A library that asks whether Lightning is installed.
for name in ("lightning.pytorch", "pytorch_lightning"):
    assert importlib.util.find_spec(name) is not None
import lightning.pytorch, pytorch_lightning
for package in (lightning.pytorch, pytorch_lightning):
    for arguments in (dict(strategy="farandole"), dict(strategy="horovod"), dict(accelerator="horovod")):
        trainer = package.Trainer(**arguments, logger=False, enable_checkpointing=False)
        assert type(trainer.strategy).__name__ == "FarandoleStrategy", (package, arguments)
        assert isinstance(trainer.strategy, package.strategies.ParallelStrategy)
    assert package.__spec__.loader is package.__loader__ and "farandole" not in type(package.__loader__).__module__
    assert "horovod" in package.strategies.StrategyRegistry
assert [type(each).__module__ for each in sys.meta_path].count("farandole._imports") == 1
print("SERVED")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [
        ("horovod.torch",),
        ("horovod.lightning",),
        ("lightning.pytorch", "horovod.torch"),
        ("pytorch_lightning", "horovod.lightning"),
    ],
    ids=" ".join,
)
def test_lightning_and_farandole_may_be_imported_in_any_order(order: Tuple[str, ...]) -> None:
    # Python without `site` reads no .pth files, so only the imports register the strategy.
    done = run_python(ORDERS.format(order=order), "-S", path=sysconfig.get_path("purelib"))
    assert done.returncode == 0 and "SERVED" in done.stdout, done.stderr


def test_lightning_alone_offers_the_strategy_and_other_programs_load_only_the_import_hook() -> None:
    done = run_python(ORDERS.format(order=()))
    assert done.returncode == 0 and "SERVED" in done.stdout, done.stderr
    loaded = run_python("import sys; print(sorted(each for each in sys.modules if each.startswith('farandole')))")
    assert loaded.stdout == "['farandole', 'farandole._imports']\n", loaded


def test_python_starts_without_output_after_the_package_is_removed(tmp_path: Path) -> None:
    installed = Path(sysconfig.get_path("purelib")) / "farandole_lightning.pth"
    (tmp_path / installed.name).write_text(installed.read_text())
    script = f"import site, sys; sys.modules['farandole'] = None; site.addsitedir({str(tmp_path)!r}); print('STARTED')"
    done = run_python(script)
    assert done.stdout == "STARTED\n" and done.stderr == "", done


def test_an_incompatible_lightning_stays_usable_and_the_import_warns(tmp_path: Path) -> None:
    (tmp_path / "pytorch_lightning").mkdir()
    (tmp_path / "pytorch_lightning" / "__init__.py").write_text("works = True\n")
    done = run_python("import pytorch_lightning; print(pytorch_lightning.works)", path=str(tmp_path))
    assert done.stdout == "True\n" and 'Trainer(strategy="horovod") is not available' in done.stderr, done
