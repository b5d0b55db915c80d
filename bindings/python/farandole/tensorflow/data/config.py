"""The description of a compute job, which its training job reads, usually from a file."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Tuple

from farandole.runner.common.service.compute_service import ComputeClient
from farandole.runner.common.util.network import Addresses
from farandole.runner.common.util.timeout import Timeout

COMPUTE, TRAINING = SIDES = ("compute", "training")
"""The job that runs the dispatchers."""

_FILE_TIMEOUT_VARIABLE = "HOROVOD_START_TIMEOUT"
_FILE_TIMEOUT_S = 600.0
"""The longest wait for a file, unless the variable is set: a cluster may start the compute job after the other one."""
_POLL_S = 0.1


@dataclass(frozen=True)
class TfDataServiceConfig:
    """A compute job: its dispatchers and workers, and the addresses and the key of its compute service.

    ``ValueError`` if a number is below 1, or the side is neither "compute" nor "training".
    """

    dispatchers: int
    workers_per_dispatcher: int
    dispatcher_side: str
    """The job that runs the dispatchers: "compute" or "training"."""
    addresses: Mapping[str, List[Tuple[str, int]]]
    """For each interface of the compute service, its addresses and ports."""
    key: bytes = field(repr=False)
    """The key of the compute service. Its holders can end the job and run code in it."""
    timeout: int = 60
    """The longest time in seconds until the dispatchers and workers have started."""

    def __post_init__(self) -> None:
        for name in ("dispatchers", "workers_per_dispatcher", "timeout"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, and is {getattr(self, name)}")
        if self.dispatcher_side not in SIDES:
            raise ValueError(f"dispatcher_side must be one of {', '.join(SIDES)}, and is {self.dispatcher_side!r}")

    def compute_client(self, verbose: int = 1) -> ComputeClient:
        """A client of the compute service; ``NoValidAddressesFound`` if it does not answer, or has another key."""
        return ComputeClient(dict(self.addresses), self.key, verbose)

    def to_dict(self) -> Mapping[str, Any]:
        """The fields as values that JSON has. The key is in hexadecimal digits."""
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {**values, "addresses": dict(self.addresses), "key": self.key.hex()}

    @staticmethod
    def from_dict(config: Mapping[str, Any]) -> TfDataServiceConfig:
        """The config whose ``to_dict()`` has these values; ``ValueError`` if they are no such config."""
        names = {each.name for each in dataclasses.fields(TfDataServiceConfig)}
        missing, unknown = names - {"timeout"} - set(config), set(config) - names
        if missing or unknown:
            raise ValueError(
                f"a config of the data service has the fields {', '.join(sorted(names))}; missing are: "
                f"{', '.join(sorted(missing)) or 'none'}; unknown are: {', '.join(sorted(unknown)) or 'none'}"
            )
        values: Dict[str, Any] = {**config, "key": bytes.fromhex(config["key"])}
        values["addresses"] = _addresses_of(config["addresses"])
        return TfDataServiceConfig(**values)

    def write(self, filename: str) -> None:
        """Writes the config as JSON. A reader finds the whole content, because the file is renamed when it is complete.
        Only this user can read it (mode 0600), because it has the key.
        """
        path = os.path.abspath(filename)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=os.path.dirname(path))
        try:
            with open(descriptor, "w", encoding="utf-8") as stream:
                json.dump(self.to_dict(), stream)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise

    @staticmethod
    def read(filename: str, wait_for_file_creation: bool = False) -> TfDataServiceConfig:
        """Reads a config that ``write()`` has written; ``ValueError`` if the file has another content.

        :param wait_for_file_creation: waits until the file exists; ``TimeoutException`` after 600 seconds, or after the
            seconds that the variable HOROVOD_START_TIMEOUT sets
        """
        if wait_for_file_creation:
            _wait_for_file(filename)
        with open(filename, encoding="utf-8") as stream:
            content = stream.read()
        try:
            return TfDataServiceConfig.from_dict(json.loads(content))
        except (ValueError, TypeError, AttributeError, KeyError) as problem:
            raise ValueError(
                f"{filename} is no config of the data service: {problem}; the compute job writes it at its start"
            ) from problem


def _wait_for_file(filename: str) -> None:
    try:
        limit_s = float(os.environ.get(_FILE_TIMEOUT_VARIABLE, _FILE_TIMEOUT_S))
    except ValueError as problem:
        raise ValueError(
            f"{_FILE_TIMEOUT_VARIABLE} must be a number of seconds, and is {os.environ[_FILE_TIMEOUT_VARIABLE]!r}"
        ) from problem
    deadline = Timeout(
        limit_s,
        "{activity} did not appear within {timeout:g} s; check that the compute job runs and writes this file, on a "
        f"file system that both jobs have, or set {_FILE_TIMEOUT_VARIABLE} to a longer time",
    )
    while not os.path.exists(filename):
        deadline.check_time_out_for(os.path.abspath(filename))
        time.sleep(min(_POLL_S, deadline.remaining() + 0.001))


def _addresses_of(content: Any) -> Addresses:
    """JSON has lists in place of tuples."""
    return {interface: [(str(ip), int(port)) for ip, port in each] for interface, each in content.items()}
