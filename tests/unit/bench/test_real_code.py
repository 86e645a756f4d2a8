# SPDX-License-Identifier: Apache-2.0
"""The sample of real code: every family is drawn from, seeds differ, and what counts against ttmem is counted."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

import real_code


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for family, count in (("operations/eltwise", 40), ("operations/ccl/blackhole_CI/box", 3), ("tensor", 2)):
        folder = tmp_path / real_code.FAMILIES / family
        folder.mkdir(parents=True)
        for number in range(count):
            (folder / f"test_{number}.py").touch()
    return tmp_path


def drawn(checkout: Path, seed: str) -> list[real_code.Item]:
    return real_code._files(
        argparse.Namespace(checkout=checkout, seed=seed, files=12, board="n150", under=real_code.FAMILIES)
    )


def test_small_families_are_in_every_sample_and_seeds_differ(checkout: Path) -> None:
    first, second = drawn(checkout, "1"), drawn(checkout, "2")
    for sample in (first, second):
        assert len(sample) == 12
        assert {item.name.split("/")[0] for item in sample} == {"operations", "tensor"}
        assert {item.board for item in sample if "ccl" in item.name} == {"p150x4"}
        assert {item.board for item in sample if "ccl" not in item.name} == {"n150"}
    assert first != second
    assert first == drawn(checkout, "1")


def test_every_model_is_named_once_and_the_kinds_are_all_there() -> None:
    models = real_code._models(argparse.Namespace())
    assert len({model.slug for model in models}) == len(models) >= 12
    assert {model.kind for model in models} >= {"vision", "text", "speech"}
    assert any(model.board == "t3k" for model in models)
    assert any("trace" in model.name for model in models)


def test_the_tables_say_what_counts_against_us() -> None:
    test = {"operations": 7, "dram_peak_bytes_per_bank": 1 << 20, "l1_with_programs_bytes_per_core": 1 << 19}
    common: dict[str, Any] = {
        "kind": "vision",
        "board": "n150",
        "skipped_comparisons": 3,
        "unmeasured": 0,
        "tests": [test],
    }
    rows = [
        {**common, "name": "a", "counts": {"passed": 9, "skipped": 4}, "ours": [], "cpu_seconds": 12.0, "plain": 10.0},
        {**common, "name": "b", "counts": {"failed": 1}, "ours": ["t: died"], "cpu_seconds": 99.0, "plain": None},
    ]
    text = real_code.table(rows, "tests")
    assert "9 of 10 (90.0 %)" in text
    assert "1.20 (12 s of CPU, plain 10 s, 1 files)" in text
    assert "- b: t: died" in text
    assert "| a | vision | n150 | 9 passed, 4 skipped | 7 | 1.000 | 0.000 | 0.500 | 0 |" in real_code.models_table(rows)
