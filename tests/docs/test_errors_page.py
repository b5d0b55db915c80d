"""The guide to errors explains every message of the sources, and nothing else."""

from pathlib import Path

import error_messages
import pytest

CPP = """
error refuse(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}
error f(int rank, bool late) {
  if (rank < 0) // "this comment is not a message"
    return refuse("rank " + std::to_string(rank) + " cannot be negative; give a rank "
                  "from 0 to " + last(rank, ", no message") + ".");
  return error{error_kind::timed_out, late ? "the late text" : "the early text"};
}
void g(logger& log) { log.error("the path of \\"set 1\\" broke: " + why(), 3); }
"""

PYTHON = """
RULE = "every worker calls it"
def refusal(why): return HorovodInternalError(why)
def f(name, value):
    if value: raise ValueError(f"{name}: {value!r} is no number; {RULE}")
    raise refusal("call init() " + "before " + name)
"""


def test_cpp_texts_become_patterns_with_gaps_for_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_messages, "ROOT", tmp_path)
    (tmp_path / "a.cpp").write_text(CPP)
    found = [each for each in error_messages.cpp_messages(tmp_path / "a.cpp") if error_messages.enough(each.pattern)]
    assert found == [
        ("rank … cannot be negative; give a rank from 0 to ….", "a.cpp:7"),
        ("the late text", "a.cpp:9"),
        ("the early text", "a.cpp:9"),
        ('the path of "set 1" broke: …', "a.cpp:11"),
    ]


def test_python_texts_become_patterns_with_gaps_for_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_messages, "ROOT", tmp_path)
    source = tmp_path / "a.py"
    source.write_text(PYTHON)
    found = error_messages.python_messages(source, error_messages.module_constants([source]))
    assert [each.pattern for each in found] == ["…: … is no number; every worker calls it", "call init() before …"]


def test_messages_and_patterns_without_a_counterpart_are_told() -> None:
    messages = [
        error_messages.Message("rank … has gone away", "a.cpp:1"),
        error_messages.Message("brand new text", "b"),
    ]
    page = (
        "| message | cause |\n| --- | --- |\n| `rank … has gone away`, `an old text` | |\nprose with `brand new text`\n"
    )
    unexplained, unused = error_messages.compare(messages, error_messages.page_patterns(page))
    assert [each.place for each in unexplained] == ["b"]
    assert unused == ["an old text"]


def test_the_guide_explains_every_error_message_of_the_sources() -> None:
    page = error_messages.PAGE.read_text()
    messages = error_messages.source_messages()
    assert len(messages) > 300, "the reader of the sources finds too little"
    unexplained, unused = error_messages.compare(messages, error_messages.page_patterns(page))
    assert [f"{each.place}: {each.pattern}" for each in unexplained] == []
    assert unused == []


def test_every_message_has_a_cause_and_a_remedy() -> None:
    rows = [line.split("|")[1:-1] for line in error_messages.PAGE.read_text().splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows if len(row) == 3 and not all(cell.strip() for cell in row[1:])] == []
