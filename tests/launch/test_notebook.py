"""A session in a real Jupyter kernel: output appears in the cell that runs, and Ctrl-C leaves the workers alive."""

from __future__ import annotations

import queue
import sys
import time
from typing import Any, Iterator, List, Tuple

import pytest
from launched import DEADLINE_S, assert_gone

manager = pytest.importorskip("jupyter_client.manager", reason="Jupyter's client is not installed (jupyter-client)")
pytest.importorskip("ipykernel", reason="the kernel of Jupyter is not installed (ipykernel)")


class Notebook:
    """A kernel, in which cells are run."""

    def __init__(self) -> None:
        self.kernel = manager.KernelManager(kernel_name="python3")
        self.kernel.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self.kernel.start_kernel()
        self.client = self.kernel.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=DEADLINE_S)

    def begin(self, code: str) -> str:
        """Starts a cell, and returns its id."""
        return str(self.client.execute(code))

    def output_of(self, cell: str, until: str = "") -> Tuple[str, List[str]]:
        """The output of a cell when it has ended, or holds a text, and the names of its exceptions."""
        text, errors = "", []
        end = time.monotonic() + DEADLINE_S
        while not (until and until in text):
            try:
                message = self.client.get_iopub_msg(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"the cell did not end within {DEADLINE_S} s; its output so far:\n{text}")
            if message["parent_header"].get("msg_id") != cell:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                text += content["text"]
            elif message["msg_type"] == "error":
                errors.append(content["ename"])
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                break
        return text, errors

    def run(self, code: str) -> Tuple[str, List[str]]:
        """Runs a cell to its end."""
        return self.output_of(self.begin(code))

    def close(self) -> None:
        self.client.stop_channels()
        self.kernel.shutdown_kernel(now=True)


@pytest.fixture
def notebook() -> Iterator[Any]:
    started = Notebook()
    yield started
    started.close()


START = """
import os, signal
import farandole
workers = farandole.session(2, min_np=1, cooldown_range=(1, 1), initialize=False)
print("workers", *workers.run(os.getpid))
"""


def test_a_session_in_a_notebook(notebook: Notebook) -> None:
    text, errors = notebook.run(START)
    assert errors == [], text
    processes = [int(each) for each in text.split("workers ")[1].split()]

    running = notebook.begin("workers.run(lambda: print('begins') or signal.pause())")
    notebook.output_of(running, until="begins")  # while the cell runs
    notebook.kernel.interrupt_kernel()
    assert notebook.output_of(running)[1] == ["KeyboardInterrupt"]

    text, errors = notebook.run("print('same', workers.run(os.getpid))")
    assert (text, errors) == (f"same {processes}\n", [])

    _, errors = notebook.run("workers.run(lambda: 1 / 0)")
    assert errors == ["RuntimeError"]

    _, errors = notebook.run("workers.run(lambda: os.kill(os.getpid(), signal.SIGKILL), ranks=[1])")
    assert errors == ["RuntimeError"]
    text, errors = notebook.run("workers.scale(3); print('others', *workers.run(os.getpid))")
    assert errors == [], text
    others = [int(each) for each in text.split("others ")[1].split()]
    assert len(others) == 3 and others[0] == processes[0]
    processes += others

    notebook.kernel.shutdown_kernel(now=True)  # SIGKILL
    assert_gone(processes)
