#!/usr/bin/env python3
"""Counts obscure wording, and fails where a figure exceeds its budget in tools/words.toml.

Identifiers: names of C++ sources without tests that are pronouns, question words or bare adverbs, per 1,000.
Parameters: the share of parameter names in headers that are such words; and the same in public headers.
Comments: the share of comment lines of C++ and Python that speak of somebody instead of naming a component.
Prose: such words per 1,000 words of README.md and docs/, without decision pages, code blocks and tables.

A budget may only shrink: one that is far above its figure fails as well, so that it is lowered when the text improves.
With --worst it names the twenty files that have the most of each.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
VAGUE = frozenset(
    [
        "what",
        "how",
        "who",
        "whom",
        "whose",
        "where",
        "why",
        "one",
        "each",
        "out",
        "mine",
        "it",
        "some",
        "here",
        "there",
        "most",
        "least",
        "known",
        "seen",
        "now",
        "until",
    ]
)
VAGUE_PROSE = re.compile(
    r"\b(who|whoever|whom|nobody|somebody|whatever|what (?:is|has|was|it|they|he|comes|came|goes|went))\b", re.I
)
CPP = ("*.hpp", "*.cpp", "*.cu", "*.h", "*.c")
PAGES = ("README.md", "*/README.md", "docs/*.md", "docs/guides/*.md")
NOT_COUNTED = re.compile(r"(^|/)(tests|locks)/|_test\.|docs/decisions/")
STRING = re.compile(r'"(\\.|[^"\\\n])*"')
COMMENT = re.compile(r"//+[^\n]*|/\*.*?\*/", re.S)
PARAMETERS = re.compile(r"\(([^()]*)\)")
PARAMETER = re.compile(r"[\w>&*\]]\s*[ &*]([a-z_]\w*)\s*(?:=[^,]*)?(?:,|$)")
SLACK = 0.8  # a figure below this share of its budget asks for a lower budget


def listed(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in sorted(set(names)) if not NOT_COUNTED.search(name) and (ROOT / name).exists()]


class Share:
    """How many of some things are vague, and in which files."""

    def __init__(self, scale: int) -> None:
        self.scale = scale
        self.total = 0
        self.vague: Counter[Path] = Counter()

    def add(self, path: Path, texts: list[str], is_vague: re.Pattern[str] | frozenset[str]) -> None:
        self.total += len(texts)
        if isinstance(is_vague, frozenset):
            count = sum(text.rstrip("_") in is_vague for text in texts)
        else:
            count = sum(bool(is_vague.search(text)) for text in texts)
        if count:
            self.vague[path] += count

    @property
    def figure(self) -> float:
        return self.scale * sum(self.vague.values()) / max(self.total, 1)


def is_public(path: Path) -> bool:
    return path.parent.name == "farandole" and path.parent.parent.name == "include"


def count() -> dict[str, Share]:
    shares = {
        "identifiers": Share(1000),
        "parameters": Share(100),
        "public_parameters": Share(100),
        "comments": Share(100),
        "prose": Share(1000),
    }
    for path in listed(*CPP):
        text = STRING.sub('""', path.read_text(errors="replace"))
        shares["comments"].add(path, [match.group() for match in COMMENT.finditer(text)], VAGUE_PROSE)
        code = COMMENT.sub(" ", text)
        shares["identifiers"].add(path, re.findall(r"[A-Za-z_]\w*", code), VAGUE)
        if path.suffix in (".hpp", ".h"):
            names = [name for inside in PARAMETERS.findall(code) for name in PARAMETER.findall(inside)]
            shares["parameters"].add(path, names, VAGUE)
            if is_public(path):
                shares["public_parameters"].add(path, names, VAGUE)
    for path in listed("*.py"):
        text = path.read_text(errors="replace")
        strings = [line for inside in re.findall(r'"""(.*?)"""', text, re.S) for line in inside.splitlines() if line]
        shares["comments"].add(path, re.findall(r"#[^\n]*", text) + strings, VAGUE_PROSE)
    for path in listed(*PAGES):
        text = re.sub(r"```.*?```|`[^`]*`|^\|.*?$", " ", path.read_text(errors="replace"), flags=re.S | re.M)
        shares["prose"].total += len(re.findall(r"[A-Za-z']+", text))
        if found := len(VAGUE_PROSE.findall(text)):
            shares["prose"].vague[path] += found
    return shares


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worst", action="store_true", help="name the files that have the most of each")
    arguments = parser.parse_args()
    budgets = tomllib.loads((ROOT / "tools/words.toml").read_text())["budgets"]
    problems = []
    for name, share in count().items():
        print(f"{name}: {share.figure:.2f} per {share.scale} (budget {budgets[name]})")
        if arguments.worst:
            for path, found in share.vague.most_common(20):
                print(f"{found:6d} {path.relative_to(ROOT)}")
        if share.figure > budgets[name]:
            problems.append(f"{name}: {share.figure:.2f} exceeds the budget of {budgets[name]}; see --worst")
        elif budgets[name] > 0.1 and share.figure < SLACK * budgets[name] and share.figure > 0:
            problems.append(f"{name}: lower the budget of {budgets[name]} in tools/words.toml to {share.figure:.2f}")
    print("\n".join(problems) or "words: within their budgets")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
