# SPDX-License-Identifier: Apache-2.0
"""The figures of the guide and of the published program, and strategies from files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.base.errors import BadInputError
from ttmem.base.expression import ExpressionError
from ttmem.circular_buffers.l1_use import HIGH, LOW, MEDIUM, heuristic, miss_band, score_band, utilisation_band
from ttmem.circular_buffers.strategies import BUILT_IN, LANGUAGE, choose, load, parse
from ttmem.circular_buffers.workload import Workload, multi

TILE_BYTES = 4096


def tiles(strategy: str, tiles_per_shard: int, r_tiles: int) -> tuple[int, ...]:
    return tuple(choose(strategy)[0].tiles_for(Workload(tiles_per_shard, r_tiles), TILE_BYTES).values())


PROGRAM = [
    # tiles per shard and R tiles, cb0/cb1/cb2/cb16, KB, miss %
    (1, (3, 1, 2, 2), 32, 0.0),
    (2, (4, 2, 2, 2), 40, 0.0),
    (4, (4, 4, 2, 2), 48, 0.0),
    (8, (4, 4, 2, 2), 48, 50.0),
    (16, (4, 4, 2, 2), 48, 75.0),
    (17, (2, 2, 2, 2), 32, 100 * 15 / 17),
    (32, (2, 2, 2, 2), 32, 93.75),
]


@pytest.mark.parametrize(("count", "expected", "kib", "miss_percent"), PROGRAM)
def test_the_program_s_adaptive_rule(count: int, expected: tuple[int, ...], kib: int, miss_percent: float) -> None:
    found = tiles("adaptive-program", count, count)
    assert found == expected
    assert sum(found) * TILE_BYTES == kib * 1024
    named = dict(zip(("cb0", "cb1", "cb2", "cb16"), found, strict=True))
    assert heuristic(named, Workload(count, count)).miss_rate_percent == pytest.approx(miss_percent)


@pytest.mark.parametrize(
    ("count", "expected", "miss_percent"),
    [
        (1, (3, 1), 0.0),
        (2, (4, 2), 0.0),
        (4, (6, 4), 0.0),
        (8, (6, 6), 25.0),
        (16, (6, 6), 62.5),
        (17, (2, 2), 100 * 15 / 17),
        (32, (2, 2), 93.75),
    ],
)
def test_the_guide_s_adaptive_rule(count: int, expected: tuple[int, int], miss_percent: float) -> None:
    found = tiles("adaptive-guide", count, count)
    assert found == (*expected, 2, 2)
    named = dict(zip(("cb0", "cb1", "cb2", "cb16"), found, strict=True))
    assert heuristic(named, Workload(count, count)).miss_rate_percent == pytest.approx(miss_percent)


@pytest.mark.parametrize("workload", multi(), ids=str)
def test_fixed_is_64_kib_whatever_the_workload(workload: Workload) -> None:
    found = choose("fixed")[0].tiles_for(workload, TILE_BYTES)
    assert found == {"cb0": 4, "cb1": 4, "cb2": 4, "cb16": 4}
    assert sum(found.values()) * TILE_BYTES == 65536


def test_the_guide_s_example_is_75_percent_and_medium() -> None:
    found = heuristic({"cb0": 4, "cb1": 4, "cb2": 4, "cb16": 4}, Workload(16, 16))
    assert (found.miss_rate_percent, found.risk) == (75.0, MEDIUM)
    assert (found.utilisation_percent, found.utilisation_band) == (87.5, LOW)


def test_the_largest_cb1_of_the_program_is_5() -> None:
    largest = {tiles("adaptive-program", shard, r)[1]: (shard, r) for shard in range(1, 41) for r in range(1, 41)}
    assert max(largest) == 5
    assert tiles("adaptive-program", 1, 5)[1] == 5


def test_by_the_guide_s_own_metric_adaptive_is_never_better_beyond_5_tiles() -> None:
    for r_tiles in range(6, 41):
        fixed, adaptive = (tiles(name, r_tiles, r_tiles)[1] for name in ("fixed", "adaptive-program"))
        assert adaptive <= fixed


@pytest.mark.parametrize(
    ("band", "expected"),
    [
        (miss_band, [(0, LOW), (24.99, LOW), (25, MEDIUM), (75, MEDIUM), (75.01, HIGH)]),
        (score_band, [(29, LOW), (30, MEDIUM), (70, MEDIUM), (71, HIGH)]),
        (utilisation_band, [(80.1, LOW), (80, MEDIUM), (40, MEDIUM), (39.9, HIGH)]),
    ],
)
def test_bands(band: object, expected: list[tuple[float, str]]) -> None:
    assert [(value, band(value)) for value, _ in expected] == expected  # type: ignore[operator]


@pytest.mark.parametrize(
    ("count", "name"),
    [(1, "small"), (8, "small"), (9, "medium"), (16, "medium"), (17, "large"), (32, "large"), (33, "very large")],
)
def test_workload_classes(count: int, name: str) -> None:
    assert Workload(count, count).class_name == name
    assert Workload(1, count).class_name == name


@pytest.mark.parametrize("counts", [(0, 1), (1, 0), (-4, 4), (4, 1_000_001)])
def test_impossible_workloads_are_refused(counts: tuple[int, int]) -> None:
    with pytest.raises(BadInputError, match="must be from 1 to"):
        Workload(*counts)


def test_adaptive_means_both_readings() -> None:
    assert [one.name for one in choose("adaptive")] == ["adaptive-guide", "adaptive-program"]
    assert [one.name for one in choose("all")] == list(BUILT_IN)


def test_a_strategy_from_a_file(tmp_path: Path) -> None:
    # GIVEN a rule that spends a budget on cb1
    path = tmp_path / "mine.toml"
    path.write_text(
        '[let]\nbudget = "64 * 1024 // tile_bytes"\n'
        '[tiles]\ncb0 = 2\ncb1 = "min(r_tiles, budget - 6)"\ncb2 = 2\ncb16 = "2"\ncb24 = "cb0 + 1"\n'
    )
    # WHEN it is applied
    strategy = load(path)
    found = strategy.tiles_for(Workload(16, 16), 4096)
    # THEN it is called after its file, and later rules see earlier buffers
    assert strategy.name == "mine"
    assert found == {"cb0": 2, "cb1": 10, "cb2": 2, "cb16": 2, "cb24": 3}


GOOD = "[tiles]\ncb0 = 1\ncb1 = 1\ncb2 = 2\ncb16 = 1\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tiles = 3", "tiles is a table"),
        ("not toml", "is not TOML"),
        ("[tiles]\ncb0 = 1", "says nothing of cb1, cb2, cb16"),
        (GOOD + "wide = 1", "buffers are called cb0"),
        (GOOD.replace("cb0 = 1", "cb0 = 1.5"), "neither a whole number nor an expression"),
        (GOOD.replace("cb0 = 1", "cb0 = true"), "neither a whole number nor an expression"),
        ("name = 3\n" + GOOD, "name and about are texts"),
        ("other = 3\n" + GOOD, "unknown key 'other'"),
    ],
)
def test_a_bad_strategy_file_says_what_and_where(text: str, complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint) as error:
        parse(text.encode(), where="x.toml", default_name="x")
    assert str(error.value).startswith("x.toml: ")


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("0", "gets 0 tiles"),
        ("70000", "gets 70000 tiles"),
        ("tiles", "unknown name 'tiles'"),
        ("r_tiles // 0", "divides by zero"),
        ("__import__('os')", "not part of the language"),
        ("r_tiles ** 2", "not part of the language"),
        ("min(3)", "two or more values"),
        ("1 +", "cannot be read"),
        ("9" * 30, "more than 62 bits"),
        ("(" * 400 + "1" + ")" * 400, "cannot be read"),
        ("1 in (1, 2)", "not part of the language"),
    ],
)
def test_a_bad_rule_says_what_and_where(rule: str, complaint: str) -> None:
    strategy = parse(GOOD.replace("cb1 = 1", f'cb1 = "{rule}"').encode(), where="x.toml", default_name="x")
    with pytest.raises(BadInputError, match=complaint):
        strategy.tiles_for(Workload(4, 4), 4096)


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(1, 50))
def test_expressions_mean_what_python_means(a: int, b: int, c: int) -> None:
    names = {"a": a, "b": b, "c": c}
    for text in ("a + b * c", "a // c - b % c", "min(a, b, c)", "max(a, -b)", "a if a > b else c", "a < b <= c"):
        assert LANGUAGE.evaluate(text, names) == eval(text, {"__builtins__": {"min": min, "max": max}}, dict(names))
    assert bool(LANGUAGE.evaluate("a > b and not b > c or a == c", names)) == ((a > b and not b > c) or a == c)


@given(st.text(max_size=60))
def test_any_text_gives_a_number_or_a_complaint(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        assert isinstance(LANGUAGE.evaluate(text, {"a": 1}), int)
