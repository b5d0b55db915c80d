"""For functions on the workers of ``horovod.spark.run()``."""

from __future__ import annotations

from farandole.spark.task.task_info import get_available_devices as get_available_devices
