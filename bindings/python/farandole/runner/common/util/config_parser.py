"""The names of the variables that settings have, and the variables that the options of a launch set."""

from __future__ import annotations

from typing import Any, Callable, Dict, MutableMapping, Tuple

# The variables of params.
HOROVOD_FUSION_THRESHOLD = "HOROVOD_FUSION_THRESHOLD"
HOROVOD_CYCLE_TIME = "HOROVOD_CYCLE_TIME"
HOROVOD_CACHE_CAPACITY = "HOROVOD_CACHE_CAPACITY"
HOROVOD_HIERARCHICAL_ALLREDUCE = "HOROVOD_HIERARCHICAL_ALLREDUCE"
HOROVOD_HIERARCHICAL_ALLGATHER = "HOROVOD_HIERARCHICAL_ALLGATHER"
HOROVOD_TORUS_ALLREDUCE = "HOROVOD_TORUS_ALLREDUCE"
# Of autotuning.
HOROVOD_AUTOTUNE = "HOROVOD_AUTOTUNE"
HOROVOD_AUTOTUNE_LOG = "HOROVOD_AUTOTUNE_LOG"
HOROVOD_AUTOTUNE_WARMUP_SAMPLES = "HOROVOD_AUTOTUNE_WARMUP_SAMPLES"
HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE = "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"
HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES = "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"
HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE = "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"
# Of the timeline and the stall check.
HOROVOD_TIMELINE = "HOROVOD_TIMELINE"
HOROVOD_TIMELINE_MARK_CYCLES = "HOROVOD_TIMELINE_MARK_CYCLES"
HOROVOD_STALL_CHECK_DISABLE = "HOROVOD_STALL_CHECK_DISABLE"
HOROVOD_STALL_CHECK_TIME_SECONDS = "HOROVOD_STALL_CHECK_TIME_SECONDS"
HOROVOD_STALL_SHUTDOWN_TIME_SECONDS = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
# Of libraries and logs.
HOROVOD_MPI_THREADS_DISABLE = "HOROVOD_MPI_THREADS_DISABLE"
HOROVOD_NUM_NCCL_STREAMS = "HOROVOD_NUM_NCCL_STREAMS"
HOROVOD_THREAD_AFFINITY = "HOROVOD_THREAD_AFFINITY"
HOROVOD_GLOO_TIMEOUT_SECONDS = "HOROVOD_GLOO_TIMEOUT_SECONDS"
HOROVOD_LOG_LEVEL = "HOROVOD_LOG_LEVEL"
HOROVOD_LOG_HIDE_TIME = "HOROVOD_LOG_HIDE_TIME"
NCCL_IB_DISABLE = "NCCL_IB_DISABLE"
# Of the controller and the data between CPUs.
HOROVOD_CONTROLLER = "HOROVOD_CONTROLLER"
HOROVOD_CPU_OPERATIONS = "HOROVOD_CPU_OPERATIONS"
HOROVOD_GLOO_IFACE = "HOROVOD_GLOO_IFACE"
HOROVOD_ELASTIC = "HOROVOD_ELASTIC"


def _flag(value: Any) -> str:
    return "1" if value else "0"


def _negated(value: Any) -> str:
    return "0" if value else "1"


_VARIABLES: Dict[str, Tuple[str, Callable[[Any], str]]] = {
    "fusion_threshold_mb": (HOROVOD_FUSION_THRESHOLD, lambda megabytes: str(int(megabytes) * 1024 * 1024)),
    "cycle_time_ms": (HOROVOD_CYCLE_TIME, str),
    "cache_capacity": (HOROVOD_CACHE_CAPACITY, str),
    "hierarchical_allreduce": (HOROVOD_HIERARCHICAL_ALLREDUCE, _flag),
    "hierarchical_allgather": (HOROVOD_HIERARCHICAL_ALLGATHER, _flag),
    "torus_allreduce": (HOROVOD_TORUS_ALLREDUCE, _flag),
    "no_stall_check": (HOROVOD_STALL_CHECK_DISABLE, _flag),
    "stall_check_warning_time_seconds": (HOROVOD_STALL_CHECK_TIME_SECONDS, str),
    "stall_check_shutdown_time_seconds": (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS, str),
    "mpi_threads_disable": (HOROVOD_MPI_THREADS_DISABLE, _flag),
    "num_nccl_streams": (HOROVOD_NUM_NCCL_STREAMS, str),
    "thread_affinity": (HOROVOD_THREAD_AFFINITY, str),
    "gloo_timeout_seconds": (HOROVOD_GLOO_TIMEOUT_SECONDS, str),
    "log_level": (HOROVOD_LOG_LEVEL, str),
    "log_with_timestamp": (HOROVOD_LOG_HIDE_TIME, _negated),
    "timeline_filename": (HOROVOD_TIMELINE, str),
}
"""The variable of an option, and its text for a value."""
_WITH_TIMELINE = {"timeline_mark_cycles": (HOROVOD_TIMELINE_MARK_CYCLES, _flag)}
_WITH_AUTOTUNING = {
    "autotune_log_file": (HOROVOD_AUTOTUNE_LOG, str),
    "autotune_warmup_samples": (HOROVOD_AUTOTUNE_WARMUP_SAMPLES, str),
    "autotune_steps_per_sample": (HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE, str),
    "autotune_bayes_opt_max_samples": (HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES, str),
    "autotune_gaussian_process_noise": (HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE, str),
}


def set_env_from_args(env: MutableMapping[str, str], args: Any) -> MutableMapping[str, str]:
    """Sets the variables of the options that are given, and returns the environment.

    :param args: an object with the attributes of ``parse_args()``
    """
    variables = dict(_VARIABLES)
    if getattr(args, "timeline_filename", None):
        variables.update(_WITH_TIMELINE)
    if getattr(args, "autotune", None):
        env[HOROVOD_AUTOTUNE] = "1"
        variables.update(_WITH_AUTOTUNING)
    for option, (variable, text_of) in variables.items():
        value = getattr(args, option, None)
        if value is not None:
            env[variable] = text_of(value)
    if getattr(args, "tcp_flag", None):
        env[NCCL_IB_DISABLE] = "1"
    return env
