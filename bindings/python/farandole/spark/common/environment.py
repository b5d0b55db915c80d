"""The platform that Spark runs on."""

from __future__ import annotations

import os


def is_databricks() -> bool:
    """Whether this process runs on a Databricks cluster, by ``DATABRICKS_RUNTIME_VERSION``."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ
