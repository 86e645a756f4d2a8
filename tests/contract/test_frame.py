# SPDX-License-Identifier: Apache-2.0
"""What holds for every verb: help, errors as one line, exit codes, signals, pipes."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from support.command_line import FIVE_RUNS, REAL_OOM, Result, call, command_line, environment, start
from ttmem import __version__
from ttmem.base.errors import MissingPartError
from ttmem.commands import profile, program
from ttmem.commands.command_line import GroupWithExamples, verb
from ttmem.commands.program import cli

Run = Callable[..., Result]


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_verb_with_its_line(run: Run, flag: str) -> None:
    shown = run(flag)
    assert shown.code == 0
    assert shown.err == ""
    for name, line in cli.lines.items():
        assert name in shown.out
        assert line.split()[0] in shown.out


@pytest.mark.parametrize("verb", cli.lines)
def test_every_verb_loads_and_has_a_line_of_help(verb: str) -> None:
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    assert command.name == verb
    assert command.help
    assert cli.lines[verb].endswith(".")


def test_the_order_is_the_newcomers(run: Run) -> None:
    verbs = list(cli.lines)
    assert verbs[:4] == ["profile", "explain", "diff", "check"]
    assert verbs[-2:] == ["mcp", "completion"]


def test_the_table_of_verbs_is_that_of_the_files() -> None:
    """One verb is one file: its first line is the verb with its line of the table."""
    folder = Path(program.__file__).parent
    first_line = re.compile(r'^"""``ttmem ([\w-]+)``: (.+)"""$', re.MULTILINE)
    found = {}
    for path in folder.glob("*.py"):
        if (match := first_line.search(path.read_text())) and path.stem == match[1]:
            found[match[1]] = match[2]
    assert found == cli.lines


def test_a_group_lists_its_verbs_in_the_order_of_their_declaration() -> None:
    # GIVEN a group with two verbs
    group = GroupWithExamples("group")

    @verb("ttmem group zeta", group=group, line="The first.")
    def zeta() -> None:
        """More than one sentence. Of these, the table shows the line above."""

    @verb("ttmem group add-up 1 2", group=group)
    @click.argument("numbers", nargs=-1, type=int)
    def add_up(numbers: tuple[int, ...]) -> None:
        """Add numbers."""
        click.echo(sum(numbers))

    # THEN both are listed with their lines, each works, and a mistyped one is guessed
    assert group.lines == {"zeta": "The first.", "add-up": "Add numbers."}
    shown = CliRunner().invoke(group, ["add-up", "1", "2"])
    assert (shown.exit_code, shown.output) == (0, "3\n")
    assert "no verb 'add-ups'; did you mean 'add-up'?" in CliRunner().invoke(group, ["add-ups"]).output
    assert "Add numbers." in CliRunner().invoke(group, ["--help"]).output


@pytest.mark.parametrize("group", ["cb", "device", "ops", "sweep"])
def test_a_group_without_a_verb_is_a_question_that_its_help_answers(run: Run, group: str) -> None:
    shown = run(group)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith(f"Usage: ttmem {group} ")


@pytest.mark.parametrize("verb", cli.lines)
def test_loading_a_verb_hides_nothing_that_main_needs(run: Run, verb: str) -> None:
    """A verb's file becomes an attribute of the package: it must not have the name of something used there."""
    assert run(verb, "--help").code == 0
    assert run("--version").code == 0


def test_version(run: Run) -> None:
    assert run("--version") == Result(0, f"ttmem {__version__}\n", "")


def test_no_arguments_is_a_question_that_help_answers(run: Run) -> None:
    shown = run()
    assert shown.code == 2
    assert shown.out == ""
    assert shown.err.startswith("Usage: ttmem ")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["profil"], "no verb 'profil'; did you mean 'profile'?", "see 'ttmem --help'"),
        (["xyzzy"], "no verb 'xyzzy'", "see 'ttmem --help'"),
        ([str(REAL_OOM)], f"no verb '{REAL_OOM}'; did you mean 'ttmem profile {REAL_OOM}'?", "see 'ttmem --help'"),
        (["--llm"], "--llm of which log? Use 'ttmem profile LOG --llm'", "see 'ttmem --help'"),
        (["--json", "profile", "x"], "--json belongs after the verb 'profile'", "see 'ttmem --help'"),
        (["profile", "x", "--json", "--llm"], "choose one of --json and --llm", "see 'ttmem profile --help'"),
        (["profile", "x", "--idle", "3"], "--idle goes with --follow", "see 'ttmem profile --help'"),
        (["check", "x", "--max-growth", "2%"], "--max-growth needs --baseline SOURCE", "see 'ttmem check --help'"),
    ],
)
def test_bad_usage_is_one_line_and_a_hint(run: Run, arguments: list[str], message: str, hint: str) -> None:
    assert run(*arguments) == Result(2, "", f"ttmem: error: {message}\n  hint: {hint}\n")


def test_an_unknown_option_is_guessed_at(run: Run) -> None:
    shown = run("profile", "--jsn", "x")
    assert shown.code == 2
    assert shown.out == ""
    assert shown.err.startswith("ttmem: error: No such option")
    assert "--json" in shown.err


def test_an_error_keeps_its_own_exit_code_and_hint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise MissingPartError("ttnn is not installed", hint="ttmem device install", where="engine mock")

    monkeypatch.setattr(profile.command, "callback", refuse)
    expected = "ttmem: error: engine mock: ttnn is not installed\n  hint: ttmem device install\n"
    assert run("profile", "x") == Result(3, "", expected)


@pytest.mark.parametrize("error", [TypeError("a\nb"), KeyError("x"), RecursionError(), MemoryError(), AssertionError()])
def test_a_bug_is_one_line_too(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(profile.command, "callback", fail)
    shown = run("profile", "x")
    assert shown.code == 2
    assert shown.out == ""
    first, hint = shown.err.splitlines()
    assert first.startswith(f"ttmem: error: internal error: {type(error).__name__}")
    assert "--debug shows the traceback" in hint


@pytest.mark.parametrize("arguments", [["--debug", "profile", "nowhere"], ["profile", "nowhere", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(run: Run, arguments: list[str]) -> None:
    shown = run(*arguments)
    assert shown.code == 2
    assert "Traceback (most recent call last)" in shown.err
    assert shown.err.splitlines()[-1] == "ttmem: error: no such file or stored report 'nowhere'"


def test_debug_by_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTMEM_DEBUG", "1")
    assert "Traceback" in run("profile", "nowhere").err
    monkeypatch.setenv("TTMEM_DEBUG", "0")
    assert "Traceback" not in run("profile", "nowhere").err


def test_an_error_of_the_system_names_the_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise PermissionError(13, "Permission denied", "/some/file")

    monkeypatch.setattr(profile.command, "callback", fail)
    assert run("profile", "x") == Result(2, "", "ttmem: error: /some/file: Permission denied\n")


def test_an_interrupt_is_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(profile.command, "callback", interrupt)
    shown = run("profile", "x")
    assert (shown.code, shown.out) == (130, "")
    assert shown.err == "\nttmem: interrupted\n"


def test_ctrl_c_while_reading_is_130_without_a_traceback() -> None:
    # GIVEN a reader that waits for its input
    child = start("profile", "-", "--json", stdin=subprocess.PIPE, env=environment())
    assert child.stdin is not None
    child.stdin.write("a line\n")
    child.stdin.flush()
    left = array("i", [1])
    while left[0]:  # until it has taken the line: before that, Python itself is interrupted
        time.sleep(0.02)
        fcntl.ioctl(child.stdin, termios.FIONREAD, left)
    # WHEN it is interrupted
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    # THEN
    assert child.returncode == 130
    assert out == ""
    assert "Traceback" not in err


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    # GIVEN a pipe whose other end closes at once, and an answer larger than any pipe's buffer
    reader = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read(1)"], stdin=subprocess.PIPE)
    code = "import sys; from ttmem.commands import output, profile; from ttmem.commands.program import main\n"
    code += "profile.command.callback = lambda **_: output.emit('x' * 5_000_000, None)\n"
    code += "sys.exit(main(['profile', 'x']))"
    writer = subprocess.Popen(
        [sys.executable, "-c", code], stdout=reader.stdin, stderr=subprocess.PIPE, env=environment(), text=True
    )
    assert reader.stdin is not None
    reader.stdin.close()
    reader.wait(timeout=30)
    # THEN the writer says nothing, and does not claim that all is well
    _, err = writer.communicate(timeout=60)
    assert (writer.returncode, err) == (141, "")


def test_help_into_a_closed_pipe_is_quiet() -> None:
    readable, writable = os.pipe()
    os.close(readable)
    done = subprocess.run(
        command_line("--help"), stdout=writable, stderr=subprocess.PIPE, env=environment(), text=True, check=False
    )
    os.close(writable)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        done = call("--help", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.code == 2
    assert done.err == "ttmem: error: No space left on device\n"


def test_a_terminal_that_cannot_show_a_letter_does_not_end_the_run(run: Run) -> None:
    code = "from ttmem.commands import output, profile; from ttmem.commands.program import main\n"
    code += "profile.command.callback = lambda **_: output.emit('caf\\u00e9 \\udcff', None)\n"
    code += "raise SystemExit(main(['profile', 'x']))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(PYTHONIOENCODING="ascii"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "caf\\xe9 \\udcff\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run: Run, shell: str) -> None:
    shown = run("completion", shell)
    assert shown.code == 0
    assert "_TTMEM_COMPLETE" in shown.out


def test_completion_of_verbs_and_stored_names(home: Path) -> None:
    def complete(words: str, position: int) -> list[str]:
        done = call(env=environment(_TTMEM_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(position)))
        assert done.code == 0, done.err
        return done.out.split()

    assert complete("ttmem pro", 1) == ["plain,profile"]
    (home / "reports" / "bert").mkdir(parents=True)
    (home / "reports" / "bert" / "bert_profile.ttmem").touch()
    assert complete("ttmem profile be", 2) == ["plain,bert"]
    assert complete("ttmem profile ./be", 2) == ["file,./be"]
    assert complete("ttmem diff bert be", 3) == ["plain,bert"]
    assert complete("ttmem fit x --recipe gen", 4) == ["plain,generic"]
    assert complete("ttmem fit x --boards n150,p1", 4)[0] == "plain,n150,p100"
    assert complete("ttmem fit x --kv-cache bfloat8", 4) == ["plain,bfloat8_b"]
    assert complete("ttmem explain be", 2) == ["plain,bert"]
    assert complete("ttmem reports rm be", 3) == ["plain,bert"]
    assert complete("ttmem check bert --baseline be", 4) == ["plain,bert"]


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("ttmem tensor 32x32 --board p1", ["p100", "p150", "p150x4", "p150x8"]),
        ("ttmem boards n3", ["n300", "n300x2"]),
        ("ttmem run x.py --board t", ["t3k"]),
        ("ttmem device doctor --board t", ["t3k"]),
        ("ttmem sweep run cases.jsonl --board n150,p1", ["n150,p100", "n150,p150", "n150,p150x4", "n150,p150x8"]),
        ("ttmem sweep run cases.jsonl --memory DRAM,l1", ["DRAM,L1", "DRAM,L1_SMALL"]),
        ("ttmem tensor 32x32 --dtype bfloat", ["bfloat16", "bfloat8_b", "bfloat4_b"]),
        ("ttmem cb simulate --dtype uint3", ["uint32"]),
        ("ttmem tensor 32x32 --layout r", ["row_major"]),
        ("ttmem replay x --release 0.7", [f"0.{minor}" for minor in ("79.0", "78.0", "77.0", "76.0", "75.0")]),
        ("ttmem sweep limits --op sil", ["silu"]),
    ],
)
def test_completion_of_names(words: str, completed: list[str]) -> None:
    position = str(len(words.split()) - 1)
    done = call(env=environment(_TTMEM_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=position))
    assert done.code == 0, done.err
    assert [line.removeprefix("plain,") for line in done.out.splitlines()][: len(completed)] == completed


def test_the_module_runs_like_the_script() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ttmem", "--version"], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ttmem {__version__}\n"


def test_the_seed_form_is_the_profile_verb(run: Run, tmp_path: Path) -> None:
    asked = run("profile", FIVE_RUNS, "--llm")
    seed = run("--llm", "--logfile", FIVE_RUNS)
    assert asked.code == seed.code == 0
    assert seed.out == asked.out
    assert seed.out.startswith("# Memory Profile: transformer-five-runs\n")
    written = run("--llm", "--logfile", FIVE_RUNS, "-o", tmp_path / "report.md")
    assert (written.code, written.out) == (0, "")
    assert (tmp_path / "report.md").read_text() == asked.out


@pytest.mark.parametrize("group", ["device", "cb", "ops", "sweep"])
def test_a_group_without_a_verb_prints_its_usage(group: str) -> None:
    done = call(group)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"Usage: ttmem {group}")
