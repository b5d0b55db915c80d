"""The results of tests, read from the JUnit files that pytest and CTest write, the record of a part, and the first line
of a log that names an error. `python -m testing.results LOG` prints that of a log of `tools/check`."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple
from xml.etree import ElementTree

# Patterns of lines that name an error, the most telling first.
TELLING = ("^E   ", "exceeds its limit", "FAILED:$", r"\+ Timeout \+", r"\b[eE]rror:", "^Fatal ", r"\w+Error\b")
# The same for the programs that tools/check runs.
OF_CHECKS = (r"(error|warning):", "^would|BAD|FAILED|^---")
# The same for a rank that a test ends because it hangs.
OF_AN_END = (r"\+ Timeout \+", r"^Timeout \(")
# Variables for the ranks of a job: the file in which a rank notes each test that it begins, and names of tests that it
# leaves out, in lines.
BEGUN = "TEST_RUN_BEGUN"
LEFT_OUT = "TEST_RUN_LEFT_OUT"
PREFIX = re.compile(r"(?m)^\[\d+\]<std(out|err)>:")


@dataclass(frozen=True)
class TestResult:
    """One execution of one test. `error` is its first line of error, empty if it passed."""

    name: str
    seconds: float
    error: str = ""
    was_skipped: bool = False


@dataclass(frozen=True)
class Failure:
    """A test that failed, or a whole run of which no test is known to have failed (then `test` is empty). A copy of its
    log belongs to the same failure."""

    part: str
    run: int
    test: str
    error: str
    log: str = field(compare=False)

    @property
    def name(self) -> str:
        return f"{self.part}: {self.test}" if self.test else f"{self.part}: run {self.run} as a whole"


@dataclass
class Record:
    """What a part leaves in its folder. `tree` identifies the files that were tested. A failure moves to `flaky` when
    the test has passed alone, unless the run has more of them than it accepts."""

    tree: str
    options: Dict[str, int] = field(default_factory=dict)
    only: str = ""
    seconds: float = 0
    tests: int = 0
    skipped: int = 0
    failures: List[Failure] = field(default_factory=list)
    flaky: List[Failure] = field(default_factory=list)
    durations: List[Tuple[str, float]] = field(default_factory=list)

    def add(self, results: Sequence[TestResult], failures: Sequence[Failure]) -> None:
        self.tests += len(results)
        self.skipped += sum(result.was_skipped for result in results)
        self.durations += [(result.name, result.seconds) for result in results if result.seconds >= 2]
        self.failures += failures

    def accept(self, flaky: Sequence[Failure]) -> None:
        self.flaky += [each for each in flaky if each in self.failures]
        self.failures = [each for each in self.failures if each not in flaky]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))

    @staticmethod
    def read(path: Path) -> Record:
        content = json.loads(path.read_text())
        for kind in ("failures", "flaky"):  # an older version wrote no flaky tests
            content[kind] = [Failure(**each) for each in content.get(kind, [])]
        content["durations"] = [(name, seconds) for name, seconds in content["durations"]]
        return Record(**content)


def node_id(case: ElementTree.Element) -> str:
    """The name by which a test is selected: pytest's FILE::CLASS::NAME, and CTest's name, which has no file."""
    file, name = case.get("file", ""), case.get("name", "")
    if not file:
        return name
    module = file.removesuffix(".py").replace("/", ".")
    inner = case.get("classname", "").removeprefix(module).strip(".")
    return "::".join(word for word in (file, inner.replace(".", "::"), name) if word)


def read_junit(path: Path) -> Optional[List[TestResult]]:
    """The results in a JUnit file, in its order; None if the process that wrote it was ended meanwhile. A test whose
    body and teardown both failed is there twice."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError:
        return None
    found = []
    for case in root.iter("testcase"):
        problems = [each for each in case if each.tag in ("failure", "error")]
        error = first_error((problems[0].text or "") + "\n" + text_of(case, "system-out")) if problems else ""
        message = (problems[0].get("message") or "").partition("\n")[0] if problems else ""
        found.append(
            TestResult(
                node_id(case),
                float(case.get("time") or 0),
                error or message or ("failed" if problems else ""),
                was_skipped=case.find("skipped") is not None,
            )
        )
    return found


def unfinished_test(files: Sequence[Path], ranks: int) -> str:
    """The test in which a rank has ended, from the files in which the ranks have noted their tests; empty if all have
    run to their end, or if one has not begun. The test that began first is the one: the other ranks wait for its rank,
    or have gone on without it."""
    noted = [(path.stat().st_mtime_ns, path.read_text().split("\n")) for path in files]
    if len(noted) < ranks or any(len(lines) < 2 for _, lines in noted):
        return ""
    return min([(begin, lines[-2]) for begin, lines in noted if lines[-2]], default=(0, ""))[1]


def text_of(case: ElementTree.Element, tag: str) -> str:
    child = case.find(tag)
    return (child.text or "") if child is not None else ""


def first_error(text: str, patterns: Sequence[str] = TELLING) -> str:
    """The first line of a log that names an error; empty if none does."""
    lines = PREFIX.sub("", text).splitlines()
    for pattern in patterns:
        for line in lines:
            if re.search(pattern, line):
                return line.strip()[:240]
    return ""


if __name__ == "__main__":
    content = Path(sys.argv[1]).read_text(errors="replace")
    print(first_error(content, OF_CHECKS) or content.strip().rpartition("\n")[2])
