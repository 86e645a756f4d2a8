# SPDX-License-Identifier: Apache-2.0
"""Whose values an assertion speaks of: a test's own are judged, those of a mock are not, after the device was read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import call
from ttmem.engines.interpreters import Interpreter

SUITE = """
import math
import threading

import numpy as np
import pytest
import ttnn

LIMIT, SEEN = 3, []


def read(device):
    x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    return ttnn.add(x, x).cpu().to_list()

def golden(x):
    return x * 2

def close(a, b):
    assert abs(a - b) < 0.1

def check_sum(a, b, expected):
    assert ttnn.add(a, b).cpu().to_list()[0][0] == expected


# Of the test's own, which is wrong: all fail.
@pytest.mark.parametrize("factor", [3])
@pytest.mark.parametrize("way", range(13))
def test_own(device, way, factor):
    values = read(device)
    print(values[0][0])
    if way == 0:
        assert golden(factor) == 7
    if way == 1:
        assert np.arange(4).sum() == 7
    if way == 2:
        np.testing.assert_allclose(np.ones(4), np.zeros(4))
    if way == 3:
        assert np.allclose(np.zeros(4), np.ones(4))
    if way == 4:
        close(1.0, 2.0)
    if way == 5:
        pytest.fail("always")
    if way == 6 and LIMIT > 2:
        raise ValueError("own")
    for number in range(3):
        assert way != 7 or number < 2
    seen = []
    seen.append(factor)
    assert way != 8 or seen == [4]
    limit = {"rows": 4}
    assert way != 9 or limit["rows"] == 5
    if way == 11:
        print(1 / (factor - 3))
    if way == 12:
        math.log(-1.0)
    got, wanted = values, factor
    assert way != 10 or wanted == 4


class Kept:
    def __init__(self, value):
        self.value = value

    def is_two(self):
        return self.value == 2.0


# Of the device's, which only a card can meet: none is judged.
def test_number(device):
    most = max(map(max, read(device)))
    assert most == 2.0

def test_made_of_one_that_is_gone(device):
    values = np.array(read(device))
    total = float(values.sum())
    values = np.zeros(3)
    assert total > 5

def test_array(device):
    assert (np.array(read(device)) * 2).sum() == 7

def test_copy(device):
    np.testing.assert_allclose(np.array(read(device)), np.ones((32, 32)))

def test_flag(device):
    good = True
    if read(device)[0][0] < 1:
        good = False
    assert good

def test_list_of_errors(device):
    errors = []
    for place, row in enumerate(read(device)):
        if abs(row[0] - 2) > 0.1:
            errors.append(f"bad {place}")
    assert not errors, errors

def test_counted(device):
    bad = 0
    for row in read(device):
        bad += row[0] != 2
    if bad:
        pytest.fail("bad")

def test_helper(device):
    close(read(device)[0][0], 2.0)

def test_thread(device):
    found = {}
    worker = threading.Thread(target=lambda: found.update(first=read(device)[0][0]))
    worker.start()
    worker.join()
    assert found["first"] == 2.0

def test_global(device):
    SEEN.append(read(device)[0][0])
    assert SEEN[0] == 2.0

def test_object(device):
    assert Kept(read(device)[0][0]).is_two()

def test_early_return(device):
    if read(device)[0][0] == 2.0:
        return
    raise RuntimeError("never two")

def test_divided(device):
    print(1 / read(device)[0][0])

def test_closure(device):
    first = read(device)[0][0]
    def inner():
        assert first == 2.0
    inner()

def test_file(device, tmp_path):
    np.save(tmp_path / "x.npy", np.array(read(device)))
    assert np.load(tmp_path / "x.npy")[0, 0] == 2.0

def test_function_that_works_and_compares(device):
    one = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    read(device)
    check_sum(one, ttnn.ones((32, 32), dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device), 2.0)


class TestOfAClass:
    def test_attribute(self, device):
        self.first = read(device)[0][0]
        assert self.first == 2.0
"""


@pytest.mark.oracle
def test_a_tests_own_values_are_judged_and_those_of_the_device_are_not(
    tmp_path: Path, with_ttnn: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_ttnn.pytest_version:
        pytest.skip(f"THE PYTEST PLUGIN WAS NOT TRIED: no pytest beside ttnn in {with_ttnn.path}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_suite.py").write_text(SUITE)
    done = call("test", "test_suite.py", "-p", "no:cacheprovider", "--json", "--no-store", "--no-programs")
    rows = json.loads(done.out)["tests"]
    own = {row["id"]: row["outcome"] for row in rows if "::test_own[" in row["id"]}
    assert len(own) == 13
    assert set(own.values()) == {"failed"}, own
    others = {row["id"]: (row["outcome"], row["failure"]) for row in rows if row["id"] not in own}
    assert {outcome for outcome, _ in others.values()} == {"passed"}, others
    assert all(row["skipped_comparisons"] for row in rows if row["id"] in others)
