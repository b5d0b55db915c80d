#!/usr/bin/env python3
"""The error messages that the sources can produce, compared with those that docs/guides/errors*.md explain.

A message is reduced to its pattern: its literal text is kept, and every inserted value becomes "…". The pages explain
messages by pattern, each in backquotes in the first column of a table; a pattern of a page may cover several of the
sources by more "…". `error_messages.py list` prints the patterns of the sources with their places. Without an argument
it prints messages that no page explains and patterns of the pages that no source produces any more, and exits 1 if
there are any.

C++ is read for the text of

- every `error` value (`error_kind::…, text`, and those of the C interface and of XLA), and every `refused{text}`;
- every call of one of REPORTERS, and every value of one of PROBLEMS;
- every call of a function or lambda of the same file that only makes an `error`, whose last parameter is a text;
- every line that a logger reports as a warning or an error, that goes to `std::cerr`, that begins with "farandole: ",
  or that the launcher prints (`lines.push_back(…)`, `warnings.push_back(…)`);
- every `return` of a function that returns a text and whose name says refusal, objection, complaint, warning or notice.

Python is read for the text of every `raise` of a call, of every call of a function that only makes an exception, of
every warning or error that is logged, of every `warnings.warn(…)`, and of every `print(…, file=sys.stderr)`.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = "docs/guides/errors*.md"
CPP_FOLDERS = ["messages", "collectives", "elastic", "cuda", "actors", "bindings", "tools"]
PYTHON_FOLDERS = ["bindings/python/farandole", "bindings/python/horovod"]
GAP = "…"
REPORTERS = {
    *("refuse", "refuse_waiting", "end_without_peer", "raise_value_error", "raise_type_error", "break_round"),
    *("InvalidArgument", "Unimplemented"),
}
"""C++ functions whose first argument is the text of an error, or a reason that an error names."""
PROBLEMS = {"problem", "problem_"}
"""C++ variables that hold such a text."""
LINE_START = "farandole: "
"""How a line for the user begins that is not one of the log."""
COMMAND = re.compile(r"^farandole( [a-z-]+)?:( WARNING:| error:)?( |$)")
"""How lines of commands begin, which says nothing about an error either."""
LEAST_TEXT = 8
"""A pattern with fewer literal characters than this is ignored: its text was made elsewhere."""

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"\((?P<raw>.*?)\)"|"(?P<text>(?:[^"\\\n]|\\.)*)"|'(?:[^'\\\n]|\\.)'|(?P<other>\w+|<<|::|\S)""",
    re.S,
)
MAKER = re.compile(
    r"(?:error\s+(?P<function>\w+)|auto\s+(?P<lambda>\w+)\s*=\s*\[[^\]]*\])"
    r"\((?:[^(){};]*,)?\s*(?:const\s+)?std::string&?\s+(?P<text>\w+)\s*\)\s*"
    r"\{\s*return\s*(?:error\s*)?\{\s*error_kind::\w+,[^;]*\b(?P=text)\b"
)
TEXT_FUNCTION = re.compile(
    r"^(?:static |inline )?std::string [\w:]*(?:refusal|objection|complaint|warning|notice)\w*\([^;{]*\{.*?^\}",
    re.S | re.M,
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
    makers = {found["function"] or found["lambda"] for found in MAKER.finditer(source)}
    # The lines of functions that return nothing but messages.
    told: Set[int] = set()
    for found in TEXT_FUNCTION.finditer(source):
        first = source.count("\n", 0, found.start()) + 1
        told.update(range(first, first + found[0].count("\n") + 1))
    tokens = cpp_tokens(source)
    place = str(path.relative_to(ROOT))
    texts = [token.text if not token.literal else "" for token in tokens]
    for index in range(len(tokens)):
        begin = message_begin(texts, index, makers)
        if texts[index] == "return" and tokens[index].line in told:
            begin = index + 1
        elif tokens[index].literal and tokens[index].text.startswith(LINE_START) and texts[index - 1] != "+":
            begin = index
        if begin:
            for pattern in patterns_of(tokens, begin):
                yield Message(pattern, f"{place}:{tokens[index].line}")


def message_begin(texts: List[str], index: int, makers: Set[str]) -> int:
    """Where the text of a message begins, if `index` announces one; else 0."""
    after = texts[index + 1 : index + 6]
    before = texts[index - 1] if index > 0 else ""
    if texts[index] in {"error_kind", "error_code"}:
        return index + 4 if after[:1] == ["::"] and after[2:3] == [","] else 0
    if texts[index] == "refused" and after[:1] == ["{"]:
        return index + 2 if before in {"return", "="} else 0
    if texts[index].startswith("FARANDOLE_") and before == "{":
        return index + 2 if after[:1] == [","] else 0
    if texts[index] in PROBLEMS and after[:1] == ["="] and after[1:2] != ["="]:
        return index + 2
    if texts[index] == "cerr":
        return index + 1
    if after[:1] != ["("]:
        return 0
    if texts[index] in makers and before != "error":
        return last_argument(texts, index + 2)
    if texts[index] in REPORTERS:
        return index + 2
    if texts[index] in {"error", "warning", "fatal"} and before in {".", ">"}:
        return index + 2
    if texts[index] in {"push_back", "emplace_back"} and texts[index - 2] in {"lines", "warnings"}:
        return index + 2
    return 0


def last_argument(texts: List[str], begin: int) -> int:
    """Where the last argument of a call begins whose first one begins at `begin`."""
    depth = 0
    last = begin
    for index in range(begin, len(texts)):
        depth += (texts[index] in set("([{")) - (texts[index] in set(")]}"))
        if depth < 0:
            break
        if depth == 0 and texts[index] == ",":
            last = index + 1
    return last


# ---- Python ----


def python_messages(path: Path, constants: Dict[str, str]) -> Iterator[Message]:
    tree = ast.parse(path.read_text())
    place = str(path.relative_to(ROOT))
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Raise, ast.Return, ast.Assign, ast.Expr))]
    assigned = [node for node in nodes if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    for node in sorted(nodes, key=lambda each: each.lineno):
        call: Optional[ast.expr] = None
        if isinstance(node, ast.Raise):
            call = node.exc
        elif isinstance(node, (ast.Return, ast.Assign)):
            made = node.value.body if isinstance(node.value, ast.IfExp) else node.value
            call = made if is_exception_call(made) else None
        elif isinstance(node, ast.Expr):
            call = node.value if is_report_call(node.value) else None
        if isinstance(call, ast.Call) and (call.args or call.keywords):
            texts = call.args or [call.keywords[0].value]
            if called_name(call) == "make_error":  # whose first argument is the kind
                texts = texts[1:]
            if not isinstance(node, ast.Expr):  # a text may have a name first, in the same file
                names = {each.id for each in texts if isinstance(each, ast.Name)}
                texts = texts + [each.value for each in assigned if each.targets[0].id in names]  # type: ignore[attr-defined]
            patterns = [tidied(python_pattern(each, constants)) for each in texts]
            # Other arguments, such as the kind of an error, are shorter.
            pattern = max(patterns, key=lambda each: len(each.replace(GAP, "")), default="")
            if isinstance(node, ast.Expr):
                pattern = tidied(re.sub(r"%(\.\d+)?[sdrf]", GAP, pattern))
            if enough(pattern):
                yield Message(pattern, f"{place}:{node.lineno}")


def called_name(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def is_exception_call(node: Optional[ast.expr]) -> bool:
    return isinstance(node, ast.Call) and called_name(node).endswith(("Error", "_error", "refusal"))


def is_report_call(node: ast.expr) -> bool:
    """A warning or an error for the log, or a line for stderr."""
    if not isinstance(node, ast.Call):
        return False
    if called_name(node) == "print":
        streams = [each.value for each in node.keywords if each.arg == "file"]
        return any(isinstance(each, ast.Attribute) and each.attr == "stderr" for each in streams)
    return called_name(node) in {"warn", "warning", "error"} and isinstance(node.func, ast.Attribute)


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
    return len(COMMAND.sub("", pattern).replace(GAP, "").strip()) >= LEAST_TEXT


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


def pages() -> List[Path]:
    return sorted(ROOT.glob(PAGES))


def page_patterns(page: str) -> List[str]:
    """What stands in backquotes in the first column of each table that is headed "message"."""
    patterns: List[str] = []
    in_table = False
    for line in page.splitlines():
        in_table = line.startswith("|") and (in_table or line.startswith("| message |"))
        if in_table:
            patterns += re.findall(r"`([^`]+)`", line.split("|")[1])
    return patterns


@functools.cache  # more patterns than re keeps, each of them asked about every message
def expression(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split(GAP))), re.S)


def covers(pattern: str, message: str) -> bool:
    return expression(pattern).fullmatch(message) is not None


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
    patterns = {page: page_patterns(page.read_text()) for page in pages()}
    unexplained, unused = compare(messages, [pattern for each in patterns.values() for pattern in each])
    for message in unexplained:
        print(f"{message.place}: no page explains: {message.pattern}")
    for page, each in patterns.items():
        for pattern in each:
            if pattern in unused:
                print(f"{page.relative_to(ROOT)} explains a message that no source produces any more: {pattern}")
    return 1 if unexplained or unused else 0


if __name__ == "__main__":
    sys.exit(main())
