# SPDX-License-Identifier: Apache-2.0
"""What it costs: nothing at import, and time that grows no faster than the text."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from ttmem.failures.text.find import find_failures

pytestmark = pytest.mark.slow

OOM = (
    "Out of Memory: Not enough space to allocate 1050673152 B DRAM buffer across 12 banks, where each bank needs to "
    "store 87556096 B, but bank size is 1073741792 B (allocated: 943941568 B, free: 129800224 B, largest free block: "
)
PATHOLOGICAL = {
    "one sentence, cut, without end": OOM,
    "its first words": "Out of Memory: Not enough space to allocate ",
    "another beginning": "Statically allocated circular buffers in program 1 clash with L1 buffers on core range [",
    "text slots that never end": "OperationValidationAndFallback: Operation x failed validation (original error: ",
    "two text slots": "unique+common runtime args targeting kernel a on b on c ",
    "exceptions on one line": "TT_FATAL @ a/b.cpp:1: false info: ",
    "exceptions on many lines": "TT_FATAL @ a/b.cpp:1: false\ninfo:\nmessage\n",
    "asserts": "Always | FATAL | \nDEBUG_ASSERT @ a.cpp:1: x\n",
    "digits": "1234567890",
    "figures": "allocate 1,111,111,",
    "quotes": "> ",
    "margins": "E   ",
    "margins on lines": "E   \n",
    "blanks": " ",
    "open colours": "\x1b[1;31",
    "open brackets": "[[[[((((",
    "deaths": "Killed\nSegmentation fault\n",
    "escapes": "\\n&#10;",
    "half an expected error": "[EXPECTED_ERROR END]\n",
    "different failures": "",
}


def text_of(name: str, size: int) -> str:
    if name == "different failures":
        lines = [
            f"{OOM}{n} B)\nNumber of shards along width {n} must not exceed number of cores 7"
            for n in range(size // 300)
        ]
        return "\n".join(lines)
    unit = PATHOLOGICAL[name]
    return unit * (size // len(unit))


def seconds(text: str) -> float:
    started = time.process_time()
    find_failures(text, include_other=True)
    return time.process_time() - started


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_twice_the_text_costs_about_twice_the_time(name: str) -> None:
    # GIVEN a text that makes many false starts, at a size where a quadratic search would take minutes
    seconds(text_of(name, 20_000))
    whole = text_of(name, 2_000_000)
    half = text_of(name, 1_000_000)
    # WHEN both are read (a few tries, since other processes disturb)
    ratios: list[float] = []
    while len(ratios) < 4 and min(ratios, default=99.0) >= 3.2:
        ratios.append(seconds(whole) / max(seconds(half), 0.02))
    # THEN the ratio is about that of the sizes; quadratic time would give four
    assert min(ratios) < 3.2, (
        f"reading a text twice as long must cost about twice the time, it costs {min(ratios):.1f} times as much: "
        "look for a search that starts again at every line (a pattern without a bound, text rescanned per match)"
    )


def test_import_reads_no_file_and_compiles_no_expression() -> None:
    # GIVEN an interpreter in which what the standard library itself compiles is already there
    program = (
        "import re, sys, bisect, dataclasses, functools, itertools, importlib, typing, collections.abc\n"
        "import ttmem, ttmem.base.limits, ttmem.base.toml\n"
        "for name in [name for name in sys.modules if name.startswith('ttmem.failures')]: del sys.modules[name]\n"
        "def refuse(*args, **kwargs): raise AssertionError('compiled at import')\n"
        "re.compile = refuse\n"
        "before = set(sys.modules)\n"
        "import ttmem.failures.text.find, ttmem.failures.text.scan\n"
        "own = ('ttmem.failures', 'ttmem.base')\n"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith(own)))\n"
    )
    # WHEN / THEN nothing but our own modules is loaded
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
