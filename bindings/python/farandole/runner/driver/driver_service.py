"""The interfaces that the hosts of a job have in common, and the service with which tasks on the hosts register."""

from __future__ import annotations

import os
from typing import Any, Iterable, Optional, Sequence, Set

from farandole.runner.common.service import driver_service
from farandole.runner.common.util import network as services
from farandole.runner.util import network


class HorovodRunDriverService(driver_service.BasicDriverService):
    """The service of a launcher for a task on each host."""

    NAME = "horovod driver service"

    def __init__(self, num_hosts: int, key: bytes, nics: Optional[Iterable[str]]) -> None:
        super().__init__(num_hosts, self.NAME, key, nics)


class HorovodRunDriverClient(driver_service.BasicDriverClient):
    """A task's client of that service."""

    def __init__(
        self, driver_addresses: services.Addresses, key: bytes, verbose: int, match_intf: bool = False
    ) -> None:
        super().__init__(HorovodRunDriverService.NAME, driver_addresses, key, verbose, match_intf)


def get_local_interfaces(settings: Any) -> Set[str]:
    """The interfaces of this host with the address 127.0.0.1, for jobs on this host alone."""
    if settings.verbose >= 2:
        print("All hosts are local, finding the interfaces with address 127.0.0.1", flush=True)
    names = network.get_local_intfs()
    found = {name for name in names if not settings.nics or name in settings.nics}
    if not found:
        raise ValueError(
            f"none of the interfaces {', '.join(sorted(settings.nics or ()))} has the address 127.0.0.1; the interface "
            f"that has it is {', '.join(sorted(names)) or 'missing: bring lo up'}"
        )
    if settings.verbose >= 2:
        print(f"Local interface found {' '.join(sorted(found))}", flush=True)
    return found


def get_common_interfaces(
    settings: Any,
    all_host_names: Sequence[str],
    remote_host_names: Optional[Sequence[str]] = None,
    fn_cache: Any = None,
) -> Set[str]:
    """The interfaces by which all hosts reach one another: those of the settings, or those that the launcher finds when
    it runs a worker on each host.

    :param remote_host_names: the hosts that are other machines; None: they are found
    :param fn_cache: not used: nothing is kept that could become outdated
    """
    if remote_host_names is None:
        remote_host_names = network.filter_local_addresses(all_host_names)
    if not remote_host_names:
        return get_local_interfaces(settings)
    if settings.nics:
        return set(settings.nics)
    from farandole.runner import gloo_run, launch_options
    from farandole.runner.functions.job import run_function

    arguments = gloo_run._arguments_of(settings, None)
    arguments.num_proc, arguments.output_filename = len(all_host_names), None
    arguments.hosts = launch_options.slot_on_each(all_host_names)
    arguments.remote_hosts = ",".join(remote_host_names)
    found = run_function(_interfaces_of_worker, (), {}, arguments)
    common = set.intersection(*map(set, found))
    if not common:
        of_hosts = "; ".join(f"{host}: {', '.join(names)}" for host, names in zip(all_host_names, found))
        raise RuntimeError(
            f"the hosts have no interface of the same name by which they reach one another ({of_hosts}); name "
            "interfaces or networks by --network-interfaces"
        )
    return common


def _interfaces_of_worker() -> Sequence[str]:
    return os.environ["NCCL_SOCKET_IFNAME"].split(",")
