"""Files that are compiled together must not give each other's names another meaning."""

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def groups(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(TOOLS))
    import source_groups

    monkeypatch.setattr(source_groups, "ROOT", tmp_path)

    def divide(**texts):
        sources = []
        for name, text in texts.items():
            (tmp_path / f"{name}.cpp").write_text(text)
            sources.append(tmp_path / f"{name}.cpp")
        return [[source.stem for source in group] for group in source_groups.in_groups(sources)]

    yield divide
    for cached in (source_groups.closure, source_groups.names_in, source_groups.names_of_headers):
        cached.cache_clear()
    sys.modules.pop("source_groups", None)


def test_files_with_names_of_their_own_are_together(groups):
    assert groups(
        a="namespace {\nint first() { return 1; }\n}\n", b="namespace {\nint second() { return 2; }\n}\n"
    ) == [["a", "b"]]


@pytest.mark.parametrize(
    "declaration",
    [
        "int twice(int number) {",
        "std::string twice(",
        "template <typename T> T twice(T value) {",
        "struct twice {",
        "enum class twice : int {",
        "using twice = std::vector<int>;",
        "constexpr std::size_t twice = 4096;",
        "const std::vector<int> twice{1, 2};",
        "constexpr int twice[] = {1};",
        "static std::atomic<int> twice{0};",
    ],
)
def test_files_that_declare_the_same_name_are_apart(groups, declaration):
    assert groups(a=f"namespace {{\n{declaration}\n", b=f"namespace {{\n{declaration}\n") == [["a"], ["b"]]


def test_a_name_of_a_header_that_the_other_file_includes_is_in_conflict(groups, tmp_path):
    (tmp_path / "values.hpp").write_text("namespace farandole {\nstruct job {\n};\n}\n")
    assert groups(a='#include "values.hpp"\n', b="namespace {\nstruct job {\n};\n}\n") == [["a"], ["b"]]
    assert groups(c='#include "values.hpp"\n', d='#include "values.hpp"\n') == [["c", "d"]]


def test_files_that_change_what_follows_are_alone(groups):
    assert groups(a="#define LIMIT 3\n", b="using enum color;\n", c="int x;\n", d="int y;\n") == [
        ["a"],
        ["b"],
        ["c", "d"],
    ]


def test_a_declaration_of_another_namespace_may_be_repeated(groups):
    repeated = "using std::chrono::seconds;\nusing namespace farandole;\n"
    assert groups(a=repeated, b=repeated) == [["a", "b"]]


def test_a_group_has_at_most_eight_files(groups):
    found = groups(**{f"file{i}": f"int name{i};\n" for i in range(20)})
    assert [len(group) for group in found] == [8, 8, 4]
