"""The names below ``horovod.ray`` have the signatures that scripts expect (``interface.tsv``), and importing them loads
no framework."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from horovod.ray import RayExecutor
from horovod.ray.elastic import ElasticRayExecutor
from interface_rows import differences, rows_of

TABLE = Path(__file__).with_name("interface.tsv")


MODULES = sorted({row[0] for row in rows_of(TABLE)})
DIFFERENCES = {name: differences(importlib.import_module(f"horovod.ray.{name}"), TABLE, name) for name in MODULES}
"""Found before any actor is created: Ray adds a parameter to the methods of an actor's class."""


@pytest.mark.parametrize("module", DIFFERENCES)
def test_the_names_of_a_module_have_their_signatures(module: str) -> None:
    assert DIFFERENCES[module] == []


def test_the_table_is_complete() -> None:
    assert len(rows_of(TABLE)) == 103
    kinds = {"class", "function", "method", "property", "staticmethod", "classmethod"}
    assert {row[1] for row in rows_of(TABLE)} == kinds


def python(script: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script with more folders of modules in front."""
    begin = f"import sys; sys.path[:0] = {[str(each) for each in path]}\n"
    return subprocess.run(
        [sys.executable, "-c", begin + script], check=False, capture_output=True, text=True, timeout=240
    )


def test_importing_loads_no_framework_and_no_native_library() -> None:
    heavy = ["torch", "tensorflow", "jax", "mxnet", "farandole._native"]
    ran = python(
        f"import horovod.ray; print([name for name in {heavy} if name in sys.modules], horovod.ray.RayExecutor)"
    )
    assert ran.stdout.startswith("[] <class"), ran.stderr


def test_an_old_ray_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("__version__ = '2.4.0'\n")
    ran = python("import horovod.ray", tmp_path)
    expected = "ImportError: farandole.ray needs Ray 2.5 or later, and Ray 2.4.0 is installed: pip install 'ray>=2.5'"
    assert ran.stderr.splitlines()[-1] == expected


def test_a_missing_ray_is_named_and_other_modules_work(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ModuleNotFoundError(\"No module named 'ray'\")\n")
    ran = python("import horovod.runner\nprint('runner works')\nimport horovod.ray", tmp_path)
    assert ran.stdout == "runner works\n"
    last = "farandole.ray needs Ray, which cannot be imported (No module named 'ray'): pip install 'ray>=2.5'"
    assert ran.stderr.splitlines()[-1] == f"ImportError: {last}"


def test_the_spellings_of_the_manual_are_accepted() -> None:
    settings = RayExecutor.create_settings(verbose=True)
    assert (settings.verbose, settings.timeout_s, settings.placement_group_timeout_s) == (1, 30, 100)
    executor = RayExecutor(settings, num_workers=2, use_gpu=True, cpus_per_slot=3, gpus_per_slot=2)
    assert (executor.params.cpus_per_worker, executor.params.gpus_per_worker) == (3, 2)
    assert ElasticRayExecutor.create_settings(verbose=True).verbose
    with pytest.raises(TypeError, match="cpus_per_worker and cpus_per_slot are the same parameter"):
        RayExecutor(settings, num_workers=2, cpus_per_slot=3, cpus_per_worker=3)


def test_settings_hold_what_they_were_given(tmp_path: Path) -> None:
    identity = tmp_path / "identity"
    settings = RayExecutor.create_settings(5, str(identity), "the key\n", 7, nics="eth0")
    assert (settings.timeout_s, settings.placement_group_timeout_s, settings.nics) == (5, 7, ["eth0"])
    assert identity.read_text() == "the key\n"
    assert identity.stat().st_mode & 0o777 == 0o600
    RayExecutor.create_settings(ssh_identity_file=str(identity), ssh_str="another key")
    assert identity.read_text() == "the key\n"
    assert 0 < settings.start_timeout.remaining() <= 5
    assert repr(settings.key) not in repr(settings)
    with pytest.raises(ValueError, match="ssh_str is given without ssh_identity_file"):
        RayExecutor.create_settings(ssh_str="the key")


def test_old_names_of_elastic_settings_warn() -> None:
    with pytest.warns(DeprecationWarning, match="min_np is deprecated; use min_num_proc"):
        settings = ElasticRayExecutor.create_settings(min_np=2, cooldown_range=(1, 2))
    with pytest.warns(DeprecationWarning, match="max_np is deprecated; use max_num_proc"):
        settings.max_num_proc = ElasticRayExecutor.create_settings(max_np=4).max_num_proc
    assert (settings.min_num_proc, settings.max_num_proc, settings.cooldown_range) == (2, 4, (1, 2))
    with pytest.warns(DeprecationWarning, match="ElasticRayExecutor is deprecated; use RayExecutor"):
        ElasticRayExecutor(settings)
