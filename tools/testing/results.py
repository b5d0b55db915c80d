"""The results of tests, read from the JUnit files that pytest and CTest write, and the record of a part."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import List
from xml.etree import ElementTree

# A line that says what went wrong, in the order in which they are looked for.
TELLING = ("^E   ", "FAILED:$", "(^|[^a-z])(e|E)rror:", "^Fatal ", "^Timeout ", "^.*Error")


@dataclass(frozen=True)
class TestResult:
    """One execution of one test. `error` is its first line of error, empty if it passed."""

    name: str
    seconds: float
    error: str = ""
    was_skipped: bool = False


@dataclass(frozen=True)
class Failure:
    """A test that failed, or a whole run of which no test is known to have failed (then `test` is empty)."""

    part: str
    run: int
    test: str
    error: str
    log: str

    @property
    def name(self) -> str:
        return f"{self.part}: {self.test}" if self.test else f"{self.part}: run {self.run} as a whole"


@dataclass
class Record:
    """What a part leaves in its folder. `tree` identifies the files that were tested."""

    tree: str
    seconds: float = 0
    tests: int = 0
    skipped: int = 0
    failures: List[Failure] = field(default_factory=list)
    durations: List[List[object]] = field(default_factory=list)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))

    @staticmethod
    def read(path: Path) -> Record:
        content = json.loads(path.read_text())
        content["failures"] = [Failure(**each) for each in content["failures"]]
        return Record(**content)


def node_id(case: ElementTree.Element) -> str:
    """The name by which pytest selects this test: FILE::CLASS::NAME."""
    file, name = case.get("file", ""), case.get("name", "")
    module = file.removesuffix(".py").replace("/", ".")
    inner = case.get("classname", "").removeprefix(module).strip(".")
    return "::".join(word for word in (file, inner.replace(".", "::"), name) if word)


def read_junit(path: Path) -> List[TestResult]:
    """The results in a JUnit file, in its order. A test whose body and teardown both failed is there twice."""
    found = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
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


def text_of(case: ElementTree.Element, tag: str) -> str:
    child = case.find(tag)
    return (child.text or "") if child is not None else ""


def first_error(text: str) -> str:
    """The first line of a log that says what went wrong; empty if none does."""
    for pattern in TELLING:
        found = re.search(f"(?m)^.*{pattern}.*$" if not pattern.startswith("^") else f"(?m){pattern}.*$", text)
        if found:
            return found[0].strip()[:240]
    return ""
