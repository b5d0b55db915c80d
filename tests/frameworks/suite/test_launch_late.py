"""A worker that joins a running job: an operation before its elastic loop is refused, and those inside work."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Callable

import drivers
import pytest
from elastic_jobs import Hosts
from launched import Job, launch, needs_launcher

__all__ = ["launch"]  # the fixture

# The standard suite tests it with one framework, and scripts late members of the others in test_suite_errors.py.
pytestmark = [needs_launcher, *([] if os.environ.get(drivers.VARIABLE) == "jax" else [pytest.mark.slow])]

# A compiled program of JAX submits from a kernel, as all operations of TensorFlow and MXNet do.
JOINS = """
from farandole.common import elastic
compiled = __import__("jax").jit if hvd.__name__.endswith("jax") else lambda function: function
total = compiled(lambda values: hvd.allreduce(values, op=hvd.Sum, name="total"))
hvd.init()
try:
    print("BEFORE", read(total(make([1.0]))), flush=True)
except Exception as refused:
    print("REFUSED", refused, flush=True)

@getattr(hvd, "elastic", elastic).run  # farandole.mxnet has no elastic module
def train(state):
    print("BEGIN of", hvd.size(), flush=True)
    while hvd.size() < 2:
        state.commit()
    return read(total(make([1.0])))

print("TOTAL", train(elastic.ObjectState(hvd.broadcast_object, hvd.rank)), flush=True)
"""


def test_a_worker_that_joins_is_refused_before_its_loop_only(tmp_path: Path, launch: Callable[..., Job]) -> None:
    hosts = Hosts(tmp_path)
    hosts.print_lines("localhost:1")
    flags = ["--max-np", "2", "--host-discovery-script", str(hosts.script)]
    job = launch(1, drivers.current().prelude + JOINS, flags=flags)
    job.read_until(lambda text: "BEGIN of 1" in text)
    hosts.print_lines("localhost:2")
    assert job.end() == 0, job.text
    assert job.text.count("TOTAL [2.0]") == 2, job.text
    assert job.text.count("BEFORE [1.0]") == job.text.count("A worker that joins later raises an error here") == 1
    assert re.search("REFUSED.*this process has joined a job that was running already", job.text), job.text
