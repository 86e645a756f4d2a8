# SPDX-License-Identifier: Apache-2.0
"""``ttmem profile``: the answer alone on stdout, everything else on stderr, the report in the store."""

from __future__ import annotations

import gzip
import json
import os
import pty
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import ttmem
from support.command_line import (
    BLACKHOLE_OOM,
    FIVE_RUNS,
    REAL_OOM,
    Result,
    call,
    command_line,
    environment,
    start,
)
from ttmem.commands import output
from ttmem.profile import profile_file

Run = Callable[..., Result]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A plain log of five runs."""
    path = tmp_path / "work" / "gpt_profile.log"
    path.write_bytes(gzip.decompress(FIVE_RUNS.read_bytes()))
    return path


def test_json_is_one_document_and_nothing_else(run: Run) -> None:
    shown = run("profile", FIVE_RUNS, "--json")
    assert shown.code == 0
    document = json.loads(shown.out)
    assert document["schema"] == "ttmem.profile/1"
    assert document["name"] == "transformer-five-runs"
    assert document == ttmem.read(FIVE_RUNS).to_json()


def test_llm_csv_and_terminal_each_stand_alone_on_stdout(run: Run) -> None:
    assert run("profile", FIVE_RUNS, "--llm").out.startswith("# Memory Profile: transformer-five-runs\n\n> Peak DRAM: ")
    table = run("profile", FIVE_RUNS, "--csv").out.splitlines()
    assert table[0].startswith("index,")
    assert len({line.count(",") for line in table[:5]}) == 1
    text = run("profile", FIVE_RUNS).out
    assert "DRAM" in text
    assert "\x1b" not in text, "no colour into a pipe"
    assert max(map(len, text.splitlines())) <= 100


def test_notes_say_where_it_went_and_what_to_run_next(run: Run, home: Path) -> None:
    shown = run("profile", FIVE_RUNS, "--json")
    folder = home / "reports" / "transformer-five-runs"
    assert shown.err.splitlines() == [
        f"stored as 'transformer-five-runs' in {folder}",
        "next: ttmem check transformer-five-runs --max-dram 80%",
    ]
    assert run("profile", FIVE_RUNS, "--json", "--quiet").err == ""


def test_a_stored_name_gives_the_same_answer(run: Run, log: Path) -> None:
    first = run("profile", log, "--json")
    for source in ("gpt", log.parent.parent / "home" / "reports" / "gpt" / "gpt_profile.ttmem"):
        again = run("profile", source, "--json")
        assert (again.code, again.out) == (0, first.out)
        assert "stored as" not in again.err
    assert json.loads(run("reports", "--json").out)["reports"][0]["name"] == "gpt"
    assert len(json.loads(run("reports", "--json").out)["reports"]) == 1


def test_a_path_that_exists_wins_over_a_stored_name(run: Run, log: Path) -> None:
    run("profile", log, "--name", "gpt.log")
    log.rename("gpt.log")
    Path("gpt.log").write_bytes(REAL_OOM.read_bytes())
    assert json.loads(run("profile", "gpt.log", "--json", "--no-store").out)["failure"] is not None


def test_an_unknown_source_is_guessed_at(run: Run, log: Path) -> None:
    run("profile", log)
    assert run("profile", "gtp") == Result(
        2, "", "ttmem: error: no such file or stored report 'gtp'; did you mean 'gpt'?\n"
    )
    assert "did you mean 'gpt_profile.log'?" in run("profile", "gpt_profil.log").err
    assert run("profile", "x" * 5000).code == 2
    assert run("profile", "a\0b").code == 2


@pytest.mark.parametrize("verb", ["profile", "check"])
def test_every_verb_takes_every_kind_of_source(run: Run, log: Path, verb: str, tmp_path: Path) -> None:
    saved = tmp_path / "elsewhere.ttmem"
    profile_file.save(ttmem.read(log), saved)
    run("profile", log)
    assert [run(verb, source).code for source in (log, FIVE_RUNS, saved, "gpt")] == [0] * 4


def test_standard_input(home: Path) -> None:
    shown = call("profile", "-", "--json", input=REAL_OOM.read_text())
    assert shown.code == 0
    assert json.loads(shown.out)["name"] == "stdin"
    assert (home / "reports" / "stdin").is_dir()


def test_no_store_leaves_nothing(run: Run, home: Path) -> None:
    shown = run("profile", FIVE_RUNS, "--llm", "--no-store")
    assert (shown.code, shown.err) == (0, "")
    assert not home.exists()


def test_a_chosen_name_is_used_and_replaces(run: Run, home: Path) -> None:
    first = run("profile", FIVE_RUNS, "--name", "nightly", "--json")
    assert json.loads(first.out)["name"] == "nightly"
    second = run("profile", REAL_OOM, "--name", "nightly", "--json")
    assert json.loads(run("profile", "nightly", "--json").out) == json.loads(second.out)
    assert sorted(entry.name for entry in (home / "reports").iterdir()) == ["nightly"]
    # A stored report can be kept under another name too.
    assert json.loads(run("profile", "nightly", "--name", "keep", "--json").out)["name"] == "keep"
    assert sorted(entry.name for entry in (home / "reports").iterdir()) == ["keep", "nightly"]


def test_a_copy_under_another_name_still_belongs_to_its_log(run: Run, log: Path, home: Path) -> None:
    # GIVEN a stored report that was stored again over itself
    run("profile", log)
    run("profile", "gpt", "--name", "gpt")
    # WHEN the log is read again THEN it is recognised as the same source
    run("profile", log)
    assert [entry.name for entry in (home / "reports").iterdir()] == ["gpt"]


def test_a_hostile_name_is_refused_before_any_work(run: Run, home: Path) -> None:
    shown = run("profile", FIVE_RUNS, "--name", "../../x")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("ttmem: error: '../../x' cannot be the name of a report\n  hint: ")
    assert not home.exists()


def test_the_store_keeps_all_runs_whatever_was_asked(run: Run) -> None:
    everything = json.loads(run("profile", FIVE_RUNS, "--json").out)
    last = json.loads(run("profile", FIVE_RUNS, "--json", "--run", "last").out)
    assert last["operations"]["executed"] < everything["operations"]["executed"]
    assert json.loads(run("profile", "transformer-five-runs", "--json").out) == everything


def test_a_run_that_is_not_there(run: Run) -> None:
    shown = run("profile", FIVE_RUNS, "--json", "--run", "99")
    assert (shown.code, shown.out) == (2, "")
    assert "no run" in shown.err


def test_a_store_that_cannot_be_written_costs_a_warning_not_the_answer(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # GIVEN a home that is a file: also root cannot make folders in it
    (tmp_path / "file").touch()
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "file"))
    shown = run("profile", FIVE_RUNS, "--json")
    assert shown.code == 0
    assert json.loads(shown.out)["name"] == "transformer-five-runs"
    assert shown.err.startswith("ttmem: warning: the report was not stored: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_home_costs_a_warning_not_the_answer(run: Run, home: Path) -> None:
    home.mkdir(mode=0o500)
    shown = run("profile", FIVE_RUNS, "--json")
    assert shown.code == 0
    assert "Permission denied" in shown.err


@pytest.mark.parametrize("form", ["--json", "--llm", "--csv", "--no-store"])
def test_output_goes_to_a_file_whole(run: Run, tmp_path: Path, form: str) -> None:
    printed = run("profile", FIVE_RUNS, form)
    target = tmp_path / "answer"
    written = run("profile", FIVE_RUNS, form, "-o", target)
    assert (written.code, written.out) == (0, "")
    assert f"wrote {target}" in written.err
    assert target.read_text() == printed.out


def test_output_dash_is_stdout(run: Run) -> None:
    assert run("profile", FIVE_RUNS, "--llm", "-o", "-").out == run("profile", FIVE_RUNS, "--llm").out
    assert list(Path().iterdir()) == []


def test_html_is_written_beside_the_answer(run: Run, tmp_path: Path) -> None:
    shown = run("profile", FIVE_RUNS, "--json", "--html", tmp_path / "page.html", "--no-store")
    assert json.loads(shown.out)["name"] == "transformer-five-runs"
    assert "ttmem-report" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("option", ["-o", "--html"])
def test_a_missing_folder_is_refused_before_any_work(run: Run, home: Path, tmp_path: Path, option: str) -> None:
    target = tmp_path / "missing" / "report"
    message = f"ttmem: error: {target}: no such folder '{target.parent}'\n"
    hint = f"  hint: make it first: mkdir -p '{target.parent}'\n"
    assert run("profile", FIVE_RUNS, option, target) == Result(2, "", message + hint)
    assert not home.exists()


def test_a_folder_is_no_file(run: Run, tmp_path: Path) -> None:
    assert run("profile", FIVE_RUNS, "-o", tmp_path).err.startswith(f"ttmem: error: {tmp_path}: is a folder")


def test_the_log_itself_is_never_overwritten(run: Run, log: Path) -> None:
    before = log.read_bytes()
    Path("alias").symlink_to(log)
    for target in (log, "alias"):
        shown = run("profile", log, "--llm", "-o", target)
        assert shown.code == 2
        assert "would be overwritten" in shown.err
    assert run("profile", log, "-o", "same", "--html", "same").code == 2
    assert log.read_bytes() == before


def test_a_source_without_device_lines_is_diagnosed(run: Run, home: Path) -> None:
    Path("empty.log").touch()
    Path("other.log").write_text("hello\nworld\n")
    for source in ("empty.log", "other.log"):
        shown = run("profile", source, "--json")
        assert (shown.code, shown.out) == (2, "")
        assert shown.err.startswith(f"ttmem: error: {source}: ")
        assert "  hint: " in shown.err
    assert not home.exists()


def test_a_failed_run_is_an_answer(run: Run) -> None:
    shown = run("profile", BLACKHOLE_OOM, "--json")
    assert shown.code == 0
    assert json.loads(shown.out)["failure"]["class"] == "oom/too-big"


def test_a_file_name_that_is_not_utf8(run: Run, log: Path, home: Path) -> None:
    odd = Path(os.fsdecode(b"mod\xffel.log"))
    log.rename(odd)
    document = msgspec.json.decode(run("profile", odd, "--json").out)
    assert document["name"] == "mod?el"
    assert [entry.name for entry in (home / "reports").iterdir()] == ["mod_el"]
    assert msgspec.json.decode(run("profile", "mod_el", "--json").out)["memories"] == document["memories"]
    for form in ("--llm", "--csv", "--quiet"):
        assert run("profile", odd, form).code == 0
    assert run("reports", "--json").code == 0


def test_following_a_growing_log(log: Path) -> None:
    # GIVEN a log of which half is written
    whole = log.read_bytes()
    cut = whole.index(b"\n", len(whole) // 2) + 1
    log.write_bytes(whole[:cut])
    child = start("profile", log, "--json", "--follow", "--idle", "3", "--no-store", "-q")
    time.sleep(0.8)
    # WHEN the rest comes while it is followed
    with log.open("ab") as stream:
        stream.write(whole[cut:])
    out, err = child.communicate(timeout=60)
    # THEN the answer is that of the whole log
    assert (child.returncode, err) == (0, "")
    assert json.loads(out) == ttmem.read(log).to_json()


def _wait_until_idle(pid: int, seconds: float = 60.0) -> None:
    """Until a process sleeps each time one looks, half a second long: it has read what there is."""
    deadline, looks = time.monotonic() + seconds, 0
    while looks < 10 and time.monotonic() < deadline:
        time.sleep(0.05)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        looks = looks + 1 if state == "S" else 0


def test_ctrl_c_ends_following_with_the_answer(log: Path) -> None:
    child = start("profile", log, "--json", "--follow", "--no-store")
    assert child.stderr is not None
    assert child.stderr.readline() == f"following {log}; Ctrl-C ends with the answer\n"
    _wait_until_idle(child.pid)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")
    assert json.loads(out) == ttmem.read(log).to_json()


def test_standard_input_cannot_be_followed(run: Run) -> None:
    assert run("profile", "-", "--follow").err.startswith("ttmem: error: --follow needs a log file\n")


def on_a_terminal(*arguments: object, **variables: str) -> tuple[int, str]:
    """Exit code and everything a person would see, stdout and stderr together."""
    controller, terminal = pty.openpty()
    child = subprocess.Popen(
        command_line(*arguments), stdout=terminal, stderr=terminal, stdin=terminal, env=environment(**variables)
    )
    os.close(terminal)
    seen: list[bytes] = []

    def read() -> None:
        try:
            while chunk := os.read(controller, 65536):
                seen.append(chunk)
        except OSError:
            pass  # the terminal is gone: the child has ended

    reader = threading.Thread(target=read)
    reader.start()
    code = child.wait(timeout=60)
    reader.join(timeout=60)
    os.close(controller)
    return code, b"".join(seen).decode("utf-8", "replace")


def test_colour_on_a_terminal_unless_told_otherwise() -> None:
    code, seen = on_a_terminal("profile", FIVE_RUNS, "--no-store", TERM="xterm")
    assert code == 0
    assert "\x1b[" in seen
    # Quiet, because a progress bar moves the cursor when a slow machine shows one.
    code, seen = on_a_terminal("profile", FIVE_RUNS, "--no-store", "-q", TERM="xterm", NO_COLOR="1")
    assert code == 0
    assert "\x1b[" not in seen


def test_colour_can_be_forced_into_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("profile", FIVE_RUNS).out
    run("profile", FIVE_RUNS, "-o", tmp_path / "plain.txt")
    assert "\x1b[" not in (tmp_path / "plain.txt").read_text(), "never into a file"


class _Screen:
    def __init__(self, *, terminal: bool) -> None:
        self.terminal = terminal
        self.text = ""

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_progress_is_only_for_a_person_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a clock that we own
    now = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    # WHEN stderr is a file THEN readers need not even count
    monkeypatch.setattr("sys.stderr", _Screen(terminal=False))
    with output.progress_bar("reading") as progress:
        assert progress is None
    # WHEN it is a terminal THEN there is nothing for a second, then a bar, and it is gone afterwards
    screen = _Screen(terminal=True)
    monkeypatch.setattr("sys.stderr", screen)
    with output.progress_bar("reading run.log") as progress:
        assert progress is not None
        progress(1, 10)
        assert screen.text == ""
        now[0] = 1.5
        progress(5, 10)
        assert "reading run.log" in screen.text
    with output.progress_bar("reading", quiet=True) as progress:
        assert progress is None
