# SPDX-License-Identifier: Apache-2.0
"""A guard inside a program: it says before an operation what the library says when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.prediction.scripts import on_mock
from ttmem.engines.interpreters import Interpreter

_PROGRAM = """
    import warnings
    from ttmem.prediction.guard import MemoryGuardWarning, WontFitError

    a, b, big = tensor(1, 8, 1024, 1024), tensor(1, 8, 1024, 1024), tensor(1, 64, 1024, 1024)
    guard = ttmem.guard(device, "raise")
    verdict = guard.check(ttnn.matmul, a, b)
    product = ttnn.matmul(a, b)
    told["exact"] = [verdict.fits, verdict.confidence, verdict.peak_bytes_per_bank["DRAM"] == held()]

    def words(fails):
        try:
            fails()
        except WontFitError as error:
            return ["ttmem", error.message.partition("Out of Memory")[2].rstrip(".")]
        except RuntimeError as error:
            lines = [line for line in str(error).splitlines() if "Out of Memory" in line]
            return ["ttnn", lines[0].partition("Out of Memory")[2].rstrip(".")]

    into_l1 = lambda: ttnn.relu(big, memory_config=ttnn.L1_MEMORY_CONFIG)
    with guard:
        told["guarded"] = words(into_l1)
        ttnn.relu(big)
        told["unknown"] = guard.check("ttnn.frobnicate", big).fits
    told["counts"] = [guard.checked, len(guard.findings), guard.findings[0].memory]
    told["library"] = words(into_l1)

    with warnings.catch_warnings(record=True) as heard, ttmem.guard(device):
        warnings.simplefilter("always")
        told["tried all the same"] = words(into_l1)[0]
    told["warned"] = [str(one.message)[:9] for one in heard if one.category is MemoryGuardWarning]

    seen = []
    with ttmem.guard(device, seen.append, limit={"DRAM": "20MiB"}):
        ttnn.relu(a)
        ttnn.add(big, big)
    told["limit"] = [one.message for one in seen]
    sharded = ttnn.create_sharded_memory_config((1, 1, 2048, 64), ttnn.CoreGrid(y=8, x=8), ttnn.ShardStrategy.HEIGHT)
    told["sharded"] = guard.check(ttnn.to_memory_config, tensor(1, 1, 2048, 64), sharded).fits
    told["held"] = guard.check(ttnn.relu, tensor(1, 1, 32, 32), memory_config=ttnn.L1_MEMORY_CONFIG).fits
    for wrong in ("much", {"DRAM": "a lot"}, {"NOWHERE": "1%"}):
        try:
            ttmem.guard(device, limit=wrong)
        except ttmem.TtmemError as error:
            told.setdefault("wrong", []).append(bool(error.hint))
"""


def test_a_guard_knows_before_what_the_library_says_after(
    tmp_path: Path, with_ttnn: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, _ = on_mock(_PROGRAM, tmp_path, monkeypatch)
    assert told["exact"] == [True, "exact", True]
    assert told["guarded"][0] == "ttmem"
    assert told["library"] == ["ttnn", told["guarded"][1]]
    assert told["counts"] == [2, 1, "L1"]
    assert told["unknown"] is None
    assert told["tried all the same"] == "ttnn"
    assert told["warned"] == ["ttnn.relu"]
    assert len(told["limit"]) == 1
    assert "over the limit of 20971520 B" in told["limit"][0]
    assert told["sharded"] is True
    assert told["held"] is True
    assert told["wrong"] == [True, True, True]
