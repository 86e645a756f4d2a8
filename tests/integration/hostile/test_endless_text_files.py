# SPDX-License-Identifier: Apache-2.0
"""Text files without an end, and larger than any real one: one line, exit 2, in seconds and little memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import Result, command_line, environment

MOST_BYTES = 3 << 30
"""Of address space: to read all there is would end in a MemoryError."""

VERBS = [
    ["fit", "--list", "FILE", "--boards", "n150", "-o", "atlas"],
    ["fit", "config.json", "--recipe", "FILE", "--engine", "twin"],
    ["ops", "map", "FILE"],
    ["ops", "tests", "FILE", "-o", "tests"],
    ["ops", "extract", "FILE", "-o", "cases"],
    ["sweep", "run", "FILE", "--engine", "twin", "-o", "results"],
    ["sweep", "diff", "FILE", "FILE"],
    ["cb", "analyze", "kernels", "--strategy", "FILE"],
    ["replay", "FILE"],
]


def limited(words: list[str], folder: Path, stdin: int = subprocess.DEVNULL) -> Result:
    """The verb, in a folder, without the memory that an endless file would take."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))

    ran = subprocess.run(
        command_line(*words), stdin=stdin, capture_output=True, timeout=60, check=False, cwd=folder,
        env=environment(), preexec_fn=bound, text=True, errors="replace",
    )  # fmt: skip
    return Result(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "kernels").mkdir()
    (tmp_path / "endless").symlink_to("/dev/zero")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(20 << 30)
    return tmp_path


@pytest.mark.parametrize("file", ["/dev/zero", "endless", "sparse"])
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_file_without_an_end_is_refused(verb: list[str], file: str, folder: Path) -> None:
    ran = limited([file if word == "FILE" else word for word in verb], folder)
    assert (ran.code, ran.out) == (2, "")
    assert "internal error" not in ran.err
    assert "MemoryError" not in ran.err
    assert len([line for line in ran.err.splitlines() if "error:" in line]) == 1


@pytest.mark.parametrize(
    "verb", [["ops", "map"], ["ops", "extract", "-o", "cases"], ["fit", "--boards", "n150", "-o", "a", "--list"]]
)
def test_a_pipe_without_an_end_is_refused(verb: list[str], folder: Path) -> None:
    writer = "import os\ntry:\n    while True: os.write(1, b'# a line\\n' * 9999)\nexcept BrokenPipeError: pass"
    with subprocess.Popen([sys.executable, "-c", writer], stdout=subprocess.PIPE) as source:
        assert source.stdout is not None
        ran = limited([*verb, "/dev/stdin"], folder, source.stdout.fileno())
        source.stdout.close()
    assert ran.code == 2
    assert "is larger than" in ran.err


def test_a_journal_and_sources_that_are_devices(folder: Path) -> None:
    (folder / "atlas").mkdir()
    (folder / "atlas" / "journal.jsonl").symlink_to("/dev/zero")
    (folder / "list.txt").write_text("hf:ViTConfig\n")
    ran = limited(["fit", "--list", "list.txt", "--boards", "n150", "-o", "atlas"], folder)
    assert (ran.code, "journal.jsonl: is a device" in ran.err) == (2, True)
    # AND among C++ files it is one that was skipped
    (folder / "kernels" / "reader.cpp").symlink_to("/dev/zero")
    ran = limited(["cb", "scan", "kernels"], folder)
    assert (ran.code, "is a device of this machine" in ran.out) == (0, True)
    # AND a script that has no end is not run
    ran = limited(["run", "/dev/zero"], folder)
    assert (ran.code, "is a device of this machine" in ran.err) == (125, True)
