"""The command line of tools/bench: chooses the benchmarks and the number of rounds."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable

from benchmarks import clusters, collectives, elastic, mlp, network, observe, operation, report, sets, sweep, training
from benchmarks.launch import measurement
from benchmarks.launch.rows import ROWS

NETWORKS = ("wire", "sweep")


def between_hosts(given: argparse.Namespace) -> str:
    """The tables of both parts, or of the part that `--only` names."""
    tables = []
    if given.only != "sweep":
        tables.append(network.markdown(network.measure(given.rounds)))
    if given.only != "wire":
        tables.append(sweep.markdown(sweep.measure(given.rounds, given.sizes, given.run_first)))
    return "\n".join(tables)


TABLES: dict[str, Callable[[argparse.Namespace], str]] = {
    "network": between_hosts,
    "sets": lambda given: sets.markdown(sets.measure(given.rounds), given.rounds),
    "elastic": lambda given: elastic.markdown(elastic.measure(given.rounds, given.horovod_python)),
    "clusters": lambda given: clusters.markdown(clusters.measure(given.rounds, given.only), given.rounds),
}
"""By command: the benchmarks that have a number of rounds and produce one table."""

PERCEPTRONS = [each.framework.name for each in mlp.FRAMEWORKS]
TRAINED = [each.name for each in training.FRAMEWORKS] + PERCEPTRONS


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/bench", description="Measures; docs/benchmarks.md keeps the numbers.")
    commands = parser.add_subparsers(dest="command", required=True)

    both = commands.add_parser("collectives", help="Farandole beside its rivals, in one run, taking turns")
    both.add_argument("--np", type=int, nargs="+", default=[2, 4], help="numbers of ranks (2 4)")
    both.add_argument("--rounds", type=int, default=15)
    both.add_argument("--horovod-python", default="", metavar="PATH", help="an interpreter that has Horovod")
    both.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    both.add_argument("--smoke", action="store_true", help="tiny works, two rounds: does the benchmark itself work?")

    wire = commands.add_parser(
        "network",
        help="two hosts: a network of 1 Gbit/s beside a raw TCP stream, then paths side by side; needs root",
        description="Two network namespaces are the hosts. `wire`: 64 MiB over 1 Gbit/s, beside a raw TCP stream. "
        "`sweep`: allreduces from 4 B to 256 MiB over tcp, gloo and ucx without a limit, in turns; the shares are "
        "medians over the rounds. Needs root. Example: tools/bench network --only sweep --sizes '1 MiB' --rounds 20",
    )
    wire.add_argument("--rounds", type=int, default=7, help="of each part (7)")
    wire.add_argument("--only", choices=NETWORKS, help="one part alone")
    wire.add_argument(
        "--sizes",
        nargs="+",
        default=[],
        choices=[work.name for work in sweep.WORKS],
        metavar="SIZE",
        help="of the sweep: some of " + ", ".join(work.name for work in sweep.WORKS),
    )
    wire.add_argument(
        "--run-first",
        action="store_true",
        help="the sweep's workers take precedence over all else that the machine does (SCHED_FIFO): for a machine that "
        "is not idle, which may seem to hang meanwhile",
    )
    wire.add_argument(
        "--write", action="store_true", help="put the tables of all parts and sizes into docs/benchmarks.md"
    )

    side = commands.add_parser("sets", help="small operations of a process set, alone and beside a busy set")
    side.add_argument("--rounds", type=int, default=5)
    side.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")

    change = commands.add_parser("elastic", help="a worker is killed, joins, leaves: how long the others wait")
    change.add_argument("--rounds", type=int, default=10)
    change.add_argument("--horovod-python", default="", metavar="PATH", help="an interpreter that has Horovod")
    change.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")

    cluster = commands.add_parser(
        "clusters",
        help="jobs in clusters of Ray and Spark, beside the clusters' own means",
        description="Starts a Ray and a Spark on this host, in the environment that tools/setup --clusters makes.",
    )
    cluster.add_argument("--rounds", type=int, default=9)
    cluster.add_argument("--only", nargs="+", default=[], choices=[each.name for each in clusters.ROWS], metavar="ROW")
    cluster.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")

    whole = commands.add_parser("training", help="a small ResNet on two workers in every framework, beside its own")
    whole.add_argument("--rounds", type=int, default=15)
    whole.add_argument("--only", nargs="+", choices=TRAINED, metavar="FRAMEWORK")
    whole.add_argument("--horovod-python", default="", metavar="PATH", help="an interpreter that has Horovod")
    whole.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    whole.add_argument("--smoke", action="store_true", help="tiny steps, two rounds: does the benchmark itself work?")

    starts = commands.add_parser(
        "launch",
        help="how long jobs take to start and to end, beside other launchers",
        description="Rows with several hosts make namespaces with an sshd each and need root. `tools/setup --launch` "
        "installs the other launchers. A row that cannot be measured is named below the table.",
    )
    starts.add_argument("--rounds", type=int, default=15)
    starts.add_argument("--only", nargs="+", choices=list(ROWS), metavar="ROW", help="some of " + ", ".join(ROWS))
    starts.add_argument("--horovod-python", default="", metavar="PATH", help="an interpreter that has Horovod")
    starts.add_argument("--ray-python", default="", metavar="PATH", help="an interpreter that has Ray")
    starts.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    starts.add_argument("--smoke", action="store_true", help="little work, two rounds: does the benchmark itself work?")

    watch = commands.add_parser("observe", help="what the event record and the timeline cost")
    watch.add_argument("--np", type=int, nargs="+", default=[2, 4], help="numbers of ranks (2 4)")
    watch.add_argument("--rounds", type=int, default=15)
    watch.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    watch.add_argument("--smoke", action="store_true", help="tiny works, two rounds: does the benchmark itself work?")

    # tools/bench itself starts this, with the Python of the machine.
    commands.add_parser("cuda", help="tensors in GPU memory, on a machine with a GPU; tools/bench cuda --help")

    one = commands.add_parser("op", help="one work under Farandole alone, for profilers")
    one.add_argument("work", help="a work's name, a size in bytes, or TENSORSxBYTES")
    one.add_argument("--np", type=int, default=2)
    one.add_argument("--seconds", type=float, default=5.0)
    one.add_argument("--no-fast-path", action="store_true")
    given = parser.parse_args()
    if given.command == "network" and given.write and (given.only or given.sizes):
        parser.error("network --write keeps all tables: leave out --only and --sizes")
    if given.command == "clusters" and given.write and given.only:
        parser.error("clusters --write keeps all rows: leave out --only")
    if given.command == "launch" and given.write and (given.only or given.smoke):
        parser.error("launch --write keeps all rows: leave out --only and --smoke")
    return given


def train(given: argparse.Namespace) -> int:
    rounds = 2 if given.smoke else given.rounds
    if not given.only or set(given.only) & set(PERCEPTRONS):
        table = mlp.markdown(rounds, 20 if given.smoke else 400, given.only)
        print(table)
        if given.write and not given.smoke:
            report.write("training --only keras gluon", table)
    if given.only and set(given.only) <= set(PERCEPTRONS):
        return 0
    measured = training.measure(rounds, given.horovod_python, given.smoke, given.only)
    text = training.markdown(measured, rounds)
    print(text)
    if given.write and not given.smoke:
        report.write("training", text)
    return 1 if not measured or any(each.problems for each in measured) else 0


def record_cost(given: argparse.Namespace) -> int:
    rounds = 2 if given.smoke else given.rounds
    measured = [observe.measure(np, rounds, given.smoke) for np in given.np]
    text = observe.markdown(measured, rounds)
    print(text)
    if given.write and not given.smoke:
        report.write("observe", text)
    return 1 if any(each.problems for each in measured) else 0


def launch(given: argparse.Namespace) -> int:
    # The hosts and their processes are removed also when the benchmark is ended.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    rounds = 2 if given.smoke else given.rounds
    makers = {name: make for name, make in ROWS.items() if not given.only or name in given.only}
    options = measurement.Options(rounds, given.smoke, given.horovod_python, given.ray_python)
    results = measurement.measure(makers, options)
    text = measurement.markdown(results, rounds)
    print(text)
    if given.write:
        report.write("launch", text)
    return 0 if all(measurement.is_measured(result) for result in results) else 1


def main() -> int:
    arguments = parse()
    if arguments.command == "op":
        operation.profile(arguments.work, arguments.np, arguments.seconds, not arguments.no_fast_path)
        return 0
    if arguments.command == "training":
        return train(arguments)
    if arguments.command == "launch":
        return launch(arguments)
    if arguments.command == "observe":
        return record_cost(arguments)
    if arguments.command in TABLES:
        text = TABLES[arguments.command](arguments)
        print(text)
        if arguments.write:
            report.write(arguments.command, text)
        return 0
    rounds = 2 if arguments.smoke else arguments.rounds
    measured = [collectives.measure(np, rounds, arguments.horovod_python, arguments.smoke) for np in arguments.np]
    text = report.markdown(measured, rounds)
    print(text)
    if arguments.write and not arguments.smoke:
        report.write("collectives", text)
    return 1 if any(each.problems for each in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
