"""MXNet with one thread for each kind of work, so that several ranks share a machine."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config):  # type: ignore[no-untyped-def]
    # MXNet 1.9 warns at each import about the parts of NumPy that later versions have dropped.
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:mxnet")
