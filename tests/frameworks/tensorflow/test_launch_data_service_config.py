"""The names of the data service, its config file, and options that do not fit together."""

from __future__ import annotations

import inspect
import json
import os
import stat
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from data_service_configs import config_with
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.util.threads import in_thread

SIGNATURES = {
    "tensorflow.data.compute_service": {
        "TfDataServiceConfig.compute_client": "(self, verbose=1)",
        "TfDataServiceConfig.to_dict": "(self)",
        "TfDataServiceConfig.from_dict": "(config)",
        "TfDataServiceConfig.write": "(self, filename)",
        "TfDataServiceConfig.read": "(filename, wait_for_file_creation=False)",
        "tf_data_service": "(compute_config, rank)",
        "send_to_data_service": "(dataset, compute_config, rank, size=None, processing_mode='distributed_epoch', "
        "reuse_dataset=False, round_robin=False)",
        "compute_worker_fn": "(compute_config)",
    },
    "tensorflow.data.compute_worker": {"main": "(dispatchers, dispatcher_side, configfile, timeout)"},
    "runner.common.service.compute_service": {
        "RegisterDispatcherRequest": "(dispatcher_id, dispatcher_address)",
        "WaitForDispatcherRegistrationRequest": "(dispatcher_id, timeout)",
        "WaitForDispatcherRegistrationResponse": "(dispatcher_address)",
        "RegisterDispatcherWorkerRequest": "(dispatcher_id, worker_id)",
        "WaitForDispatcherWorkerRegistrationRequest": "(dispatcher_id, timeout)",
        "ShutdownRequest": "()",
        "ComputeService": "(dispatchers, workers_per_dispatcher, key, nics=None)",
        "ComputeService.shutdown": "(self)",
        "ComputeClient": "(compute_addresses, key, verbose=1)",
        "ComputeClient.register_dispatcher": "(self, dispatcher_id, dispatcher_address)",
        "ComputeClient.wait_for_dispatcher_registration": "(self, dispatcher_id, timeout)",
        "ComputeClient.register_worker_for_dispatcher": "(self, dispatcher_id, worker_id)",
        "ComputeClient.wait_for_dispatcher_worker_registration": "(self, dispatcher_id, timeout)",
        "ComputeClient.shutdown": "(self)",
        "ComputeClient.wait_for_shutdown": "(self)",
    },
}
"""Parameters and defaults of the public interface."""


def parameters_of(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    plain = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return str(inspect.Signature(plain))


@pytest.mark.parametrize("module", SIGNATURES)
def test_the_names_have_the_signatures_of_the_interface(module: str) -> None:
    loaded = __import__(f"horovod.{module}", fromlist=["name"])
    found = {}
    for name in SIGNATURES[module]:
        value = loaded
        for part in name.split("."):
            value = getattr(value, part)
        found[name] = parameters_of(value)
    assert found == SIGNATURES[module]


def test_a_config_is_equal_after_it_is_written_and_read(tmp_path: Path) -> None:
    config, path = config_with(), tmp_path / "compute.json"
    path.write_text("an older file, longer than the next one" * 100)
    config.write(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["key"] == bytes(range(32)).hex() == config.to_dict()["key"]
    assert type(config).read(str(path)) == config == type(config).from_dict(config.to_dict())
    assert os.listdir(tmp_path) == ["compute.json"]
    assert bytes(range(32)).hex() not in repr(config) and "key" not in repr(config)
    without_timeout = {name: value for name, value in config.to_dict().items() if name != "timeout"}
    assert type(config).from_dict(without_timeout).timeout == 60
    with pytest.raises(AttributeError):
        config.timeout = 8


def test_a_config_that_cannot_be_written_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk is full"):
        config_with().write(str(tmp_path / "compute.json"))
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError, match="absent"):
        config_with().write(str(tmp_path / "absent" / "compute.json"))


def test_a_reader_waits_for_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, path = config_with(), tmp_path / "compute.json"
    found: List[Any] = []
    reader = in_thread(lambda: found.append(type(config).read(str(path), wait_for_file_creation=True)))
    config.write(str(path))
    reader.join(240)
    assert found == [config]
    with pytest.raises(FileNotFoundError):
        type(config).read(str(tmp_path / "other"))
    monkeypatch.setenv("HOROVOD_START_TIMEOUT", "0.2")
    with pytest.raises(TimeoutException, match=rf"{tmp_path}/other did not appear within 0.2 s; check that"):
        type(config).read(str(tmp_path / "other"), wait_for_file_creation=True)
    monkeypatch.setenv("HOROVOD_START_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="HOROVOD_START_TIMEOUT must be a number of seconds, and is 'soon'"):
        type(config).read(str(tmp_path / "other"), wait_for_file_creation=True)


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "is no config of the data service"),
        ("[1]", "is no config of the data service"),
        ('{"dispatchers": 1, "color": 2}', "missing are: addresses, dispatcher_side, key, .*; unknown are: color"),
        (json.dumps({"key": 5}), "missing are"),
    ],
)
def test_a_file_with_other_content_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "compute.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=rf"{path}.*{message}"):
        type(config_with()).read(str(path))


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"dispatchers": 0}, "dispatchers must be at least 1, and is 0"),
        ({"workers_per_dispatcher": -1}, "workers_per_dispatcher must be at least 1, and is -1"),
        ({"timeout": 0}, "timeout must be at least 1, and is 0"),
        ({"dispatcher_side": "left"}, "dispatcher_side must be one of compute, training, and is 'left'"),
    ],
)
def test_a_config_out_of_range_is_refused(fields: Dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config_with(**fields)


def test_options_that_do_not_fit_are_refused() -> None:
    import tensorflow as tf

    dataset = tf.data.Dataset.range(3)
    with pytest.raises(RuntimeError, match="the compute job was started with dispatchers on the training side"):
        dataset.send_to_data_service(config_with(), 0)
    config = config_with(dispatcher_side="compute")
    with pytest.raises(ValueError, match="round_robin=True needs reuse_dataset=True"):
        dataset.send_to_data_service(config, 0, 2, round_robin=True)
    for size in (None, 1):
        with pytest.raises(ValueError, match=f"the size of the training job, above its rank 1; size is {size}"):
            dataset.send_to_data_service(config, 1, size, reuse_dataset=True, round_robin=True)
