# SPDX-License-Identifier: Apache-2.0
"""The store: whole reports or none, names that stay inside, writers that do not step on each other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build_profile import ProfileBuilder, tensor
from support.command_line import environment
from support.examples import examples
from ttmem.base import atomic_folders
from ttmem.base.errors import BadInputError
from ttmem.commands.profile_answer import store_profile
from ttmem.profile import profile_file, store
from ttmem.profile.model import Profile

FILES = ("about.json", "inputs_registry.json", "memory.json", "operations.json", "profile.ttmem", "report.html")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def small(name: str = "bert", dram: int = 4096) -> Profile:
    build = ProfileBuilder(name)
    with build.program("main"):
        build.operation("ttnn.matmul", results={"%1": tensor(64, 64)}, operands={"%0": tensor(64, 64)}, dram=0)
        build.operation("ttnn.deallocate", operands={"%1": tensor(64, 64)}, dram=dram)
    return build.build()


def files_of(report: store.StoredReport) -> list[str]:
    return sorted(entry.name for entry in report.folder.iterdir())


def peak_of(name: str) -> object:
    report = store.find(name)
    assert report is not None
    return store.read_about(report)["peak_dram_bytes_per_bank"]


def leftovers(home: Path) -> list[str]:
    return [entry.name for entry in (home / "reports").iterdir() if entry.name.startswith(".")]


def test_a_report_holds_the_seeds_four_files_and_the_profile(home: Path) -> None:
    report = store_profile(small(), origin="/logs/bert.log")
    assert report.folder == home / "reports" / "bert"
    assert files_of(report) == [f"bert_{suffix}" for suffix in FILES]
    assert profile_file.load(report.profile_path).name == "bert"
    for suffix in ("about", "inputs_registry", "memory", "operations"):
        json.loads((report.folder / f"bert_{suffix}.json").read_bytes())
    assert leftovers(home) == []


def test_what_a_listing_shows(home: Path) -> None:
    about = store.read_about(store_profile(small(), origin="/logs/bert.log"))
    stored_at = str(about.pop("stored_at"))
    size = about.pop("bytes_on_disk")
    assert about == {
        "name": "bert",
        "kind": "tt-mlir-log",
        "operations_executed": 2,
        "peak_dram_bytes_per_bank": 4096,
        "peak_dram_percent": pytest.approx(4096 / (1000 * (1 << 20)) * 100, abs=0.01),
        "peak_l1_bytes_per_bank": None,
        "peak_l1_percent": None,
        "status": "fits",
        "origin": "/logs/bert.log",
        "folder": str(home / "reports" / "bert"),
    }
    assert abs(time.mktime(time.strptime(stored_at, "%Y-%m-%dT%H:%M:%SZ")) - time.mktime(time.gmtime())) < 60
    assert size == sum(entry.stat().st_size for entry in (home / "reports" / "bert").iterdir())


def test_the_same_source_read_again_is_the_same_report() -> None:
    first = store_profile(small(dram=4096), origin="/logs/bert.log")
    second = store_profile(small(dram=8192), origin="/logs/bert.log")
    assert first == second
    assert store.list_names() == ["bert"]
    assert peak_of("bert") == 8192


def test_another_source_of_the_same_name_gets_a_number() -> None:
    store_profile(small(dram=4096), origin="/monday/bert.log")
    second = store_profile(small(dram=8192), origin="/tuesday/bert.log")
    third = store_profile(small(dram=12288), origin="/wednesday/bert.log")
    assert [second.name, third.name] == ["bert-2", "bert-3"]
    assert files_of(second) == [f"bert-2_{suffix}" for suffix in FILES]
    assert profile_file.load(second.profile_path).name == "bert-2"
    assert [peak_of(name) for name in store.list_names()] == [4096, 8192, 12288]
    # Re-reading the second source finds its own report again.
    assert store_profile(small(dram=16384), origin="/tuesday/bert.log").name == "bert-2"
    assert [peak_of(name) for name in store.list_names()] == [4096, 16384, 12288]


def test_without_an_origin_equal_content_is_the_same_source() -> None:
    assert store_profile(small("stdin", 4096), origin="").name == "stdin"
    assert store_profile(small("stdin", 4096), origin="").name == "stdin"
    assert store_profile(small("stdin", 8192), origin="").name == "stdin-2"
    assert store_profile(small("stdin", 8192), origin="").name == "stdin-2"


def test_a_name_that_was_asked_for_replaces_what_has_it() -> None:
    store_profile(small(dram=4096), origin="/monday/bert.log")
    report = store_profile(small(dram=8192), origin="/tuesday/bert.log", name="bert")
    assert report.name == "bert"
    assert store.list_names() == ["bert"]
    assert peak_of("bert") == 8192


def test_replacing_works_where_names_cannot_be_exchanged(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_folders, "_exchange", lambda *_: False)
    store_profile(small(dram=4096), origin="/a")
    store_profile(small(dram=8192), origin="/a")
    assert peak_of("bert") == 8192
    assert leftovers(home) == []


@pytest.mark.parametrize("what", ["file", "link", "empty folder", "foreign folder"])
def test_what_somebody_else_put_there_is_left_alone_or_replaced_when_asked(home: Path, what: str) -> None:
    # GIVEN something that is no report under the name
    place = home / "reports" / "bert"
    elsewhere = home / "elsewhere"
    elsewhere.mkdir(parents=True)
    (elsewhere / "precious").write_text("mine")
    place.parent.mkdir()
    if what == "file":
        place.write_text("mine")
    elif what == "link":
        place.symlink_to(elsewhere)
    else:
        place.mkdir()
        if what == "foreign folder":
            (place / "notes.txt").write_text("mine")
    # WHEN a name is chosen automatically THEN it is another one
    assert store_profile(small(), origin="/a").name == "bert-2"
    assert os.path.lexists(place)
    # WHEN the name is asked for THEN it is replaced, and nothing behind a link is touched
    assert store_profile(small(), origin="/a", name="bert").name == "bert"
    assert files_of(store.StoredReport("bert", place)) == [f"bert_{suffix}" for suffix in FILES]
    assert (elsewhere / "precious").read_text() == "mine"
    assert leftovers(home) == []


HOSTILE = [
    "..",
    ".",
    "",
    "../x",
    "a/b",
    "/etc/passwd",
    "a\0b",
    ".hidden",
    "-rf",
    "-",
    "a\nb",
    "a b",
    "a\\b",
    "x" * 5000,
    "é" * 100,
    "con",
    "NUL.txt",
    "$(id)",
    "`id`",
    "a;b",
    "\udcff",
    "\u202egol",
    "~root",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_refused_when_asked_for(home: Path, name: str) -> None:
    with pytest.raises(BadInputError, match="cannot be the name of a report") as caught:
        store_profile(small(), origin="/a", name=name)
    suggestion = caught.value.hint.rpartition("'")[0].rpartition("'")[2]
    assert store.check_name(suggestion) == suggestion
    str(caught.value).encode("utf-8")  # the message itself can be printed
    assert store.find(name) is None


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_of_a_source_is_made_safe(home: Path, name: str) -> None:
    report = store_profile(small(name), origin="/a")
    assert report.folder.parent == home / "reports"
    assert report.folder.is_dir()
    assert not report.folder.is_symlink()
    assert store.list_names() == [report.name]
    assert profile_file.load(report.profile_path).name == report.name


@examples(500)
@given(st.text(max_size=30) | st.text("aé.-_/ con", max_size=200))
def test_every_name_becomes_one_that_stays_inside(name: str) -> None:
    safe = store.make_usable_name(name)
    assert safe == store.make_usable_name(safe) == store.check_name(safe)
    assert len(f"{safe}-1000_inputs_registry.json".encode()) < 255
    assert "/" not in safe
    assert not safe.startswith((".", "-"))
    assert safe.isprintable()


@pytest.mark.parametrize("name", ["bert", "resnet50.v1", "gpt-2_large", "a+b=c@d", "Grüße", "_x_", "模型"])
def test_ordinary_names_stay_as_they_are(name: str) -> None:
    assert store.check_name(name) == store.make_usable_name(name) == name


def test_removing(home: Path) -> None:
    store_profile(small(), origin="/a")
    store_profile(small("gpt"), origin="/b")
    store.remove("bert")
    assert store.list_names() == ["gpt"]
    assert [entry.name for entry in (home / "reports").iterdir()] == ["gpt"]


def test_removing_a_link_leaves_what_it_points_to(home: Path) -> None:
    store_profile(small(), origin="/a")
    (home / "reports" / "alias").symlink_to(home / "reports" / "bert")
    store.remove("alias")
    assert store.list_names() == ["bert"]


def test_a_damaged_listing_entry_does_not_hide_the_report() -> None:
    report = store_profile(small(), origin="/a")
    report.about_path.write_text("{")
    assert store.list_names() == ["bert"]
    assert store.read_about(report)["operations_executed"] is None
    # Nobody knows any more where it came from, so it is not replaced.
    assert store_profile(small(), origin="/a").name == "bert-2"


def test_an_unfinished_report_is_never_seen_and_swept_up_later(home: Path) -> None:
    store_profile(small(), origin="/a")
    fresh, stale = (home / "reports" / f".unfinished-1-{age}" for age in ("fresh", "stale"))
    for folder in (fresh, stale):
        folder.mkdir()
    os.utime(stale, (time.time() - 2 * 86400,) * 2)
    assert store.list_names() == ["bert"]
    store_profile(small(), origin="/a")
    assert leftovers(home) == [fresh.name]


KILLED = """
import os, signal, sys
from pathlib import Path
from ttmem.base.atomic_folders import write_folder
def files():
    yield "a", b"a"
    os.kill(os.getpid(), signal.SIGKILL)
write_folder(Path(sys.argv[1]), files(), replace=False)
"""
HELD = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "print(flush=True); sys.stdin.read()")


def test_what_a_killed_writer_left_is_removed_by_the_next_and_what_is_being_written_is_not(home: Path) -> None:
    # GIVEN a writer that was killed, and one that is at work
    store_profile(small(), origin="/a")
    place = str(home / "reports" / "other")
    assert subprocess.run([sys.executable, "-c", KILLED, place], check=False).returncode == -signal.SIGKILL
    assert len(leftovers(home)) == 1
    writer = subprocess.Popen([sys.executable, "-c", HELD, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    assert len(leftovers(home)) == 2
    # WHEN a report is stored, THEN the first one's folder is gone and the second one's is not
    store_profile(small(), origin="/a")
    assert [str(writer.pid) in name for name in leftovers(home)] == [True]
    writer.communicate()
    assert (home / "reports" / "other" / "a").read_bytes() == b"a"
    assert leftovers(home) == []


def test_a_write_that_fails_leaves_the_old_report(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_profile(small(dram=4096), origin="/a")

    def fail(_: Profile) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(profile_file, "encode", fail)
    with pytest.raises(OSError, match="No space"):
        store_profile(small(dram=8192), origin="/a")
    monkeypatch.undo()
    monkeypatch.setenv("TTMEM_HOME", str(home))
    assert peak_of("bert") == 4096
    assert leftovers(home) == []


def test_the_home_folder_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TTMEM_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.locate_folder() == tmp_path / ".ttmem" / "reports"
    monkeypatch.setenv("TTMEM_HOME", "~/elsewhere")
    assert store.locate_folder() == tmp_path / "elsewhere" / "reports"


def test_without_any_home_nothing_is_stored_and_nothing_else_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("TTMEM_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert store.find("bert") is None
    assert store.list_names() == store.list_reports() == []
    with pytest.raises(BadInputError, match="the home folder is unknown") as caught:
        store_profile(small(), origin="/a")
    assert "TTMEM_HOME" in caught.value.hint


def test_a_store_that_cannot_be_entered_holds_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    store_profile(small(), origin="/a")
    monkeypatch.setattr(Path, "is_file", refuse)
    assert store.find("bert") is None
    assert store.list_names() == []


WRITER = """
import sys
sys.path[:0] = sys.argv[1].split(":")
from test_store import small
from ttmem.commands.profile_answer import store_profile
origin, name, times = sys.argv[2], sys.argv[3] or None, int(sys.argv[4])
for step in range(times):
    print(store_profile(small(dram=4096 * (1 + step)), origin=origin, name=name).name)
"""


def writers(count: int, *, origins: list[str], name: str, times: int) -> list[list[str]]:
    """Run writers at the same time; what each of them says it stored."""
    tests = f"{Path(__file__).parent}:{Path(__file__).parents[2]}"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, tests, origins[number], name, str(times)],
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        for number in range(count)
    ]
    answers = [process.communicate(timeout=120)[0].split() for process in started]
    assert [process.returncode for process in started] == [0] * count
    return answers


@pytest.mark.slow
def test_writers_of_different_sources_never_share_a_name(home: Path) -> None:
    answers = writers(4, origins=["/a", "/b", "/c", "/d"], name="", times=5)
    assert all(len(set(names)) == 1 for names in answers), "each source keeps the name it got first"
    assert sorted(names[0] for names in answers) == ["bert", "bert-2", "bert-3", "bert-4"]
    assert store.list_names() == ["bert", "bert-2", "bert-3", "bert-4"]
    assert leftovers(home) == []


@pytest.mark.slow
def test_writers_of_one_name_leave_one_whole_report_and_readers_always_find_one(home: Path) -> None:
    # GIVEN a report that two writers replace again and again
    store_profile(small(), origin="/a", name="bert")
    tests = f"{Path(__file__).parent}:{Path(__file__).parents[2]}"
    arguments = [sys.executable, "-c", WRITER, tests, "/a", "bert", "25"]
    started = [subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment()) for _ in range(2)]
    # WHEN a reader looks all the while THEN the name always leads to a whole profile
    looks = 0
    while any(process.poll() is None for process in started):
        report = store.find("bert")
        assert report is not None
        profile_file.load(report.profile_path)
        looks += 1
    assert [process.returncode for process in started] == [0, 0]
    assert looks > 10
    assert store.list_names() == ["bert"]
    assert peak_of("bert") == 4096 * 25
    assert leftovers(home) == []


def test_the_page_is_rendered_once_for_the_store_and_for_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ttmem.reports import profile_files
    from ttmem.reports.kit import pages

    rendered: list[str] = []
    original = pages.render_frame
    monkeypatch.setattr(
        pages, "render_frame", lambda kind, *parts, **more: rendered.append(kind) or original(kind, *parts, **more)
    )
    profile = small()
    page = profile_files.render_html(profile)
    report = store_profile(profile, origin="/a")
    assert report.html_path.read_text("utf-8") == page
    assert rendered == ["profile"]


def test_the_store_knows_nothing_of_reports() -> None:
    import subprocess
    import sys

    code = "import sys, ttmem.profile.store; print([name for name in sys.modules if name.startswith('ttmem.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "ttmem.profile.store" in loaded
    assert not [room for room in ("reports", "analysis", "readers") if f"ttmem.{room}" in loaded]
    assert "ttmem.profile.model" not in loaded
