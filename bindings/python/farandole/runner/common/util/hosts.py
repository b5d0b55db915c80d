"""Hosts, their slots, and the ranks that they get."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

# A name must not begin with a dash: it becomes an argument of ssh, which would take it for an option.
_NAME = r"(?P<name>(?!-)[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.%]+\])"
_HOST = re.compile(rf"{_NAME}:(?P<slots>[0-9]+)")
_LINE = re.compile(rf"{_NAME}(:(?P<slots>[0-9]+))?(?P<keywords>(\s+[\w-]+\s*=\s*[0-9]+)*)")

MOST_SLOTS = 65536
"""Of one host; `most_slots` in elastic/host_slots.hpp."""


@dataclass
class HostInfo:
    """A host and the number of workers that it can run."""

    hostname: str
    slots: int

    @staticmethod
    def from_string(host_string: str) -> HostInfo:
        """Of "name:slots"."""
        found = _HOST.fullmatch(host_string.strip())
        if found is None or int(found["slots"]) > MOST_SLOTS:
            raise ValueError(f"'{host_string}' is no host and its slots; write name:slots, as in localhost:4")
        return HostInfo(found["name"].strip("[]"), int(found["slots"]))


@dataclass
class SlotInfo:
    """The place of one worker in a job."""

    hostname: Optional[str]
    rank: int
    local_rank: int
    cross_rank: int
    size: int
    local_size: int
    cross_size: int

    def to_response_string(self) -> str:
        """The numbers as text, separated by commas."""
        numbers = (self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size)
        return ",".join(map(str, numbers))


INVALID_SLOT_INFO = SlotInfo(None, -1, -1, -1, -1, -1, -1)
"""The place of a worker that has none."""


def parse_host_files(filename: str) -> str:
    """The hosts of a file with lines "name slots=N", "name slots=N max_slots=M" or "name:N", as "name:N,name:N"."""
    hosts = []
    with open(filename, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            line = line.partition("#")[0].strip()
            if line:
                hosts.append(_host_of_line(filename, number, line))
    _require_few_slots([HostInfo.from_string(each) for each in hosts])
    return ",".join(hosts)


def _host_of_line(filename: str, number: int, line: str) -> str:
    """Reads a line as `read_host_line` in tools/farandole/hosts.cpp does."""
    found = _LINE.fullmatch(line)
    numbers: Dict[str, List[int]] = {"slots": [], "max_slots": []}
    if found and found["slots"]:
        numbers["slots"].append(int(found["slots"]))
    for keyword, value in re.findall(r"([\w-]+)\s*=\s*([0-9]+)", found["keywords"] if found else ""):
        known = numbers.get("max_slots" if keyword == "max-slots" else keyword)
        if known is None:
            raise ValueError(
                f"host file {filename}, line {number}: '{line}' has the unknown keyword '{keyword}'; the keywords are "
                "slots and max_slots"
            )
        known.append(int(value))
    is_too_large = max(numbers["slots"] + numbers["max_slots"], default=0) > MOST_SLOTS
    if found is None or len(numbers["slots"]) != 1 or len(numbers["max_slots"]) > 1 or is_too_large:
        raise ValueError(f"host file {filename}, line {number}: '{line}' is not of the form: name slots=number")
    if numbers["max_slots"] and numbers["max_slots"] < numbers["slots"]:
        raise ValueError(f"host file {filename}, line {number}: '{line}' has fewer max_slots than slots")
    return f"{found['name']}:{numbers['slots'][0]}"


def parse_hosts_and_slots(hosts: str) -> Tuple[List[str], Dict[str, int]]:
    """The names of hosts in their order, and the slots of each."""
    found = _slots_by_name(parse_hosts(hosts))
    return list(found), found


def parse_hosts(hosts_string: str) -> List[HostInfo]:
    """The hosts of "name:slots,name:slots"."""
    hosts = [HostInfo.from_string(each) for each in hosts_string.split(",")]
    _require_few_slots(hosts)
    return hosts


def _require_few_slots(hosts: Sequence[HostInfo]) -> None:
    """``ValueError`` if a host that is named several times has too many slots."""
    for name, slots in _slots_by_name(hosts).items():
        if slots > MOST_SLOTS:
            raise ValueError(f"host '{name}' has more than {MOST_SLOTS} slots altogether; name it once, with fewer")


def _slots_by_name(hosts: Sequence[Any]) -> Dict[str, int]:
    """The slots of each host, added if it is named several times."""
    slots: Dict[str, int] = {}
    for each in hosts:
        slots[each.hostname] = slots.get(each.hostname, 0) + each.slots
    return slots


def get_host_assignments(hosts: Sequence[Any], min_num_proc: int, max_num_proc: Optional[int] = None) -> List[SlotInfo]:
    """The places of workers: hosts in the given order, their slots in order, at most ``max_num_proc`` of them. The
    slots of a host that is named several times are added.

    ``ValueError`` if there are fewer slots than ``min_num_proc``.
    """
    counts = _slots_by_name(hosts)
    places = [(name, local_rank) for name, count in counts.items() for local_rank in range(count)][:max_num_proc]
    if len(places) < min_num_proc:
        raise ValueError(
            f"{min_num_proc} processes were asked for, but the hosts have only {len(places)} slots; give them more, or "
            "ask for fewer"
        )
    local_sizes = Counter(name for name, _ in places)
    cross_sizes = Counter(local_rank for _, local_rank in places)
    seen: Counter[int] = Counter()
    slots = []
    for rank, (name, local_rank) in enumerate(places):
        cross = (seen[local_rank], cross_sizes[local_rank])
        seen[local_rank] += 1
        slots.append(SlotInfo(name, rank, local_rank, cross[0], len(places), local_sizes[name], cross[1]))
    return slots
