"""Compares an allreduce between two hosts with a raw TCP stream, on a network of known speed."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from namespaces import Hosts, why_not

from benchmarks.report import machine, milliseconds, row, verdict

RATE = "1gbit"
BYTES = 64 << 20
STREAM_SHARE_WANTED = 1.06  # of the time of a raw stream that moves what an allreduce must
HALF_WANTED = 0.54  # fp16: half the bytes, with the same allowance

# Each round takes three measurements, one after another:
# - a raw TCP stream from rank 0 to rank 1, of as many bytes as each rank of an allreduce must send: 2 (N - 1) / N of
#   the tensor
# - the allreduce
# - the allreduce in fp16
WORKER = """
import json, os, socket, time

hvd.init()
rank, size, elements, rounds = hvd.rank(), hvd.size(), {elements}, {rounds}
assert size == 2
tensor = torch.ones(elements)
payload = memoryview(bytearray(2 * (size - 1) * 4 * elements // size))
address = "{address}"
if rank == 1:
    listener = socket.create_server((address, 0))
    port = torch.tensor([listener.getsockname()[1]])
else:
    port = torch.tensor([0])
port = int(hvd.broadcast(port, 1))
peer = listener.accept()[0] if rank == 1 else socket.create_connection((address, port), timeout=60)
peer.settimeout(120)

def stream():
    if rank == 0:
        peer.sendall(payload)
        assert peer.recv(1) == b"."
    else:
        at = 0
        while at < len(payload):
            at += peer.recv_into(payload[at:])
        peer.sendall(b".")

def timed(work):
    hvd.barrier()
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin

works = {{
    "stream": stream,
    "allreduce": lambda: hvd.allreduce_(tensor, op=hvd.Average, name="float32"),
    "fp16": lambda: hvd.allreduce(tensor, op=hvd.Average, name="fp16", compression=hvd.Compression.fp16),
}}
taken = {{name: [] for name in works}}
for round in range(rounds + 1):
    for name, work in works.items():
        seconds = timed(work)
        if round > 0:
            taken[name].append(seconds)
    print("round", round, flush=True)
assert bool((tensor == 1).all())
print("taken", json.dumps(taken), flush=True)
hvd.shutdown()
"""


@dataclass(frozen=True)
class Network:
    """Seconds by round."""

    stream: list[float]
    allreduce: list[float]
    fp16: list[float]

    def share(self, ours: list[float]) -> float:
        """Median over the rounds of a time divided by the stream's time in the same round."""
        return statistics.median(mine / raw for mine, raw in zip(ours, self.stream))


def measure(rounds: int) -> Network:
    """Makes two hosts, measures, and removes them."""
    reason = why_not()
    if reason:
        sys.exit(f"bench: {reason}")
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as folder:
        hosts = Hosts(2, Path(folder))
        try:
            hosts.make()
            hosts.limit(RATE)
            workers = hosts.job(WORKER.format(elements=BYTES // 4, rounds=rounds, address=hosts.addresses[1]))
            for round in range(rounds + 1):
                workers[0].read_until(rf"^round {round}\n")
                print(f"bench: two hosts at {RATE}: round {round} of {rounds}", file=sys.stderr)
            taken = json.loads(workers[0].read_until(r"^taken (.*)\n").group(1))
            for worker in workers:
                worker.end()
        finally:
            hosts.remove()
    return Network(taken["stream"], taken["allreduce"], taken["fp16"])


def markdown(measured: Network) -> str:
    """The table."""

    def line(work: str, seconds: list[float], wanted: float | None) -> str:
        share = measured.share(seconds)
        low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
        time = f"{milliseconds(middle)} ± {milliseconds((high - low) / 2)}"
        if wanted is None:
            return row(work, time, "1", "")
        return row(work, time, verdict(f"{share:.3g}", share <= wanted), f"≤ {wanted:g}")

    lines = [
        row(f"2 hosts, {RATE}, {BYTES >> 20} MiB", "ms", "share of the stream", "wanted"),
        row("---", "---", "---", "---"),
        line("raw TCP stream", measured.stream, None),
        line("allreduce", measured.allreduce, STREAM_SHARE_WANTED),
        line("allreduce, fp16", measured.fp16, HALF_WANTED),
    ]
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    return "\n".join([f"Measured {today} on {machine()}; {len(measured.stream)} rounds.", "", *lines]) + "\n"
