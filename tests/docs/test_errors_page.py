"""The guides to errors explain every error message of the sources and no other."""

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
    found = [
        message for message in error_messages.cpp_messages(tmp_path / "a.cpp") if error_messages.enough(message.pattern)
    ]
    assert found == [
        ("rank … cannot be negative; give a rank from 0 to ….", "a.cpp:7"),
        ("the late text", "a.cpp:9"),
        ("the early text", "a.cpp:9"),
        ('the path of "set 1" broke: …', "a.cpp:11"),
    ]


CPP_OF_OTHER_FORMS = """
error refused(const std::string& path, const std::string& why) {
  return {error_kind::precondition, "the file " + path + " is refused: " + why};
}
std::string unknown_names_warning(int count) {
  if (count == 0)
    return {};
  return names(count) + " are unknown names";
}
std::string place(int rank) { return "is no message"; }
error f(const std::string& path, log& out) {
  const auto wrong = [&](const std::string& why) { return error{error_kind::unknown, path + why}; };
  out.warning("the disk of " + path + " is nearly full");
  out.lines.push_back("Process " + path + " was ended.");
  end(1, "farandole: no host is left", out);
  std::cerr << "farandole: " << path;
  if (locked(path, "not a message"))
    return refused(path, "another process has " + path);
  return wrong(": it is torn");
}
std::optional<refused> g(int slot) {
  if (slot < 0)
    return refused{"slot " + std::to_string(slot) + " is unknown", false};
  problem = slot == 1 ? "the first is wrong" : "the others are wrong";
  refuse("there will be no other " + name, out);
  farandole_error kept{FARANDOLE_ABORTED, "import it first"};
}
"""

PYTHON_OF_OTHER_FORMS = """
def f(log, array, count):
    log.warning("tried again %d times, the last one %.1f s ago", count, 2.0)
    log.info("nothing to explain")
    warnings.warn("average is deprecated", DeprecationWarning)
    print(f"this worker ends: {count}", file=sys.stderr)
    print("a result for the user")
    problem = f"{array} cannot be read"
    return ValueError(problem) if array else TypeError(problem)
def refusal(why): return make_error("precondition", why)
"""


def test_python_texts_become_patterns_with_gaps_for_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_messages, "ROOT", tmp_path)
    source = tmp_path / "a.py"
    source.write_text(PYTHON)
    found = error_messages.python_messages(source, error_messages.module_constants([source]))
    assert [message.pattern for message in found] == [
        "…: … is no number; every worker calls it",
        "call init() before …",
    ]


def test_cpp_texts_of_functions_lines_and_warnings_are_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_messages, "ROOT", tmp_path)
    (tmp_path / "a.cpp").write_text(CPP_OF_OTHER_FORMS)
    found = [message.pattern for message in error_messages.cpp_messages(tmp_path / "a.cpp")]
    assert [pattern for pattern in found if error_messages.enough(pattern)] == [
        "the file … is refused: …",
        "… are unknown names",
        "the disk of … is nearly full",
        "Process … was ended.",
        "farandole: no host is left",
        "another process has …",
        ": it is torn",
        "slot … is unknown",
        "the first is wrong",
        "the others are wrong",
        "there will be no other …",
        "import it first",
    ]


def test_python_texts_that_are_logged_or_printed_are_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_messages, "ROOT", tmp_path)
    source = tmp_path / "a.py"
    source.write_text(PYTHON_OF_OTHER_FORMS)
    assert [message.pattern for message in error_messages.python_messages(source, {})] == [
        "tried again … times, the last one … s ago",
        "average is deprecated",
        "this worker ends: …",
        "… cannot be read",
    ]


@pytest.mark.parametrize(
    "prefix", ["farandole: ", "farandole: error: ", "farandole drain: ", "farandole settings: WARNING: "]
)
def test_a_command_name_without_text_is_not_a_message(prefix: str) -> None:
    assert not error_messages.enough(f"{prefix}{error_messages.GAP}")
    assert not error_messages.enough(prefix.strip())
    assert error_messages.enough(f"{prefix}no host is left")


def test_messages_and_patterns_without_a_counterpart_are_reported() -> None:
    messages = [
        error_messages.Message("rank … has gone away", "a.cpp:1"),
        error_messages.Message("brand new text", "b"),
    ]
    page = (
        "| message | cause |\n| --- | --- |\n| `rank … has gone away`, `an old text` | |\nprose with `brand new text`\n"
    )
    unexplained, unused = error_messages.compare(messages, error_messages.page_patterns(page))
    assert [message.place for message in unexplained] == ["b"]
    assert unused == ["an old text"]


def test_the_program_reads_all_pages_of_errors_and_names_the_page_of_an_old_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(error_messages, "ROOT", tmp_path)
    monkeypatch.setattr(error_messages.sys, "argv", ["error_messages.py"])
    source = tmp_path / "bindings" / "python" / "farandole" / "a.py"
    guides = tmp_path / "docs" / "guides"
    for folder in (source.parent, guides):
        folder.mkdir(parents=True)
    source.write_text('raise ValueError("the first text")\nraise ValueError("the second text")\n')
    (guides / "errors.md").write_text("| message | cause |\n| --- | --- |\n| `the first text` | |\n")
    (guides / "other.md").write_text("| message | cause |\n| --- | --- |\n| `the second text` | |\n")
    assert error_messages.main() == 1
    assert capsys.readouterr().out == "bindings/python/farandole/a.py:2: no page explains: the second text\n"

    clusters = guides / "errors-clusters.md"
    clusters.write_text("| message | cause |\n| --- | --- |\n| `the second text` | |\n")
    assert error_messages.main() == 0
    clusters.write_text("| message | cause |\n| --- | --- |\n| `the second text`, `an old text` | |\n")
    assert error_messages.main() == 1
    old = "docs/guides/errors-clusters.md explains a message that no source produces any more: an old text\n"
    assert capsys.readouterr().out == old


def test_the_guides_explain_every_error_message_of_the_sources() -> None:
    messages = error_messages.source_messages()
    assert len(messages) > 300, "the reader of the sources finds too little"
    patterns = [each for page in error_messages.pages() for each in error_messages.page_patterns(page.read_text())]
    unexplained, unused = error_messages.compare(messages, patterns)
    assert [f"{message.place}: {message.pattern}" for message in unexplained] == []
    assert unused == []


def test_every_message_has_a_cause_and_a_remedy() -> None:
    lines = [line for page in error_messages.pages() for line in page.read_text().splitlines()]
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| `")]
    assert [row[0] for row in rows if len(row) == 3 and not all(cell.strip() for cell in row[1:])] == []
