#!/usr/bin/env python3
"""The error messages that the sources can produce, compared with those that docs/guides/errors.md explains.

A message is reduced to its pattern: what is written in the source stays, and every inserted value becomes "…". The page
explains messages by pattern, each in backquotes in the first column of a table; a pattern of the page may cover several
of the source by more "…". `error_messages.py list` prints the patterns of the sources with their places; without an
argument it prints messages that the page does not explain and patterns of the page that no source produces any more,
and exits 1 if there are any.

C++ is read for the text of every `error` value (`error_kind::…, text`), of every call of a function of the same file
that only makes an `error` from a text, and of every line that a logger reports as an error or that goes to `std::cerr`.
Python is read for the text of every `raise` of a call, and of every call of a function that only makes an exception.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "guides" / "errors.md"
CPP_FOLDERS = ["messages", "collectives", "elastic", "cuda", "actors", "bindings", "tools"]
PYTHON_FOLDERS = ["bindings/python/farandole", "bindings/python/horovod"]
GAP = "…"
LEAST_TEXT = 8
"""A pattern with fewer characters of its own than this says nothing: the text was made elsewhere."""

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"\((?P<raw>.*?)\)"|"(?P<text>(?:[^"\\\n]|\\.)*)"|'(?:[^'\\\n]|\\.)'|(?P<other>\w+|<<|::|\S)""",
    re.S,
)
MAKER = re.compile(
    r"error\s+(\w+)\(\s*(?:const\s+)?std::string&?\s+(\w+)\s*\)\s*\{\s*return\s*(?:error\s*)?\{\s*error_kind::\w+,\s*(?:std::move\()?\2"
)
ESCAPES = {'\\"': '"', "\\\\": "\\", "\\n": "\n", "\\t": "\t", "\\'": "'"}


class Message(NamedTuple):
    pattern: str
    place: str


# ---- C++ ----


class Token(NamedTuple):
    text: str
    literal: bool
    line: int


def cpp_tokens(source: str) -> List[Token]:
    tokens = []
    line = 1
    end = 0
    for found in TOKEN.finditer(source):
        line += source.count("\n", end, found.start())
        end = found.start()
        if found["raw"] is not None:
            tokens.append(Token(found["raw"], True, line))
        elif found["text"] is not None:
            tokens.append(
                Token(re.sub(r"\\.", lambda escape: ESCAPES.get(escape[0], escape[0]), found["text"]), True, line)
            )
        elif found["other"] is not None:
            tokens.append(Token(found["other"], False, line))
        elif found[0].startswith("'"):
            tokens.append(Token("'", False, line))
    return tokens


def patterns_of(tokens: List[Token], begin: int) -> List[str]:
    """Of the expression from `begin` to the first comma or semicolon outside of brackets; of one that chooses between
    texts, each of them."""
    depth = 0
    parts: List[List[str]] = [[]]
    for token in tokens[begin:]:
        if token.literal:
            parts[-1].append(token.text if depth == 0 else GAP)
            continue
        depth += (token.text in "([{") - (token.text in ")]}")
        if depth < 0 or (depth == 0 and token.text in ",;"):
            break
        if depth == 0 and token.text == "?":
            parts = [[]]
        elif depth == 0 and token.text == ":":
            parts.append([])
        elif depth > 0 or token.text not in {"+", "<<"}:
            parts[-1].append(GAP)
    return [tidied("".join(each)) for each in parts]


def cpp_messages(path: Path) -> Iterator[Message]:
    source = path.read_text()
    makers = {found[1] for found in MAKER.finditer(source)}
    tokens = cpp_tokens(source)
    place = str(path.relative_to(ROOT))
    texts = [token.text if not token.literal else "" for token in tokens]
    for index in range(len(tokens)):
        begin = message_begin(texts, index, makers)
        if begin:
            for pattern in patterns_of(tokens, begin):
                yield Message(pattern, f"{place}:{tokens[index].line}")


def message_begin(texts: List[str], index: int, makers: Set[str]) -> int:
    """Where the text of a message begins, if `index` announces one; else 0."""
    after = texts[index + 1 : index + 6]
    if texts[index] == "error_kind":
        return index + 4 if after[:1] == ["::"] and after[2:3] == [","] else 0
    called = after[:1] == ["("]
    if texts[index] in makers:
        return index + 2 if called and texts[index - 1] != "error" else 0
    if texts[index] == "error":
        return index + 2 if called and texts[index - 1] in {".", ">"} else 0
    return index + 1 if texts[index] == "cerr" else 0


# ---- Python ----


def python_messages(path: Path, constants: Dict[str, str]) -> Iterator[Message]:
    tree = ast.parse(path.read_text())
    place = str(path.relative_to(ROOT))
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Raise, ast.Return, ast.Assign))]
    for node in sorted(nodes, key=lambda each: each.lineno):
        call: Optional[ast.expr] = None
        if isinstance(node, ast.Raise):
            call = node.exc
        elif isinstance(node, ast.Return):
            call = node.value if is_exception_call(node.value) else None
        elif isinstance(node, ast.Assign) and is_exception_call(node.value):
            call = node.value
        if isinstance(call, ast.Call) and (call.args or call.keywords):
            patterns = [tidied(python_pattern(each, constants)) for each in call.args or [call.keywords[0].value]]
            # Other arguments, such as the kind of an error, are shorter.
            pattern = max(patterns, key=lambda each: len(each.replace(GAP, "")))
            if enough(pattern):
                yield Message(pattern, f"{place}:{node.lineno}")


def is_exception_call(node: Optional[ast.expr]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = (
        node.func.attr
        if isinstance(node.func, ast.Attribute)
        else node.func.id
        if isinstance(node.func, ast.Name)
        else ""
    )
    return name.endswith(("Error", "refusal"))


def python_pattern(node: ast.expr, constants: Dict[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else python_value(part, constants) for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return python_pattern(node.left, constants) + python_pattern(node.right, constants)
    if isinstance(node, ast.Name):
        return constants.get(node.id, GAP)
    if isinstance(node, ast.Attribute):
        return constants.get(node.attr, GAP)
    return GAP


def python_value(part: ast.expr, constants: Dict[str, str]) -> str:
    inner = part.value if isinstance(part, ast.FormattedValue) else part
    return constants.get(inner.id, GAP) if isinstance(inner, ast.Name) else GAP


def module_constants(paths: List[Path]) -> Dict[str, str]:
    """Texts that stand under a name at the top of a module, by name."""
    constants: Dict[str, str] = {}
    for _ in range(2):  # some are made of others
        for path in paths:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    pattern = python_pattern(node.value, constants)
                    if enough(pattern):
                        constants[node.targets[0].id] = pattern
    return constants


# ---- both ----


def tidied(pattern: str) -> str:
    return re.sub(rf"{GAP}(\s*{GAP})+", GAP, re.sub(r"\s+", " ", pattern)).strip()


def enough(pattern: str) -> bool:
    return len(pattern.replace(GAP, "").strip()) >= LEAST_TEXT


def source_messages() -> List[Message]:
    messages: List[Message] = []
    for folder in CPP_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]pp")):
            if not re.search(r"(_test|_testing)\.[ch]pp$", path.name) and "chaos" not in path.parts:
                messages += [each for each in cpp_messages(path) if enough(each.pattern)]
    paths = [path for folder in PYTHON_FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    constants = module_constants(paths)
    for path in paths:
        messages += python_messages(path, constants)
    return messages


def page_patterns(page: str) -> List[str]:
    """What stands in backquotes in the first column of each table that is headed "message"."""
    patterns: List[str] = []
    in_table = False
    for line in page.splitlines():
        in_table = line.startswith("|") and (in_table or line.startswith("| message |"))
        if in_table:
            patterns += re.findall(r"`([^`]+)`", line.split("|")[1])
    return patterns


def covers(pattern: str, message: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split(GAP))), message, re.S) is not None


def compare(messages: List[Message], patterns: List[str]) -> Tuple[List[Message], List[str]]:
    """Messages that no pattern covers, and patterns that cover no message."""
    useful: Set[str] = set()
    unexplained = []
    for message in messages:
        covering = [each for each in patterns if enough(each) and covers(each, message.pattern)]
        useful.update(covering)
        if not covering:
            unexplained.append(message)
    return unexplained, [each for each in patterns if each not in useful]


def main() -> int:
    messages = source_messages()
    if sys.argv[1:] == ["list"]:
        for message in messages:
            print(f"{message.place}: {message.pattern}")
        return 0
    if len(sys.argv) > 1:
        print(__doc__)
        return 2
    unexplained, unused = compare(messages, page_patterns(PAGE.read_text()))
    for message in unexplained:
        print(f"{message.place}: docs/guides/errors.md does not explain: {message.pattern}")
    for pattern in unused:
        print(f"docs/guides/errors.md explains what no source says any more: {pattern}")
    return 1 if unexplained or unused else 0


if __name__ == "__main__":
    sys.exit(main())
