"""The shells accept the completion that ``farandole`` prints, and man its manual page; all of them list every option
of the help."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest
from launched import DEADLINE_S, FARANDOLE, clean_environment, needs_launcher

pytestmark = needs_launcher

ROOT = Path(__file__).resolve().parent.parent.parent
SHELLS = ["bash", "zsh", "fish"]
COMMANDS = ["run", "rendezvous", "drain", "chaos"]
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def output(*command: str, text: str = "", **variables: str) -> str:
    """What a command prints, which must succeed without a complaint."""
    ran = subprocess.run(
        command,
        check=False,
        capture_output=True,
        env={**clean_environment(), **variables},
        input=text,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), f"{command}:\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def options_in_help(command: str) -> List[str]:
    """The names of the options in the left column of the help."""
    names: List[str] = []
    for line in output(FARANDOLE, "help", command).splitlines():
        if re.match(r"  -", line):
            names += OPTION.findall(re.split(r"\s{2,}|\s[A-Z]", line.strip())[0].replace(",", " "))
    assert "--help" in names and len(names) >= 5, names
    return names


def test_each_option_that_is_no_setting_is_used_by_a_test() -> None:
    """Settings have tests that go through their table."""
    settings = set(OPTION.findall((ROOT / "docs" / "settings.md").read_text()))
    paths = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "tools" / "farandole").glob("*_test.cpp")]
    used = set().union(*(OPTION.findall(path.read_text()) for path in paths if path != Path(__file__)))
    options = {name for name in options_in_help("run") if name.startswith("--")}
    assert len(options - settings) > 20
    assert options - settings - used == set()


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Path]:
    folder = tmp_path_factory.mktemp("completion")
    paths = {shell: folder / f"farandole.{shell}" for shell in SHELLS}
    for shell, path in paths.items():
        path.write_text(output(FARANDOLE, "completion", shell))
    (folder / "_farandole").write_text(paths["zsh"].read_text())
    return paths


def in_bash(script: Path, *words: str) -> List[str]:
    """The candidates for the last of these words."""
    code = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); complete -p "${1##*/}" >/dev/null; '
        '_farandole "$1"; [[ ${#COMPREPLY[@]} == 0 ]] || printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return sorted(set(output("bash", "--norc", "-c", code, "bash", str(script), *words).split("\n")) - {""})


def test_bash_completes_commands_options_and_values(scripts: Dict[str, Path], tmp_path: Path) -> None:
    output("bash", "-n", str(scripts["bash"]))

    def offered(*words: str) -> List[str]:
        return in_bash(scripts["bash"], *words)

    assert offered("farandole", "dr") == ["drain"]
    assert offered("farandole", "run", "--fus") == ["--fusion-threshold-mb"]
    assert offered("horovodrun", "--fus") == ["--fusion-threshold-mb"]
    assert offered("horovodrun", "-np", "2", "--verbose", "--fus") == ["--fusion-threshold-mb"]
    assert offered("horovodrun", "--log-level", "de") == ["debug"]
    assert offered("horovodrun", "--log-level", "=", "de") == ["debug"]
    assert "debug" in offered("horovodrun", "--log-level", "=")
    assert offered("horovodrun", "--blacklist-cooldown-range", "1", "2", "--fus") == ["--fusion-threshold-mb"]
    assert offered("farandole", "completion", "z") == ["zsh"]
    assert offered("farandole", "help", "dr") == ["drain"]
    (tmp_path / "job.yaml").touch()
    (tmp_path / "jobs").mkdir()
    assert offered("horovodrun", "--config-file", f"{tmp_path}/jo") == [f"{tmp_path}/job.yaml", f"{tmp_path}/jobs"]
    assert offered("horovodrun", "--output-filename", f"{tmp_path}/jo") == [f"{tmp_path}/jobs"]


def test_bash_offers_no_options_of_the_launcher_behind_the_training_command(scripts: Dict[str, Path]) -> None:
    assert in_bash(scripts["bash"], "horovodrun", "-np", "2", "python", "--fus") == []
    assert "bash" in in_bash(scripts["bash"], "horovodrun", "-np", "2", "bas")
    assert in_bash(scripts["bash"], "horovodrun", "-np", "") == []


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_loads_the_completion_for_both_programs(scripts: Dict[str, Path]) -> None:
    output("zsh", "-n", str(scripts["zsh"]))
    code = (
        'fpath=("$1" $fpath); autoload -Uz compinit; compinit -D -u; autoload +X -Uz _farandole; '
        "print $_comps[farandole] $_comps[horovodrun]"
    )
    assert output("zsh", "-f", "-c", code, "zsh", str(scripts["zsh"].parent)) == "_farandole _farandole\n"


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_options_and_values(scripts: Dict[str, Path], tmp_path: Path) -> None:
    output("fish", "--no-execute", str(scripts["fish"]), HOME=str(tmp_path))

    def offered(line: str) -> List[str]:
        code = "source $argv[1]; complete -C $argv[2]"
        found = output("fish", "--no-config", "-c", code, str(scripts["fish"]), line, HOME=str(tmp_path))
        return [each.split("\t")[0] for each in found.splitlines()]

    assert offered("farandole dr") == ["drain"]
    assert offered("farandole run --fus") == ["--fusion-threshold-mb"]
    assert offered("horovodrun -np 2 --fus") == ["--fusion-threshold-mb"]
    assert offered("horovodrun --log-level de") == ["debug"]
    assert offered("horovodrun --blacklist-cooldown-range 1 2 --fus") == ["--fusion-threshold-mb"]
    assert offered("horovodrun -np 2 python --fus") == []
    assert offered("farandole completion z") == ["zsh"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_the_help_is_in_the_page_and_in_each_completion(command: str, scripts: Dict[str, Path]) -> None:
    names = options_in_help(command)
    offered = in_bash(scripts["bash"], "farandole", command, "-")
    assert sorted(set(names) - set(offered)) == []
    in_zsh = scripts["zsh"].read_text().split(f"\n_farandole_{command}() {{\n")[1].split("\n}\n")[0]
    assert [name for name in names if not re.search(rf"'\*{name}=?\[", in_zsh)] == []
    in_fish = [line for line in scripts["fish"].read_text().splitlines() if f"$__farandole_in_{command} " in line]
    spelled = {
        f"--{word}" if switch == "-l" else f"-{word}"
        for line in in_fish
        for switch, word in re.findall(r" (-[los]) ([\w-]+)", line.split(" -d '")[0])
    }
    assert sorted(set(names) - spelled) == []
    page = output(FARANDOLE, "manual").split(f".SS farandole {command}\n")[1].split("\n.SS ")[0].replace("\\-", "-")
    assert [name for name in names if f"\\fB{name}\\fR" not in page] == []


def test_the_page_is_accepted_and_explains_every_variable() -> None:
    page = output(FARANDOLE, "manual")
    settings = output(FARANDOLE, "settings", "--markdown")
    variables = re.findall(r"^\| [^|]+ \| `(\w+)`", settings, re.MULTILINE)
    assert len(variables) > 50
    assert [name for name in variables if f"\\fB{name}\\fR" not in page] == []
    if shutil.which("man"):
        assert "horovodrun is the same" in " ".join(
            output("man", "--warnings", "-l", "-", text=page, MANWIDTH="200").split()
        )
    if shutil.which("mandoc"):
        output("mandoc", "-T", "lint", "-W", "error", text=page)


def test_an_unknown_shell_is_refused_with_the_known_ones() -> None:
    ran = subprocess.run([FARANDOLE, "completion", "csh"], check=False, capture_output=True, text=True)
    assert ran.returncode == 2
    assert "there is completion for bash, zsh and fish, not for 'csh'" in ran.stderr
