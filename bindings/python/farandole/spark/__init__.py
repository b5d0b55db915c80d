"""Jobs whose workers run in the executors of a Spark cluster, and estimators for Spark ML.

    results = horovod.spark.run(train, args=(5,), num_proc=4)

This package imports neither a framework nor the native library.
"""

from __future__ import annotations

from farandole.spark import conf as conf
from farandole.spark.requirements import require_pyspark

require_pyspark()

from farandole.spark.runner import run as run  # noqa: E402
from farandole.spark.runner import run_elastic as run_elastic  # noqa: E402
