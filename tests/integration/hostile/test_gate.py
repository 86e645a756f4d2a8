# SPDX-License-Identifier: Apache-2.0
"""The gate: whatever names a source holds, no output makes a terminal do something or hides a letter from a reader."""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shlex
import sqlite3
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.kind import Kind as MadeKind
from fuzz.model_sources import model_kinds
from support import bad_values
from support.bad_values import HOSTILE, KINDS, Kind
from support.command_line import ROOT, environment
from support.counter_regions import region
from ttmem.base.text_safety import Styled, escape_control_characters, escape_json
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table

SOURCE = ROOT / "src" / "ttmem"
RUN = ROOT / "tests" / "data" / "fuzz" / "run.ttmem"
MODEL_KINDS = {kind.name: kind for kind in model_kinds()}
OURS = re.compile(r"\x1b\[[0-9;]*m")
DATA_FILES = {".ttmem", ".sqlite", ".parquet", ".zst", ".sqlite-wal", ".sqlite-shm"}
"""For programs: they hold what was read."""


INVISIBLE_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
DEFAULT_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode's property Default_Ignorable_Code_Point, which ``unicodedata`` does not know."""


def is_invisible(char: str) -> bool:
    """Independent of the gate's own list: by what Unicode says of a character."""
    if char in "\n\t":
        return False
    return unicodedata.category(char) in INVISIBLE_CATEGORIES or DEFAULT_IGNORABLE.match(char) is not None


def bad_characters(text: str) -> set[str]:
    return set(filter(is_invisible, set(text)))


@given(st.text(st.characters()))
def test_nothing_invisible_comes_through(text: str) -> None:
    shown = escape_control_characters(text)
    assert bad_characters(shown) == set()
    assert escape_control_characters(shown) == shown
    if not any(is_invisible(char) or unicodedata.category(char) == "Cn" for char in text):
        assert shown == text


def test_exactly_what_is_invisible_is_escaped() -> None:
    """Every character of Unicode; one that this Python's Unicode does not know yet may be a mark of a later one."""
    for number in range(sys.maxunicode + 1):
        char = chr(number)
        changed = escape_control_characters(char) != char
        if is_invisible(char):
            assert changed, hex(number)
        elif unicodedata.category(char) != "Cn":
            assert not changed, hex(number)


@given(st.text(), st.sampled_from(["\x7f", "\x9b", "\u202e", "\u200b", "\U000e0041"]))
def test_json_stays_the_same_document(text: str, hostile: str) -> None:
    document = {"name": text + hostile}
    encoded = escape_json(msgspec.json.encode(document))
    assert json.loads(encoded) == document
    assert bad_characters(encoded.decode()) == set()


@given(st.text(st.characters()), st.booleans())
def test_a_console_adds_its_own_colours_and_nothing_else(text: str, color: bool) -> None:
    report = TextReport(80, color=color)
    report.print(text, style="bold")
    report.print(Table.build(["name", text], [[text, HOSTILE]]))
    report.print_unfolded(text)
    shown = report.render()
    assert isinstance(shown, Styled)
    assert bad_characters(OURS.sub("", shown)) == set()
    assert color or "\x1b" not in shown


# --- every kind of source, every verb ---------------------------------------------------------------------------------


def _planted_document(document: Any, random_: random.Random, share: float, name: str = HOSTILE) -> Any:
    if isinstance(document, dict):
        return {key: _planted_document(value, random_, share, name) for key, value in document.items()}
    if isinstance(document, list):
        if len(document) == 3 and isinstance(document[2], bytes):  # a column of numbers: its kind is no name
            return document
        return [_planted_document(value, random_, share, name) for value in document]
    if isinstance(document, str) and random_.random() < share:
        return document + name
    return document


def _planted_text(text: str, random_: random.Random, share: float, name: str) -> str:
    """Words of letters get a tail; what a format is recognised by stays, or nothing would be read."""
    name = name.replace("\ud800", "").replace("\0", "")

    def tail(word: re.Match[str]) -> str:
        return word[0] + (name if random_.random() < share / 10 else "")

    return "\n".join(re.sub(r"[a-z_]{4,}", tail, line) for line in text.split("\n"))


def plant(kind: Kind, path: Path, random_: random.Random, share: float) -> None:
    """Hostile names in one file of a source: in so many of its texts."""
    if kind.change is bad_values.json_file:
        path.write_text(json.dumps(_planted_document(json.loads(path.read_text()), random_, share)))
    elif kind.change is bad_values.json_lines_file:
        lines = [_planted_document(json.loads(line), random_, share) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif kind.change is bad_values.sqlite_file:
        database = sqlite3.connect(path)
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in database.execute(f'PRAGMA table_info("{table}")').fetchall():
                is_text = "CHAR" in str(row[2]).upper() or str(row[2]).upper() in ("TEXT", "")
                if is_text and random_.random() < share:
                    tail = HOSTILE.replace("\ud800", "").replace("\0", "")
                    database.execute(f'UPDATE OR IGNORE "{table}" SET "{row[1]}" = "{row[1]}" || ?', (tail,))
        database.commit()
        database.close()
    elif kind.change is bad_values.profile_file:
        document = bad_values.profile_document(path)
        bad_values.write_profile(path, _planted_document(document, random_, share, HOSTILE.replace("\ud800", "")))
    else:
        text = path.read_text("utf-8", "replace")
        name = re.sub(r"[\x00-\x1f]", "", HOSTILE) if path.suffix == ".xml" else HOSTILE  # XML cannot hold the others
        path.write_text(_planted_text(text, random_, share, name), "utf-8", "replace", newline="")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_no_verb_passes_on_what_a_source_holds(kind: Kind, tmp_path: Path) -> None:
    template, home = tmp_path / "template", tmp_path / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTMEM_HOME", str(home))
        source = bad_values.valid(kind, template)
    random_ = random.Random(kind.name)
    answered = 0
    evil_name = HOSTILE.replace("\0", "").replace("\ud800", "")
    for number, verb in enumerate(kind.verbs):
        for share in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01):  # until it is still a source of this kind
            # GIVEN the source with hostile names in it, in a folder that is called so too
            folder = tmp_path / f"{number} {share} {evil_name}"
            bad_values.changed_sources(kind, template, folder, random_, change=lambda *_: None)
            for path in folder.glob(kind.files):
                plant(kind, path, random_, share)
            place = folder / source.relative_to(template) if source.is_absolute() else source
            own_home = folder / "home" if (folder / "home").is_dir() else home
            # WHEN a verb reads it, in colour every other time
            words = bad_values.words_of(verb, place, folder)
            color = {"FORCE_COLOR": "1"} if number % 2 else {"NO_COLOR": "1"}
            code, out, err = bad_values.run(words, TTMEM_HOME=str(own_home), COLUMNS="100", **color)
            # THEN nothing of it is obeyed: not on the terminal, not in the files
            _check_outputs(verb, out, err, folder / "out", in_color="FORCE_COLOR" in color)
            if code in (0, 1):
                answered += 1
                break
    assert answered, "nothing of this source could be read: the test says nothing"
    for path in home.rglob("*"):
        if path.is_file() and path.suffix not in DATA_FILES:
            assert bad_characters(path.read_text("utf-8")) == set(), path


def _check_outputs(verb: str, out: bytes, err: bytes, folder: Path, *, in_color: bool) -> None:
    written = {"stdout": out, "stderr": err}
    written |= {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in DATA_FILES
    }
    for name, content in written.items():
        text = content.decode("utf-8")
        assert "\x1b[2J" not in text
        shown = OURS.sub("", text) if name == "stdout" and in_color else text
        assert bad_characters(shown) == set(), (verb, name, shown[:300])


PWN = "\n::error::pwn\n"
"""A line that a GitHub workflow would obey."""


@pytest.mark.parametrize("kind", MODEL_KINDS.values(), ids=MODEL_KINDS)
def test_no_verb_that_predicts_or_plays_passes_it_on_either(kind: MadeKind, tmp_path: Path) -> None:
    """``fit``, ``tune``, ``whatif``, ``check``, ``diff``, ``sweep diff``, and the files that they write."""
    name = HOSTILE.replace("\0", "").replace("\ud800", "")
    answered = 0
    for number, verb in enumerate(dict.fromkeys(kind.commands)):
        for share in (0.5, 0.1, 0.03, 0.01):
            # GIVEN hostile names in the source, in a folder that is called so too (lists name it, in words of a shell)
            folder = tmp_path / (f"{number}-{share}" if "--list" in kind.commands[0] else f"{number} {share} {name}")
            folder.mkdir()
            path, random_ = kind.written(kind.content, folder), random.Random(f"{verb}{share}")
            if kind.ending == ".ttmem":
                document = bad_values.profile_document(path)
                bad_values.write_profile(path, _planted_document(document, random_, share, PWN + name))
            elif kind.ending in (".json", ".jsonl"):
                lines = [path.read_text()] if kind.ending == ".json" else path.read_text().splitlines()
                planted = (_planted_document(json.loads(line), random_, share, PWN + name) for line in lines)
                path.write_text("\n".join(map(json.dumps, planted)))
            else:
                text = path.read_text().replace(str(folder), "FOLDER")
                path.write_text(_planted_text(text, random_, share, name).replace("FOLDER", str(folder)), newline="")
            given_files = {place: place.read_bytes() for place in folder.rglob("*") if place.is_file()}
            # WHEN a verb reads it
            words = [word.replace("{}", str(path)).replace("{dir}", str(folder)) for word in verb.split()]
            code, out, err = bad_values.run(words, TTMEM_HOME=str(tmp_path / "home"), COLUMNS="100", NO_COLOR="1")
            # THEN nothing of it is obeyed, by a terminal or by what keeps the log
            assert b"internal error" not in err
            assert not re.search(rb"^\s*::error::pwn", err, re.MULTILINE), err
            made = (place for place in folder.rglob("*") if place.is_file() and place not in given_files)
            texts = [place.read_bytes() for place in made if place.suffix not in {*DATA_FILES, ".db"}]
            for text in (out, err, *texts):
                assert bad_characters(text.decode("utf-8")) == set(), (verb, text[:300])
            if code in (0, 1):
                answered += 1
                break
    assert answered > len(set(kind.commands)) // 2, "hardly anything of it was read: the test says little"


@pytest.mark.parametrize("words", [["boards"], ["profile", "nowhere.log"], ["tune", str(RUN)], ["--help"]], ids=str)
def test_streams_that_were_closed(words: list[str], tmp_path: Path) -> None:
    """An answer that cannot be given is exit code 2; what was closed is not replaced by another stream or a file."""
    code = "import sys; from ttmem.commands.program import main; sys.exit(main(sys.argv[1:]))"
    line = shlex.join([sys.executable, "-c", code, *words])
    env = environment(TTMEM_HOME=str(tmp_path))
    usual = subprocess.run(line, shell=True, env=env, capture_output=True, check=False)
    for closed in (">&-", "2>&-", "<&-", "<&- >&- 2>&-"):
        done = subprocess.run(f"{line} {closed}", shell=True, env=env, capture_output=True, check=False)
        assert done.returncode == (2 if " >&-" in f" {closed}" else usual.returncode), (closed, done.stderr)
        assert b"Traceback" not in done.stderr
        assert b"internal error" not in done.stderr
        assert done.stdout == (b"" if " >&-" in f" {closed}" else usual.stdout)


def test_names_of_processes_are_shown_as_they_are_not(tmp_path: Path) -> None:
    name = HOSTILE.replace("\0", "").replace("\ud800", "")
    held = (1 << 20, 0, 0, 0, 0)
    (tmp_path / "tt_device_0_memory").write_bytes(region(total=held, processes=[(os.getpid(), name, held)]))
    code, out, err = bad_values.run(["live", "--once"], TTMEM_SHM_DIR=str(tmp_path), FORCE_COLOR="1")
    assert code == 0, err
    assert b"title" in out
    assert bad_characters(OURS.sub("", out.decode())) == set()
    assert bad_characters(err.decode()) == set()


@pytest.mark.parametrize(
    "words",
    [
        ["profile", "NAME"],
        ["NAME"],
        ["boards", "NAME"],
        ["tensor", "NAME"],
        ["check", "x", "--max-dram", "NAME"],
        ["profile", "x", "--NAME"],
        ["run", "NAME"],
        ["replay", "NAME"],
        ["explain", "Out of Memory: NAME"],
        ["ops", "extract", "NAME::load"],
        ["profile", "-", "-o", "/nowhere/NAME"],
        ["--debug", "profile", "NAME"],
    ],
    ids=str,
)
def test_errors_that_name_what_was_typed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    name = HOSTILE.replace("\0", "").replace("\ud800", "\udc80")
    _, out, err = bad_values.run([word.replace("NAME", name) for word in words])
    assert bad_characters(out.decode() + err.decode()) == set()


# --- no verb can forget it --------------------------------------------------------------------------------------------

_WRITERS = {
    "base/atomic_files.py": "write_text is the gate for files; write_bytes is for data",
    "commands/output.py": "emit and say are the gate for a terminal",
    "commands/command_line.py": "our own help",
    "commands/program.py": "our own help",
    "commands/user_program.py": "a program's own output, passed through",
    "commands/tune.py": "a patch holds the lines of the user's own source to the byte, or it does not apply",
    "reports/exports/tables.py": "through the gate, cell by cell",
    "reports/exports/perfetto.py": "JSON in ASCII",
    "reports/exports/visualizer.py": "JSON in ASCII, and a database",
    "operators/case.py": "JSON in ASCII",
    "operators/sweeps/comparison.py": "JSON in ASCII",
    "operators/sweeps/journal.py": "JSON in ASCII, and a database",
    "profile/profile_file.py": "a saved profile",
    "base/atomic_folders.py": "what the store was given: data, JSON through the gate, pages; a mark of our own",
}


def _writes(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    if isinstance(function, ast.Name):
        return function.id in ("print", "write_bytes", "new_file")
    return (
        isinstance(function, ast.Attribute)
        and function.attr in ("write_text", "write_bytes", "echo", "secho", "print")
        and not (isinstance(function.value, ast.Name) and function.value.id in ("report", "self"))
    )


def test_only_these_files_print_or_write() -> None:
    """A new verb or report uses ``emit``, ``note`` and ``write_text``; whoever is added here says why it may not."""
    rooms = ("base", "commands", "reports", "profile", "operators", "")
    found = set()
    for room in rooms:
        for path in (SOURCE / room).rglob("*.py") if room else SOURCE.glob("*.py"):
            if "tracer" not in path.parts and any(map(_writes, ast.walk(ast.parse(path.read_text())))):
                found.add(str(path.relative_to(SOURCE)))
    assert found - {"reports/kit/console.py"} <= set(_WRITERS)


def test_pages_and_scripts_of_our_own_pass_unchanged() -> None:
    """Assets of pages hold nothing that the gate would change, or pages would break."""
    assets = [path.read_text("utf-8") for path in (SOURCE / "reports" / "templates").iterdir() if path.is_file()]
    assert list(map(escape_control_characters, assets)) == assets


def test_every_promise_of_the_page_names_a_test_that_is_there() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    promised = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(promised) > 20
    for file, name in promised:
        names = {
            node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)
        }
        assert name in names, (file, name)
