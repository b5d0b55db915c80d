#!/usr/bin/env python3
"""Checks that the links of all Markdown pages lead to files and headings that exist.

Links to other sites are not followed. Prints each broken link with its page and line; exits 1 if there is one.
"""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.S | re.M)


def without_code(text: str) -> str:
    """The page with its code blocks blanked, line by line."""
    return FENCED.sub(lambda block: "\n" * block.group().count("\n"), text)


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub makes of the page's headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*?) *$", without_code(page.read_text()), re.M):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        anchor = words.replace(" ", "-")
        while anchor in found:
            anchor += "-1"
        found.add(anchor)
    return frozenset(found)


def problem_of(page: Path, target: str) -> str:
    """Why this link of the page is broken; empty if it is not."""
    path, _, anchor = target.partition("#")
    linked = (page.parent / path).resolve() if path else page
    if not linked.exists():
        return f"{path} does not exist"
    if anchor and linked.suffix == ".md" and anchor not in anchors(linked):
        return f"{linked.relative_to(ROOT)} has no heading #{anchor}"
    return ""


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    problems = []
    for page in (ROOT / name for name in sorted(set(listed)) if (ROOT / name).exists()):
        for number, line in enumerate(without_code(page.read_text()).splitlines(), 1):
            for target in LINK.findall(line):
                if not re.match(r"[a-z]+:", target) and (reason := problem_of(page, target)):
                    problems.append(f"{page.relative_to(ROOT)}:{number}: {target}: {reason}")
    print("\n".join(problems) or "links: all lead somewhere")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
