# SPDX-License-Identifier: Apache-2.0
"""The public messages that the tests share, and the ways in which people and tools mangle them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

DATA = Path(__file__).parents[1] / "data" / "explain"


@dataclass(frozen=True)
class Case:
    """A message of a public thread with its label; None where the thread's figures leave the class open."""

    thread: str
    message: str
    label: str | None


CASES = [Case(c["thread"], c["message"], c["class"]) for c in json.loads((DATA / "cases.json").read_text())]

PREFIXES = [
    "E       ",
    "E               ",
    "(EngineCore pid=57085) ",
    "(EngineCore_DP0 pid=230) ERROR 10-23 04:15:50 [engine.py:187] ",
    "ERROR 08-06 23:01:23 [engine.py:453] ",
    "[ctest] ",
    "2026-05-14T01:00:31.7551234Z ",
    "2026-05-14T01:00:31.755123+00:00 ",
    "[1,0]<stdout>:",
    "[1,1]<stderr>: ",
    "[gw3] ",
    "> ",
    "    ",
    "",
]
COLOURS = ["\x1b[0m", "\x1b[1m", "\x1b[38;5;240m", "\x1b[31m", "\x1b[1;31m", "\x1b[K"]
PJRT_LINES = """\
2026-05-14 01:00:31.802 (2408.930s) [        4F4456C0]                utils.h:62     ERR| Exception:
{{TT_FATAL @ /__w/tt-xla/tt_metal/impl/allocator/bank_manager.cpp:462: false
info:
{}
backtrace:
 --- tt::tt_metal::BankManager::allocate_buffer(unsigned long)
}}"""
ENVELOPES = [
    "2026-05-14 01:00:31.755 | critical |          Always | TT_FATAL: {} (assert.hpp:104)",
    "2025-10-27 10:48:41.750 | critical |          Always | {} (assert.hpp:103)",
    "                 Always | FATAL    | {}",
    PJRT_LINES,
    "RuntimeError: TT_THROW @ tt_metal/impl/program/program.cpp:1779: tt::exception\ninfo:\n{}\nbacktrace:\n --- x",
    'unknown file: Failure\nC++ exception with description "TT_THROW @ a/program.cpp:1: tt::exception\ninfo:\n{}\n"',
    "FAILED tests/test_x.py::test_y[batch_size=8] - RuntimeError: {}",
]


def core(message: str) -> str:
    """A message without an envelope of its own, so that another can be put around it."""
    message = re.sub(r"^(?:\w*Error: |Exception: |error: |TT_\w+: )+", "", message)
    return re.sub(r" *\(\w+\.[ch]pp:\d+[^)]*\)$", "", message)


def with_separators(message: str) -> str:
    """1048576 -> 1,048,576 wherever a figure has more than three digits."""
    return re.sub(r"(?<![\d.:])\d{4,}", lambda figure: f"{int(figure[0]):,}", message)


@st.composite
def mangled(draw: st.DrawFn, message: str) -> str:
    """The message in one or more envelopes, wrapped, prefixed, coloured, with thousands separators."""
    text = core(message)
    if draw(st.booleans()):
        text = with_separators(text)
    prints = []
    for envelope in draw(st.lists(st.sampled_from([*ENVELOPES, "{}"]), min_size=1, max_size=3)):
        printed = envelope.format(text)
        blanks = [match.start() for match in re.finditer(" ", printed)]
        breaks = draw(st.sets(st.sampled_from(blanks), max_size=6)) if blanks else set()
        prints.append("".join("\n" if index in breaks else char for index, char in enumerate(printed)))
    prefix = draw(st.sampled_from(PREFIXES))
    lines = [prefix + line for line in "\n".join(prints).split("\n")]
    joined = draw(st.sampled_from(["\n", "\r\n"])).join(lines)
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, len(joined)))
        joined = joined[:position] + draw(st.sampled_from(COLOURS)) + joined[position:]
    return joined
