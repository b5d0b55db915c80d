"""Settings of Spark for elastic jobs, as pairs of a name and a value:

    conf = SparkConf().setAll([conf.SPARK_CONF_ALWAYS_RESTART_FAILED_TASK, conf.SPARK_CONF_BLACKLIST_DISABLED])

Spark 3.1 renamed ``spark.blacklist.*`` to ``spark.excludeOnFailure.*``, and Spark 4 knows only the new names:
``renamed()`` gives a pair in that spelling.
"""

from __future__ import annotations

from typing import Dict, Tuple

Setting = Tuple[str, str]

_ALWAYS = "2147483647"  # the greatest number that Spark accepts
_REUSE = "2147483646"  # Spark requires fewer attempts of a task on a node than spark.task.maxFailures

SPARK_CONF_ALWAYS_RESTART_FAILED_TASK: Setting = ("spark.task.maxFailures", _ALWAYS)
"""Spark starts the place of a worker again, however often it has failed."""

SPARK_CONF_BLACKLIST_DISABLED: Setting = ("spark.blacklist.enabled", "false")
"""Executors and nodes on which workers have failed are used again."""
SPARK_CONF_BLACKLIST_ENABLED: Setting = ("spark.blacklist.enabled", "true")
"""Executors and nodes on which workers have failed too often are not used again."""

SPARK_CONF_REUSE_FAILED_EXECUTOR: Setting = ("spark.blacklist.stage.maxFailedTasksPerExecutor", _REUSE)
SPARK_CONF_DONT_REUSE_FAILED_EXECUTOR: Setting = ("spark.blacklist.stage.maxFailedTasksPerExecutor", "1")
"""An executor on which one task has failed gets no other one of the job."""
SPARK_CONF_REUSE_FAILING_EXECUTOR_IN_APP: Setting = ("spark.blacklist.application.maxFailedTasksPerExecutor", _REUSE)
SPARK_CONF_DONT_REUSE_FAILING_EXECUTOR_IN_APP: Setting = ("spark.blacklist.application.maxFailedTasksPerExecutor", "1")
SPARK_CONF_REUSE_EXECUTOR_ALWAYS_FOR_SAME_TASK: Setting = ("spark.blacklist.task.maxTaskAttemptsPerExecutor", _REUSE)
SPARK_CONF_DONT_REUSE_EXECUTOR_FOR_SAME_TASK: Setting = ("spark.blacklist.task.maxTaskAttemptsPerExecutor", "1")
"""A task that has failed on an executor is started on another one."""
SPARK_CONF_REUSE_FAILED_NODE: Setting = ("spark.blacklist.stage.maxFailedExecutorsPerNode", _REUSE)
SPARK_CONF_DONT_REUSE_FAILED_NODE: Setting = ("spark.blacklist.stage.maxFailedExecutorsPerNode", "1")
SPARK_CONF_REUSE_FAILING_NODE_IN_APP: Setting = ("spark.blacklist.application.maxFailedExecutorsPerNode", _REUSE)
SPARK_CONF_DONT_REUSE_FAILING_NODE_IN_APP: Setting = ("spark.blacklist.application.maxFailedExecutorsPerNode", "1")
SPARK_CONF_REUSE_NODE_ALWAYS_FOR_SAME_TASK: Setting = ("spark.blacklist.task.maxTaskAttemptsPerNode", _REUSE)
"""Needs ``SPARK_CONF_ALWAYS_RESTART_FAILED_TASK``: Spark starts no tasks if this number is not the smaller one."""
SPARK_CONF_DONT_REUSE_NODE_FOR_SAME_TASK: Setting = ("spark.blacklist.task.maxTaskAttemptsPerNode", "1")

SPARK_CONF_DEFAULT_VALUES: Dict[str, str] = {
    "spark.task.maxFailures": "4",
    "spark.blacklist.enabled": "false",
    "spark.blacklist.stage.maxFailedTasksPerExecutor": "2",
    "spark.blacklist.application.maxFailedTasksPerExecutor": "2",
    "spark.blacklist.task.maxTaskAttemptsPerExecutor": "1",
    "spark.blacklist.stage.maxFailedExecutorsPerNode": "2",
    "spark.blacklist.application.maxFailedExecutorsPerNode": "2",
    "spark.blacklist.task.maxTaskAttemptsPerNode": "2",
}
"""The values that Spark uses where none are given."""


def renamed(setting: Setting) -> Setting:
    """The same setting in the spelling of Spark 3.1 and later."""
    name, value = setting
    return name.replace("spark.blacklist.", "spark.excludeOnFailure."), value
