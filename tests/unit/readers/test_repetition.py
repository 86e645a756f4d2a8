# SPDX-License-Identifier: Apache-2.0
"""Streams that print one text over and over are recognised; every other stream is not."""

from __future__ import annotations

import random

import pytest

from support.command_line import FIVE_RUNS, command_line, environment
from ttmem.readers.unpacking import Repetition

MIB = 1 << 20


def text_of(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def established(text: bytes, step: int) -> bool:
    found = Repetition()
    for at in range(0, len(text), step):
        found.take(text[at : at + step])
    return found.is_established


@pytest.mark.parametrize("step", [1_000, 32_768, MIB, MIB + 7])
@pytest.mark.parametrize("size", [1, 63, 16_384, 70_001, 3 * MIB])
def test_a_text_of_any_length(size: int, step: int) -> None:
    copies = 50 * MIB // size
    assert established(text_of(size) * copies, step)
    # THEN as well behind something else
    assert established(text_of(200_000, 1) + text_of(size) * copies, step)


@pytest.mark.parametrize("size", [70_001, 3 * MIB])
def test_a_text_whose_beginning_comes_again_in_it(size: int) -> None:
    text = b"a line\n" * 20_000 + text_of(size)
    assert established(text * (60 * MIB // len(text)), MIB)


def test_what_does_not_repeat() -> None:
    assert not established(text_of(40 * MIB), MIB)
    assert not established(text_of(12 * MIB) * 3, MIB), "three times is no loop"
    # WHEN a loop counts its steps
    body = text_of(50_000)
    assert not established(b"".join(b"step %d\n%s" % (number, body) for number in range(800)), MIB)
    # WHEN it ends, and something else follows
    assert not established(text_of(70_001) * 600 + text_of(200_000, 1), MIB)


def repeat_log(verb: list[str]) -> tuple[int, str, float]:
    """What comes of a pipe that repeats a log of 1.1 MiB: the exit code, all that is printed, seconds of CPU time."""
    import gzip
    import resource
    import subprocess
    import sys
    from tempfile import TemporaryFile

    writer = "import sys\ntext = sys.stdin.buffer.read()\ntry:\n    while True: sys.stdout.buffer.write(text)\n"
    writer += "except BrokenPipeError: sys.stderr.close()"
    with TemporaryFile() as log:
        log.write(gzip.decompress(FIVE_RUNS.read_bytes()))
        log.seek(0)
        with subprocess.Popen(
            [sys.executable, "-c", writer], stdin=log, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as source:
            assert source.stdout is not None
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            ran = subprocess.run(
                command_line(*verb), stdin=source.stdout, capture_output=True, timeout=120, check=False,
                env=environment(),
            )  # fmt: skip
            seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            source.stdout.close()
            source.wait(timeout=20)
    return ran.returncode, " ".join((ran.stdout + ran.stderr).decode().split()), seconds


@pytest.mark.parametrize(
    "verb", [["profile", "-", "--no-store"], ["explain", "-"], ["check", "-", "--max-dram", "50%"]]
)
def test_a_pipe_that_repeats_a_log_is_left_soon(verb: list[str]) -> None:
    code, printed, seconds = repeat_log(verb)
    assert code == (2 if verb[0] == "check" else 0), printed
    assert printed.count("no more is read of a stream that repeats itself") == 1
    assert "Traceback" not in printed
    assert seconds < 30  # reading 1 GiB took 60
