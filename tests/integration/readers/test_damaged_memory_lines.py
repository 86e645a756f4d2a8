# SPDX-License-Identifier: Apache-2.0
"""Memory lines that reached the log damaged: a gate answers with the true figure, or with exit 2; it never passes."""

from __future__ import annotations

import json
import random
import re
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import ttmem
from support.command_line import call
from support.examples import examples
from support.log_lines import Log, profile_of_bytes
from support.profile_questions import names, states
from ttmem.analysis.peaks import peaks
from ttmem.base.errors import BadInputError
from ttmem.profile.model import UNREAD
from unit.readers.test_states import ADD, RELU, SMALL_RUN_STATES, small_run

MIB = 1 << 20
OPERATIONS = ["ttnn.get_device", "ttnn.add", "ttnn.relu", "ttnn.deallocate"]


def run_of(dram: float, **options: object) -> str:
    """A run that reaches this much of DRAM, MiB per bank."""
    log = Log(**options)  # type: ignore[arg-type]
    log.start()
    log.op(ADD, 2.0, l1=0.125)
    log.op(RELU, dram, l1=0.25)
    log.free("%2", "tensor<1xbf16>", 2.0)
    log.finish()
    return log.bytes().decode()


def hard(text: str, width: int) -> str:
    lines = (line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width))
    return "\n".join(lines)


def at_words(text: str, width: int) -> str:
    return "\n".join("\n".join(textwrap.wrap(line, width, break_on_hyphens=False)) for line in text.split("\n"))


@pytest.mark.parametrize("wrap", [hard, at_words], ids=["letters", "words"])
@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_wrapped_lines_are_read(wrap: Callable[[str, int], str], width: int) -> None:
    profile = profile_of_bytes(wrap(small_run(Log()).bytes().decode(), width).encode())
    assert [row[3] for row in states(profile)] == [row[3] for row in SMALL_RUN_STATES]
    assert UNREAD not in profile.facts
    if wrap is hard:
        assert names(profile) == OPERATIONS
        assert profile.source.unrecognised_lines == 0


@pytest.mark.parametrize("width", [80, 120])
def test_wrapped_lines_of_two_ranks_are_read(width: int) -> None:
    first = hard(run_of(900.0, prefix="[1,0]<stdout>:"), width)
    second = hard(run_of(300.0, prefix="[1,1]<stdout>:"), width)
    profile = profile_of_bytes((first + second).encode())
    assert {t.rank: max(row[3] for row in states(profile, timeline=t)) for t in profile.timelines} == {0: 900, 1: 300}


def thousands_comma(text: str) -> str:
    return re.sub(r"(\d+)(\d{3})\.(\d{3}) MB", r"\1,\2.\3 MB", text)


NOTATIONS = {
    "MiB": lambda text: text.replace(" MB", " MiB"),
    "thousands comma": thousands_comma,
    "decimal comma": lambda text: re.sub(r"(\d)\.(\d{3}) MB", r"\1,\2 MB", text),
    "German": lambda text: re.sub(
        r"([\d,]+)\.(\d{3}) MB", lambda m: f"{m[1].replace(',', '.')},{m[2]} MB", thousands_comma(text)
    ),
    "French": lambda text: re.sub(r"(\d)(\d{3})\.(\d{3}) MB", "\\1\u202f\\2,\\3 MB", text).replace(
        ".000 MB", ",000 MB"
    ),
    "coloured figures": lambda text: re.sub(r"(\d+\.\d{3})", "\x1b[01;31m\x1b[K\\1\x1b[m\x1b[K", text),
}


@pytest.mark.parametrize("notation", NOTATIONS)
def test_figures_in_another_notation_are_read_or_refused(notation: str, tmp_path: Path) -> None:
    good, new = tmp_path / "good.log", tmp_path / "new.log"
    good.write_text(run_of(6.0))
    new.write_text(NOTATIONS[notation](run_of(900.0)))
    dram = peaks(ttmem.read(new)).get("DRAM")
    assert dram is not None
    assert dram.peak_bytes_per_bank == 900 * MIB
    check = call("check", new, "--baseline", good, "--max-growth", "0%")
    assert check.code == 1, check
    assert call("diff", good, new, "--fail-on", "5%").code == 1
    # AND the other way round what is not known is no change
    assert call("diff", new, new, "--fail-on", "5%").code in (0, 2)


def test_figures_that_could_be_thousands_are_not_guessed() -> None:
    # GIVEN figures without any that shows whether the comma stands before decimals
    line = (
        "                 Always |     INFO | Device DRAM memory state: MemoryView{numBanks: 8, totalBytesPerBank: "
        "4,075 MB, totalBytesAllocatedPerBank: 1,005 MB, totalBytesFreePerBank: 3,070 MB, "
        "largestContiguousBytesFreePerBank: 3,000 MB}\n"
    )
    with pytest.raises(BadInputError, match=r"1 memory line of DRAM could not be read: .*run\.log:1"):
        profile_of_bytes(line.encode())


def damaged(text: str, damage: str, chance: random.Random) -> str:
    """The log with some of its memory lines damaged."""
    lines = text.split("\n")
    for at in [at for at, line in enumerate(lines) if "MemoryView{" in line and chance.random() < 0.7]:
        line = lines[at]
        place = chance.randrange(line.index("Device"), len(line))
        if damage == "cut":
            lines[at] = line[:place]
        elif damage == "digit lost":
            digits = [found.start() for found in re.finditer(r"\d", line)]
            place = chance.choice(digits)
            lines[at] = line[:place] + line[place + 1 :]
        elif damage == "stderr inside":
            lines[at] = f"{line[:place]}UserWarning: step 12\n{line[place:]}"
        elif damage == "split":
            lines[at] = f"{line[:place]}\n{line[place:]}"
        elif damage == "letters":
            lines[at] = line.replace("MemoryView", "Memory View").replace("PerBank", "Per Bank")
        elif damage == "lost":
            lines[at] = ""
    return "\n".join(lines)


@examples(300, suppress_health_check=[HealthCheck.too_slow])
@given(
    damage=st.sampled_from(["cut", "digit lost", "stderr inside", "split", "letters", "wrap", "wrap words", "none"]),
    prefix=st.sampled_from(["", "2026-05-14T01:00:31.7551234Z ", "[1,0]<stdout>:", "Nov 19 17:43:35 host app[12]: "]),
    colours=st.booleans(),
    notation=st.sampled_from([None, *NOTATIONS]),
    width=st.integers(15, 260),
    seed=st.integers(0, 1 << 30),
)
def test_a_gate_never_passes_on_figures_that_it_could_not_read(
    damage: str, prefix: str, colours: bool, notation: str | None, width: int, seed: int
) -> None:
    # GIVEN a run that grew from 6 to 900 MiB, whose memory lines were damaged on their way
    before = profile_of_bytes(run_of(6.0).encode())
    text = run_of(900.0, prefix=prefix, colours=colours)
    text = NOTATIONS[notation](text) if notation else text
    if damage.startswith("wrap"):
        text = (at_words if damage == "wrap words" else hard)(text, width)
    else:
        text = damaged(text, damage, random.Random(seed))
    # WHEN a gate asks THEN it sees the growth, or refuses to answer
    with suppress(BadInputError):
        after = profile_of_bytes(text.encode())
        assert not ttmem.check(after, baseline=before, max_growth="5%").ok
        assert UNREAD in after.facts or peaks(after)["DRAM"].peak_bytes_per_bank == 900 * MIB
    with suppress(BadInputError):
        assert ttmem.diff(before, profile_of_bytes(text.encode()), fail_on="5%").regression


def test_the_lines_that_could_not_be_read_are_named(tmp_path: Path) -> None:
    # GIVEN a log in which one of four DRAM lines is cut, and a run that is otherwise within its limits
    good, new = tmp_path / "good.log", tmp_path / "new.log"
    good.write_text(run_of(6.0))
    lines = run_of(6.0).split("\n")
    number = [at for at, line in enumerate(lines) if "Device DRAM" in line][1]
    lines[number] = lines[number][:100]
    new.write_text("\n".join(lines))
    place = f"1 memory line of DRAM could not be read: {new}:{number + 1}"
    for command in (
        ["check", new, "--max-dram", "80%"],
        ["check", new],
        ["check", new, "--baseline", good],
        ["diff", good, new, "--fail-on", "5%"],
    ):
        ran = call(*command)
        assert (ran.code, ran.out) == (2, ""), command
        assert place in ran.err
    # AND a limit that the figures which were read break already is broken
    assert call("check", new, "--max-dram", "0.1%").code == 1
    # AND other memories are judged as ever
    assert call("check", new, "--max-l1", "80%").code == 0
    # AND without a limit the comparison is shown, with what it leaves out
    shown = call("diff", good, new)
    assert shown.code == 0
    assert place in " ".join(shown.out.split()).replace(" :", ":") or "could not be read" in shown.out


def test_an_incomplete_baseline_decides_nothing_against_a_run(tmp_path: Path) -> None:
    # GIVEN a baseline of which the peak is missing: growth over it is not sure, its absence is
    before, after = tmp_path / "before.log", tmp_path / "after.log"
    lines = run_of(900.0).split("\n")
    number = [at for at, line in enumerate(lines) if "Device DRAM" in line][1]
    lines[number] = lines[number][:100]
    before.write_text("\n".join(lines))
    after.write_text(run_of(6.0))
    assert call("diff", before, after, "--fail-on", "5%").code == 2
    assert call("check", after, "--baseline", before).code == 2
    after.write_text(run_of(2.0))
    assert call("diff", before, after, "--fail-on", "5%").code == 0


def test_a_memory_of_one_profile_alone_has_not_shrunk(tmp_path: Path) -> None:
    # GIVEN the same log with and without its L1 lines
    with_l1, without = tmp_path / "with.log", tmp_path / "without.log"
    with_l1.write_text(run_of(6.0))
    without.write_text("".join(line + "\n" for line in run_of(6.0).splitlines() if "Device L1 " not in line))
    shown = call("diff", with_l1, without, "--json")
    l1 = json.loads(shown.out)["memories"]["L1"]
    assert (shown.code, l1["before"], l1["after"]) == (0, MIB // 4, None)
    assert (l1["delta_bytes_per_bank"], l1["delta_percent"]) == (None, None)
    text = call("diff", with_l1, without).out
    assert "-100" not in text
    assert "unknown" in text
    for command in (
        ["diff", with_l1, without, "--fail-on", "5%"],
        ["diff", without, with_l1, "--fail-on", "5%"],
        ["check", without, "--baseline", with_l1],
    ):
        ran = call(*command)
        assert ran.code == 2
        assert "L1 is known in" in ran.err


def test_a_source_without_one_readable_memory_line_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(run_of(6.0).replace(" MB", " megabytes"))
    ran = call("profile", path, "--no-store")
    assert (ran.code, ran.out) == (2, "")
    assert f"{path}:4" in ran.err


@pytest.mark.parametrize("is_coloured", [False, True])
def test_a_log_that_is_cut_within_its_last_state_passes_no_gate(is_coloured: bool, tmp_path: Path) -> None:
    # GIVEN a log whose last operation has a state, cut anywhere in that
    log = Log(colours=is_coloured)
    log.start()
    for dram in (2.0, 3.0, 900.0):
        log.op(RELU, dram, l1=0.25)
    text = log.bytes()
    last = text.rindex(b"Executing operation")
    begin = text.index(b"\n", last) + 1
    record = begin + text[begin:].index(b"Always") + 3
    end = text.rindex(b"Device DRAM memory state") + 100
    for cut in {*range(record, record + 150), *range(record + 150, end, 37)}:
        try:
            profile = profile_of_bytes(text[:cut])
        except BadInputError:
            continue
        assert profile.facts.get(UNREAD), text[begin:cut]
    # THEN the gate names the line
    path = tmp_path / "cut.log"
    path.write_bytes(text[: text.rindex(b"Device memory state before") + 27])
    ran = call("check", path, "--max-growth", "0%", "--baseline", path)
    assert (ran.code, ran.out) == (2, "")
    assert f"{path}:{text[:begin].count(10) + 1}" in ran.err
