"""A job whose members share no memory: all data goes over the network, with the results of one host."""

from __future__ import annotations

import re

from namespaces import Hosts

OPERATIONS = """
import farandole.numpy as hvd, ml_dtypes, numpy

hvd.init()
rank, size = hvd.rank(), hvd.size()

# Sums of small integers are exact in any order, so the script computes them itself.
for elements in (0, 1, 3, 1000, 300_001):
    base = numpy.arange(elements, dtype=numpy.float32) % 97
    result = hvd.allreduce(base + rank, op=hvd.Sum, name=f"sum.{elements}")
    assert numpy.array_equal(result, base * size + size * (size - 1) // 2), f"sum of {elements}"

for dtype in (numpy.uint8, numpy.int64, numpy.float16, ml_dtypes.bfloat16, numpy.float64):
    result = hvd.allreduce(numpy.full(5000, rank + 1, dtype), op=hvd.Max, name=f"max.{dtype.__name__}")
    assert result.dtype == dtype and numpy.array_equal(result, numpy.full(5000, size, dtype)), f"max of {dtype}"

# Every member rounds alike, so all members hold the same bits.
noise = numpy.random.default_rng(rank).standard_normal(100_003, numpy.float32)
averaged = hvd.allreduce(noise, op=hvd.Average, name="noise")
gathered = hvd.allgather(averaged.reshape(1, -1), name="noises")
assert all(row.tobytes() == averaged.tobytes() for row in gathered), "members hold different bits"

# The first dimensions differ, and one is empty.
rows = numpy.full((2 * rank, 7), rank, numpy.float32)
result = hvd.allgather(rows, name="rows")
expected = numpy.concatenate([numpy.full((2 * other, 7), other, numpy.float32) for other in range(size)])
assert numpy.array_equal(result, expected), "allgather"

for root in range(size):
    for elements in (1, 500_000):
        tensor = numpy.full(elements, rank, numpy.float32)
        result = hvd.broadcast(tensor, root, name=f"from.{root}.{elements}")
        assert numpy.array_equal(result, numpy.full(elements, root, numpy.float32)), f"broadcast from {root}"

# Many operations in flight, submitted in different orders.
names = [f"many.{number}" for number in range(100)]
handles = {}
for name in names if rank % 2 == 0 else reversed(names):
    value = float(name.split(".")[1]) + rank
    handles[name] = hvd.allreduce_async(numpy.full(257, value, numpy.float32), op=hvd.Sum, name=name)
for name in names:
    expected = float(name.split(".")[1]) * size + size * (size - 1) // 2
    assert numpy.array_equal(hvd.synchronize(handles[name]), numpy.full(257, expected, numpy.float32)), name

hvd.barrier()
hvd.shutdown()
print("all is well")
"""


def test_every_operation_gives_the_results_of_one_host(hosts: Hosts) -> None:
    workers = hosts.job(OPERATIONS, header="")
    for worker in workers:
        assert worker.end() == 0, worker.text
        assert "all is well" in worker.text


def test_two_members_on_each_host_get_the_results_of_one_host(hosts: Hosts) -> None:
    workers = hosts.job(OPERATIONS, header="", per_host=2)
    for worker in workers:
        assert worker.end() == 0, worker.text
        assert "all is well" in worker.text


def test_hierarchical_operations_give_the_results_of_one_host(hosts: Hosts) -> None:
    both = {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1", "HOROVOD_HIERARCHICAL_ALLGATHER": "1"}
    workers = hosts.job(OPERATIONS, header="", per_host=2, settings=both)
    for worker in workers:
        assert worker.end() == 0, worker.text
        assert "all is well" in worker.text


SMALL = """
import farandole.numpy as hvd, numpy
from farandole.common import job

hvd.init()
rank, size = hvd.rank(), hvd.size()
STEPS = 20

for elements in (1, 1024, 1025):
    for operation, value in ((hvd.Sum, sum(range(size))), (hvd.Average, sum(range(size)) / size), (hvd.Max, size - 1)):
        name = f"{operation}.{elements}"
        hvd.allreduce(numpy.zeros(elements, numpy.float32), name=name, op=operation)
        hvd.barrier()
        before = job.runtime.counters()["bundles"]
        for step in range(STEPS):
            result = hvd.allreduce(numpy.full(elements, rank + step, numpy.float32), name=name, op=operation)
            scale = size if operation == hvd.Sum else 1
            exact = numpy.full(elements, value + step * scale, numpy.float32)
            assert numpy.array_equal(result, exact), f"{name} in step {step}"
        # A bundle is counted shortly after its tensors are complete.
        bundles = job.runtime.counters()["bundles"] - before
        print(f"{elements} elements: {'bundles' if bundles > STEPS // 2 else 'inline'}")

# Rank 0 has joined: zeros replace its data, and the data paths move the tensor.
if rank == 0:
    hvd.join()
else:
    result = hvd.allreduce(numpy.ones(1, numpy.float32), name=f"{hvd.Sum}.1", op=hvd.Sum)
    assert result.item() == size - 1
    hvd.join()
hvd.shutdown()
print("all is well")
"""


def test_rank_0_reduces_tensors_up_to_the_inline_limit(hosts: Hosts) -> None:
    for settings, largest in (({}, 1024), ({"FARANDOLE_INLINE_LIMIT": "4"}, 1), ({"FARANDOLE_INLINE_LIMIT": "0"}, 0)):
        for worker in hosts.job(SMALL, header="", settings=settings):
            assert worker.end() == 0, worker.text
            assert "all is well" in worker.text
            for elements in (1, 1024, 1025):
                manners = set(re.findall(f"^{elements} elements: (.*)$", worker.text, re.M))
                assert manners == {"inline" if elements <= largest else "bundles"}, worker.text


KILLED = """
import os
import signal

import farandole.numpy as hvd, numpy
from horovod.common.exceptions import HorovodInternalError

hvd.init()
try:
    for step in range(1_000_000):
        if step == 20 and hvd.rank() == hvd.size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(numpy.ones(1_000_000, numpy.float32), name="gradient")
except HorovodInternalError as problem:
    print(f"ended: {problem}")
"""


def test_a_member_killed_in_training_is_named_on_every_other_host(hosts: Hosts) -> None:
    workers = hosts.job(KILLED, header="")
    killed = len(workers) - 1
    for worker in workers[:killed]:
        problem = worker.read_until(r"^ended: (.*)\n").group(1)
        assert re.search(rf"\brank {killed}\b", problem), problem
