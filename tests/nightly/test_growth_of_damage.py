# SPDX-License-Identifier: Apache-2.0
"""Records that were damaged or wrapped cost time in proportion to the log, whatever follows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fuzz.children import Child
from fuzz.patterns import LINES, Pattern
from nightly.test_growth import FOLLOW, VERBS, _check

_OPERATION, _VIEW = LINES[0], next(line for line in LINES if "Device DRAM" in line)
_HEADER = "                 Always |     INFO | "
_JSON = json.dumps({"log": "@", "stream": "stdout"})[:-1].replace("{", "{{").replace("@", "{i} a line")


def _wrapped(line: str, width: int) -> tuple[str, ...]:
    """Widths of 90 and more leave the fields to fill in whole."""
    return tuple(line[at : at + width] for at in range(0, len(line), width))


PATTERNS = {
    "views over two lines": Pattern(_VIEW[:120], "", "", 1, (_VIEW[120:],)),
    "views that never end": Pattern(_VIEW[:120], "", "", 1, ("totalBytesFreePerBank: ", "{i} somebody else's line")),
    "beginnings of records": Pattern(_HEADER, "", "", 1),
    "beginnings of views": Pattern(_HEADER + "Device DRAM mem", "", "", 1, ("{i} somebody else's line",) * 70),
    "operations over lines": Pattern(_OPERATION[:100], "", "", 1, _wrapped(_OPERATION[100:], 100)),
    "operations that are cut": Pattern(_OPERATION[:100], "", "", 1, ("{i} somebody else's line",) * 70),
    "figures of other countries": Pattern(_VIEW.replace(".000 MB", ",000 MB"), "", "", 1),
    "figures that could be thousands": Pattern(_VIEW.replace("{i}.000 MB", "{i} MB"), "", "", 1),
    "HTML": Pattern(_OPERATION.replace('"', "&quot;").replace("<", "&lt;"), "", "", 1),
    "one line of tags": Pattern(_HEADER + "Executing operation: &quot;", "<a ", "", 0),
    "one line of escapes": Pattern(_HEADER + "Executing operation: ", "\x1b[0;", "", 0),
    "entries of Docker": Pattern(_JSON + "}}", "", "", 1, (), ""),
    "entries of Docker that go on": Pattern('{{"log": "{i}"}}', "", "", 1, (), '{"log": "a"}'),
    "an entry of Docker without an end": Pattern('{{"log": "', "{{", "", 0, (), '{"log": "a"}'),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_damaged_records(child: Child, name: str, tmp_path: Path) -> None:
    for verb in (VERBS["profile"], FOLLOW):
        _check(child, verb, PATTERNS[name], tmp_path)
