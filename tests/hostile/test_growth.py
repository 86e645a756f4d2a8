# SPDX-License-Identifier: Apache-2.0
"""Time grows with the size of a log and with nothing else, whatever the log is made of.

CPU time of a forked process, without its start; ratios of the same run. The long version is ``make fuzz``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fuzz.children import Child, Limits
from fuzz.patterns import KNOWN, Pattern, draw

_BYTES = 150_000
_NOISE_SECONDS = 0.15
_MOST_SECONDS = 4.0
VERBS = {"profile": ("profile", "--no-store", "--json"), "explain": ("explain", "--json")}


def _seconds(child: Child, verb: str, path: Path) -> float:
    ran = child.run([*VERBS[verb], path], limits=Limits(cpu_seconds=30))
    assert ran.code in (0, 2), (ran.code, ran.err[-300:])
    assert b"internal error" not in ran.err, ran.err
    return ran.cpu_seconds


def _check(child: Child, verb: str, pattern: Pattern, folder: Path) -> None:
    """Twice the input at most 2.3 times the time; a second and third look where another process disturbed the first."""
    half, whole = folder / "half.log", folder / "whole.log"
    half.write_bytes(pattern.text(_BYTES))
    whole.write_bytes(pattern.text(2 * _BYTES))
    halves, wholes = [], []
    for _ in range(3):
        halves.append(_seconds(child, verb, half))
        wholes.append(_seconds(child, verb, whole))
        if min(wholes) <= min(2.3 * min(halves) + _NOISE_SECONDS, _MOST_SECONDS):
            return
    pytest.fail(f"{verb} took {min(halves):.2f} s, and {min(wholes):.2f} s for twice as much of {pattern}")


@pytest.mark.parametrize("name", KNOWN)
def test_known_patterns(child: Child, name: str, tmp_path: Path) -> None:
    for verb in VERBS:
        _check(child, verb, KNOWN[name], tmp_path)


@pytest.mark.parametrize("seed", range(10))
def test_random_patterns(child: Child, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    _check(child, chance.choice(list(VERBS)), draw(chance), tmp_path)
