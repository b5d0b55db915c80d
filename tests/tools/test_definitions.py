"""The C++ of the product defines each class once."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Dict, List, Tuple

from source_groups import TYPE

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = re.compile(TYPE.pattern + r"(?: final)?(?: : [^{;]*)? \{", re.M)
NAMESPACE = re.compile(r"^namespace ([\w:]+)", re.M)


def test_no_two_headers_define_a_class_of_the_same_name() -> None:
    """One program would have two classes of one name, and the linker takes the functions of either for both."""
    found: Dict[Tuple[str, ...], List[str]] = defaultdict(list)
    for top in ("messages", "collectives", "elastic", "cuda", "actors", "tools"):
        for header in sorted((ROOT / top).rglob("*.hpp")):
            text = header.read_text()
            for name in DEFINITION.findall(text):
                if not header.stem.endswith("_testing"):
                    found[(*NAMESPACE.findall(text), name)].append(str(header.relative_to(ROOT)))
    assert len(found) > 500
    assert {name: headers for name, headers in found.items() if len(headers) > 1} == {}
