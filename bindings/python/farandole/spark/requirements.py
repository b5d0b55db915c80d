"""The versions of other packages without which ``farandole.spark`` cannot be used."""

from __future__ import annotations

from farandole.common.requirement import require


def require_pyspark() -> None:
    """``ImportError`` that says what to install, if PySpark is missing or too old."""
    require("farandole.spark", "pyspark", "PySpark", (3, 4))


def require_pyarrow() -> None:
    """``ImportError`` that says what to install, if PyArrow is missing or too old."""
    require("the reader and the stores of farandole.spark", "pyarrow", "PyArrow", (11,))
