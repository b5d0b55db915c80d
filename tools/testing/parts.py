"""What each part runs. A part is a function that carries out its runs one after the other."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Callable, Dict, List, Sequence

import namespaces

from testing.frameworks import (
    FRAMEWORKS,
    elastic_recipes,
    fixed_recipes,
    framework_jobs,
    frameworks,
    launched_of_framework,
    ranks_of_framework,
    recipes,
    versions,
)
from testing.part import FOUR_AT_A_TIME, PYTHON, ROOT, TWO_AT_A_TIME, Part

# Each simulated elastic job of the standard suite has one of these seeds; `seeds` adds more, fresh ones too.
FIXED_SEEDS = 2000
MORE_SEEDS = 10_000
# These tests run once more with ranks that are placed as if on two hosts.
BETWEEN_HOSTS = (
    *("operations", "steps", "alltoall", "reducescatter"),
    *("errors", "join", "process_sets", "stress_sets", "devices"),
)
# These tests run once more with their tensors in the memory of the stand-in GPUs.
ON_DEVICES = ("operations", "alltoall", "reducescatter", "join", "adasum", "optimizer", "numpy")
WORLD = "build/tests/world/world_test"
STAND_IN_DRIVER = "build/cuda/fake/driver/libcuda.so.1"
# pytest's option that puts tensors there.
STAND_IN_GPUS = ("-p", "on_devices")
ON_TWO_HOSTS = ("tests/parallel/on_two_hosts",)
MPIRUN = ("mpirun", "--oversubscribe", "--allow-run-as-root")
TRUSTED = {"FARANDOLE_TRUSTED_NETWORK": "1"}
# The record of events and its views, which are a part of their own.
OBSERVED = [
    f"tests/parallel/test_launch_{name}.py"
    for name in ("timeline", "explain", "logging", "nvtx", "report", "stalls", "trace", "traces")
]
OBSERVED_ON_HOSTS = "tests/launch/test_records.py"
LAUNCHED = sorted(
    {str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "parallel").glob("test_launch*.py")} - {*OBSERVED}
)
# The result of these tests does not depend on the number of ranks: the standard suite runs them on 2.
ON_TWO_RANKS = {
    *("arguments", "compression", "compression_arithmetic", "core", "elastic_loop", "elastic_state", "exit_status"),
    *("forked_children", "functions", "kernel_api", "lifecycle", "object_pickler", "optimizer", "sync_batch_norm"),
}
RANKED = sorted(
    path.stem.removeprefix("test_")
    for path in (ROOT / "tests" / "parallel").glob("test_*.py")
    if not path.name.startswith(("test_launch", "test_mpi"))
)


# ---- the standard suite ------------------------------------------------------------------------------------------


def unit(part: Part) -> None:
    """the `*_test.cpp` files beside the code, pages compared with the sources, and the commands of `tools`"""
    part.ctest("^unit$")
    part.pytest("tests/docs", "tests/tools", options=TWO_AT_A_TIME)


def world(part: Part) -> None:
    """whole jobs in one process in virtual time, with 2,000 fixed seeds for elastic jobs"""
    chosen = [f"--{name}={part.options[name]}" for name in ("seeds", "seed") if name in part.options]
    if chosen:
        part.command(WORLD, *chosen)
    else:
        part.ctest("^world$")
        elastic_jobs(part, 0, FIXED_SEEDS)


def corpus(part: Part) -> None:
    """every decoder on the stored inputs of its fuzz target; nothing is drawn"""
    for target in fuzz_targets(part):
        part.command(str(target), "-runs=0", "-rss_limit_mb=4096", "-timeout=60", *stored_inputs(target))


def parallel(part: Part) -> None:
    """real processes and real PyTorch: one suite on 2 and on 4 ranks, and parts of it on other paths"""
    part.ranks(2, *tests_of(*RANKED))
    part.ranks(4, *tests_of(*(name for name in RANKED if name not in ON_TWO_RANKS)))
    # Two simulated hosts: the ranks of a host send their requests to the leader through a relay.
    part.ranks(4, *tests_of(*BETWEEN_HOSTS), through=ON_TWO_HOSTS, FARANDOLE_RELAY_RANKS="1")
    # Paths that a job must request. Of three ranks, a process set can have neither all nor only one.
    names = ("errors", "row_errors", "process_sets", "alltoall", "reducescatter", "object_tags")
    part.ranks(3, *tests_of(*names), **TRUSTED, FARANDOLE_CPU_PATH="gloo")
    over_mpi(part, 2, "mpi", "operations", "alltoall")
    if has_stand_in_gpus(part):
        part.ranks(3, *tests_of("nccl", "operations", "join"), options=STAND_IN_GPUS, FARANDOLE_FAKE_GPUS="4")


def jobs(part: Part) -> None:
    """jobs on this host: the launcher, torchrun, causes of failures, elastic jobs, sessions"""
    part.pytest(*LAUNCHED, options=TWO_AT_A_TIME)


def has_stand_in_gpus(part: Part) -> bool:
    if (ROOT / STAND_IN_DRIVER).exists():
        return True
    part.leave_out("tests with stand-in GPUs", "the build found no cuda.h")
    return False


def hosts(part: Part) -> None:
    """several hosts on one machine as network namespaces (needs root)"""
    part.pytest("tests/hosts", options=TWO_AT_A_TIME)


def launch(part: Part) -> None:
    """jobs on several hosts: by ssh, agents, mpirun, srun, functions and sessions (needs root)"""
    part.pytest("tests/launch", options=(*FOUR_AT_A_TIME, "-rs", f"--ignore={OBSERVED_ON_HOSTS}"))


def observe(part: Part) -> None:
    """the record of events and its views: timeline, explain, dump, trace, report, stalls and logs"""
    part.pytest(*OBSERVED, OBSERVED_ON_HOSTS, options=(*FOUR_AT_A_TIME, "-rs"))


def ray(part: Part) -> None:
    """`farandole.ray` on a Ray of its own"""
    in_cluster_environment(part, "clusters", "tests/clusters/ray")


def spark(part: Part) -> None:
    """`farandole.spark` on a local Spark"""
    in_cluster_environment(part, "clusters", "tests/clusters/spark")
    chosen = ("-k", "passes or counts_once")
    in_cluster_environment(part, "clusters-keras", "tests/clusters/keras/test_keras_training.py", options=chosen)


def in_cluster_environment(part: Part, name: str, *files: str, options: Sequence[str] = ()) -> None:
    """pytest in the environment .setup/venvs/NAME, which has the launcher of .venv."""
    path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
    part.pytest(*files, python=str(ROOT / ".setup" / "venvs" / name / "bin" / "python"), options=options, PATH=path)


def strangers(part: Part) -> None:
    """each attack on running jobs by processes without the secret, once (needs root)"""
    part.pytest("tests/strangers", options=TWO_AT_A_TIME)


def install(part: Part) -> None:
    """the wheel that `tools/setup` made in an empty environment, and a C++ program against the installed package"""
    part.pytest("tests/install", **stored_packages())


def bench_smoke(part: Part) -> None:
    """a part of `tools/bench` on tiny inputs, to see that it still runs"""
    part.command("tools/bench", "collectives", "--smoke", "--np", "2")
    if reason := namespaces.why_not():
        part.leave_out("bench launch", reason)
    else:
        part.command("tools/bench", "launch", "--smoke", "--only", "ssh", "session")


# ---- what only `tools/test all` runs -----------------------------------------------------------------------------


def slow(part: Part) -> None:
    """the tests with the mark `slow`: longer variants of tests of the standard suite, and whole examples"""
    part.selection = "slow"
    part.pytest(*LAUNCHED, *OBSERVED, options=TWO_AT_A_TIME)
    part.pytest("tests/hosts", "tests/launch", "tests/strangers", options=TWO_AT_A_TIME)
    part.pytest("tests/install", **stored_packages())
    fixed_recipes(part)
    elastic_recipes(part)
    for name in ("torch", "lightning", "tensorflow", "keras", "jax"):
        ranks_of_framework(part, name, FRAMEWORKS[name])
    for name, where in FRAMEWORKS.items():
        launched_of_framework(part, name, where)
    # Each folder has a cluster of its own. That with executors, which tests kill, has only tests with the mark.
    for folder in ("ray", "spark", "executors"):
        in_cluster_environment(part, "clusters", f"tests/clusters/{folder}")


def paths(part: Part) -> None:
    """the suite of `parallel` on all numbers of ranks and paths, with the tests marked `slow`"""
    part.selection = ""
    for np in (2, 4):
        part.ranks(np, *tests_of(*RANKED))
    part.ranks(3, *tests_of("errors", "row_errors", "bad_input", "process_sets"))
    part.ranks(4, *tests_of(*BETWEEN_HOSTS), through=ON_TWO_HOSTS, FARANDOLE_RELAY_RANKS="1")
    part.ranks(4, *tests_of("adasum"), through=ON_TWO_HOSTS, HOROVOD_HIERARCHICAL_ALLREDUCE="1")
    over_mpi(part, 3, "mpi", "alltoall")
    if has_stand_in_gpus(part):
        # With fewer GPUs than ranks tensors move through the host, otherwise by NCCL.
        part.ranks(3, *tests_of(*ON_DEVICES), options=STAND_IN_GPUS)
        part.ranks(3, *tests_of("nccl", *ON_DEVICES), options=STAND_IN_GPUS, FARANDOLE_FAKE_GPUS="4")
        names = ("steps", "alltoall", "reducescatter", "process_sets")
        part.ranks(4, *tests_of(*names), through=ON_TWO_HOSTS, options=STAND_IN_GPUS, FARANDOLE_RELAY_RANKS="1")


def editors(part: Part) -> None:
    """mypy, pyright and Jedi on a user's script"""
    part.pytest("tests/editors")


def bench(part: Part) -> None:
    """`tools/bench` training, observe, cuda with stand-in GPUs, network and launch, on tiny inputs"""
    part.command("tools/bench", "training", "--smoke", "--only", "torch")
    part.command("tools/bench", "observe", "--smoke", "--np", "2")
    if (ROOT / STAND_IN_DRIVER).exists():
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        part.command("tools/bench", "cuda", "--smoke", STAND_IN_DRIVER=STAND_IN_DRIVER, PATH=path)
    else:
        part.leave_out("bench cuda", "the build found no cuda.h")
    if reason := namespaces.why_not():
        part.leave_out("bench network and launch", reason)
    else:
        part.command("tools/bench", "network", "--rounds", "2", "--sizes", "4 B", "1 MiB")
        part.command("tools/bench", "launch", "--smoke")


def wheels(part: Part) -> None:
    """a wheel for each Python that is installed, from 3.9 to 3.13, and training with each; needs PyPI"""
    part.needs_network = True
    part.command("tools/wheel")


def clusters(part: Part) -> None:
    """the tests of Ray and Spark on other versions, on a standalone master, and with Keras"""
    part.selection = ""  # the slow ones too
    in_cluster_environment(part, "clusters", "tests/clusters/standalone")
    in_cluster_environment(part, "clusters-keras", "tests/clusters/keras")
    keras_2 = ("estimator", "training")
    files = [f"tests/clusters/keras/test_keras_{name}.py" for name in keras_2]
    in_cluster_environment(part, "clusters-keras-2", *files, options=("-k", "tf_keras and not mistake"))
    in_cluster_environment(part, "clusters-old", "tests/clusters/ray/test_executor.py")
    chosen = ("-k", "ranks or exception or time_out or replaces")
    in_cluster_environment(part, "clusters-old", "tests/clusters/spark/test_run.py", options=chosen)


def attacks(part: Part) -> None:
    """the attacks of `strangers` five times each, or `--rounds N`, with full counts; prints a table"""
    table = ROOT / ".setup" / "strangers.md"
    table.unlink(missing_ok=True)
    rounds = str(part.options.get("rounds", 5))
    part.pytest("tests/strangers", FARANDOLE_STRANGERS_TABLE=str(table), FARANDOLE_STRANGERS_ROUNDS=rounds)
    if table.exists():
        print(table.read_text())


def seeds(part: Part) -> None:
    """elastic jobs with 10,000 fixed seeds and 10,000 fresh ones, launches with as many; a thousand workers"""
    part.command(WORLD, "a thousand workers*", "--seeds", "10")
    part.command(WORLD, "with learned buckets*")
    part.command(WORLD, "every worker*", "--seeds", "500")
    for base in (FIXED_SEEDS, secrets.randbits(32)):
        elastic_jobs(part, base, MORE_SEEDS)
        part.command(WORLD, "launches leave*", "--base", str(base), "--seeds", str(MORE_SEEDS))


def fuzz(part: Part) -> None:
    """libFuzzer with new inputs on every decoder of bytes from other processes: one minute, or `--minutes N`"""
    targets = fuzz_targets(part)
    for target in targets:
        found = Path("build-fuzz") / "found" / target.name
        found.mkdir(parents=True, exist_ok=True)
        seconds = max(1, 60 * part.options.get("minutes", 1) // len(targets))
        limits = (f"-max_total_time={seconds}", "-rss_limit_mb=4096", "-timeout=10")
        report = ("-print_final_stats=1", "-verbosity=0", "-artifact_prefix=build-fuzz/")
        part.command(str(target), *limits, *report, str(found), *stored_inputs(target))


def mutations(part: Part) -> None:
    """deliberate faults in a clone of HEAD, each of which a part of the standard suite must catch; needs PyPI"""
    part.needs_network = True
    part.prepare(PYTHON, "tests/mutations/run.py", limit_s=6 * 3600)


def sanitized(part: Part) -> None:
    """`unit`, `world` and a part of `parallel`, under AddressSanitizer and UBSan"""
    if not build(part, "build-asan", "-DFARANDOLE_SANITIZE=ON"):
        return
    asan = "strict_init_order=1:detect_stack_use_after_return=1"
    ubsan = f"print_stacktrace=1:suppressions={ROOT}/tests/sanitizers/undefined.supp"
    part.ctest(
        "^(unit|world)$",
        "build-asan",
        ASAN_OPTIONS=f"detect_leaks=1:{asan}",
        LSAN_OPTIONS=f"suppressions={ROOT}/tests/sanitizers/leaks.supp:print_suppressions=0",
        UBSAN_OPTIONS=ubsan,
    )
    # The interpreter is not instrumented, so the sanitizers' run time has to come first. The C++ tests above check for
    # leaks; the interpreter and torch keep memory to their end.
    shared = {
        "LD_PRELOAD": f"{compiler_file('libasan.so')}:{compiler_file('libubsan.so')}",
        "PYTHONPATH": str(ROOT / "build-asan" / "python"),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": f"detect_leaks=0:{asan}",
        "UBSAN_OPTIONS": ubsan,
    }
    launcher = ("build-asan/tools/farandole/farandole", "run")
    part.ranks(4, *tests_of("operations", "caller_collectives", "errors", "join"), launcher=launcher, **shared)
    # Two simulated hosts: tcp with relays, then hierarchical.
    tests = tests_of("steps", "alltoall", "reducescatter", "errors", "process_sets")
    part.ranks(4, *tests, launcher=launcher, through=ON_TWO_HOSTS, **shared, FARANDOLE_RELAY_RANKS="1")
    levels = {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1", "HOROVOD_HIERARCHICAL_ALLGATHER": "1"}
    part.ranks(4, *tests_of("adasum"), launcher=launcher, through=ON_TWO_HOSTS, **shared, **levels)
    # Paths that a job must request.
    gloo = {**TRUSTED, "FARANDOLE_CPU_PATH": "gloo"}
    part.ranks(2, *tests_of("alltoall", "reducescatter"), launcher=launcher, **shared, **gloo)
    over_mpi(part, 2, "mpi", "alltoall", **shared)
    driver = STAND_IN_DRIVER.replace("build/", "build-asan/")
    if (ROOT / driver).exists():
        settings = {**shared, "STAND_IN_DRIVER": driver}
        part.ranks(2, *tests_of("devices"), launcher=launcher, **settings)
        names = ("nccl", "operations", "alltoall", "reducescatter", "join")
        part.ranks(3, *tests_of(*names), launcher=launcher, options=STAND_IN_GPUS, **settings, FARANDOLE_FAKE_GPUS="4")


def threads(part: Part) -> None:
    """unit tests and elastic jobs of `world` under ThreadSanitizer, on a CAF that is built with it"""
    caf, reports = ROOT / ".setup" / "caf-threads", ROOT / ".setup" / "threads-reports"
    with_caf = [f"-DCAF_CORE={caf}/libcaf_core.so", f"-DCAF_IO={caf}/libcaf_io.so"]
    if not build(part, "build-threads", "-DFARANDOLE_THREADS=ON", "-DFARANDOLE_PYTHON=OFF", *with_caf):
        return
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    suppressions = f"suppressions={ROOT}/tests/sanitizers/threads.supp"
    # Reports go to files: no test looks at the exit status of some children.
    settings = {"TSAN_OPTIONS": f"{suppressions}:second_deadlock_stack=1:history_size=4:log_path={reports}/report"}
    # One thread plays all threads of models_test, and of the simulated jobs but the elastic ones.
    part.ctest("^unit$", "build-threads", "-E", "^models_test$", **settings)
    number = str(part.options.get("seeds", 200))
    part.command("build-threads/tests/world/world_test", "elastic*", "--seeds", number, **settings)
    for report in sorted(reports.iterdir()):
        if "WARNING: ThreadSanitizer" in report.read_text():
            part.fail("ThreadSanitizer", f"reported a data race: {report.read_text()[:200]}", report)


STANDARD: Dict[str, Callable[[Part], None]] = {
    "unit": unit,
    "world": world,
    "corpus": corpus,
    "launch": launch,
    "observe": observe,
    "strangers": strangers,
    "bench-smoke": bench_smoke,
    "parallel": parallel,
    "jobs": jobs,
    "frameworks": frameworks,
    "framework-jobs": framework_jobs,
    "spark": spark,
    "ray": ray,
    "hosts": hosts,
    "install": install,
}
MORE: Dict[str, Callable[[Part], None]] = {
    "slow": slow,
    "paths": paths,
    "editors": editors,
    "bench": bench,
    "wheels": wheels,
    "versions": versions,
    "clusters": clusters,
    "attacks": attacks,
    "seeds": seeds,
    "recipes": recipes,
    "fuzz": fuzz,
    "mutations": mutations,
    "sanitized": sanitized,
    "threads": threads,
}
PARTS = {**STANDARD, **MORE}
# The options of tools/setup that fetch what a part needs.
NEEDS = {
    "frameworks": ("--tests",),
    "framework-jobs": ("--tests",),
    "install": ("--tests",),
    "launch": ("--launch",),
    "observe": ("--launch",),
    "ray": ("--clusters",),
    "spark": ("--clusters",),
    "clusters": ("--all-clusters",),
    "slow": ("--clusters", "--launch", "--tests"),
    "recipes": ("--tests",),
    "editors": ("--editors",),
    "versions": ("--frameworks",),
    "bench-smoke": ("--launch",),
    "bench": ("--launch",),
    "threads": ("--threads",),
}


# ---- shared by parts ---------------------------------------------------------------------------------------------


def tests_of(*names: str) -> List[str]:
    return [f"tests/parallel/test_{name}.py" for name in names]


def over_mpi(part: Part, np: int, *names: str, **environment: str) -> None:
    """Ranks that mpirun starts, with all tensors over MPI."""
    settings = {**TRUSTED, "FARANDOLE_CPU_PATH": "mpi", **environment}
    part.ranks(np, *tests_of(*names), launcher=MPIRUN, options=("--color=no",), **settings)


def elastic_jobs(part: Part, base: int, number: int) -> None:
    options = ("--base", str(base), "--seeds", str(number))
    part.command(WORLD, "elastic jobs keep*", *options)


def build(part: Part, folder: str, *options: str) -> bool:
    """Compiles everything into a folder of its own, tests too."""
    stamp = ROOT / folder / ".farandole-configured"
    cuda = os.environ.get("HOROVOD_CUDA_HOME", "")
    wanted = " ".join([str(ROOT), *options, cuda, (ROOT / ".venv" / ".farandole-lock").read_text()])
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(ROOT / folder, ignore_errors=True)
        fixed = ("-G", "Ninja", "-S", ".", "-B", folder, f"-DPython_EXECUTABLE={PYTHON}")
        kind = ("-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DFARANDOLE_GROUPS=ON")
        if not part.prepare("cmake", *fixed, *kind, *options):
            return False
        stamp.write_text(wanted)
    return part.prepare("cmake", "--build", folder)


def fuzz_targets(part: Part) -> List[Path]:
    """The targets, which are compiled with clang. Each has its own program."""
    options = ["-DCMAKE_C_COMPILER=clang-14", "-DCMAKE_CXX_COMPILER=clang++-14", "-DFARANDOLE_PYTHON=OFF"]
    if not build(part, "build-fuzz", *options, "-DFARANDOLE_FUZZ=ON", "-DFARANDOLE_TESTS=ON"):
        return []
    sources = sorted((ROOT / "tests" / "fuzz").glob("fuzz_*.cpp"))
    return [Path("build-fuzz") / "tests" / "fuzz" / source.stem for source in sources]


def stored_inputs(target: Path) -> List[str]:
    """The corpus of a target in the tree, and the seeds that the build writes."""
    folders = (Path("tests/fuzz/corpus") / target.name, Path("build-fuzz/corpus") / target.name)
    return [str(each) for each in folders if each.is_dir()]


def stored_packages() -> Dict[str, str]:
    """Lets pip find what `tools/setup` has fetched for the tests of installations."""
    return {"PIP_FIND_LINKS": str(ROOT / ".setup" / "packages")}


def compiler_file(name: str) -> str:
    found = subprocess.run(["g++", f"-print-file-name={name}"], check=True, capture_output=True, text=True)
    return found.stdout.strip()
