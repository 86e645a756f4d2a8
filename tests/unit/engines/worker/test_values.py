# SPDX-License-Identifier: Apache-2.0
"""One rule for values on a mock, in scripts and tests: known comparisons succeed and are counted, an assertion of the
user's own that fails after the device was read is not judged, everything else fails as it does in plain Python."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ttmem
from support.command_line import call
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.worker.comparisons import Comparisons
from ttmem.engines.worker.value_assertions import is_own_assertion

SUITE = """
import math

import numpy as np
import pytest
import ttnn

OWN = 3


def ones(device):
    return ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)

def read(device):
    return np.array(ttnn.add(ones(device), ones(device)).cpu().to_list())

def comp_values(a, b):
    return bool((a == b).all())


# A mock cannot tell how these end: they pass, and say what was not judged.
class TestNotJudged:
    def test_assert(self, device):
        assert read(device).sum() == 2048

    def test_count(self, device):
        count = int(read(device).sum())
        if count != 2048:
            raise ValueError(f"Count mismatch: got {count}")

    def test_fail(self, device):
        if read(device)[0, 0] != 2:
            pytest.fail("bad")

    def test_division(self, device):
        print(1 / float(read(device).sum().item() or int(0)))

    def test_approx(self, device):
        assert read(device)[0, 0] == pytest.approx(2.0)

    def test_teardown(self, read_later):
        pass

    def test_given_by_a_fixture_first(self, shared):
        assert shared[0][0] == 1

    def test_given_by_a_fixture_again(self, shared):
        assert shared[0][0] == 1

    def test_keyword(self, device):
        values = ttnn.to_torch(tensor=ones(device)) if False else ttnn.from_device(tensor=ones(device))
        assert values.to_list()[0][0] == 1


# Comparisons that are known succeed.
class TestSkipped:
    def test_known(self, device):
        values = read(device)
        assert np.allclose(values, values + 1)
        assert comp_values(values, values + 1)
        np.testing.assert_allclose(values, values + 1)
        np.testing.assert_array_less(values, values)
        np.testing.assert_almost_equal(float(values[0, 0]), 2.0)
        from numpy.testing import assert_equal
        assert_equal(list(values[0]), [2.0] * 32)

    def test_other_kinds(self, device):
        values = read(device)
        np.testing.assert_allclose(values, 2.0)
        np.testing.assert_allclose(desired=np.float32(2), rtol=0.1, actual=values)
        np.testing.assert_array_equal(2.0, values)
        np.testing.assert_array_less(values - 1, 1.5)
        np.testing.assert_allclose(values[0], [2.0] * 32)
        assert np.allclose(values, 2.0) and np.allclose(values, np.full(32, 2.0))
        assert np.isclose(np.full((32, 1, 1), 2.0), values).shape == (32, 32, 32)
        assert np.array_equal(values[0], (2.0,) * 32)
        assert math.isclose(values[0, 0], 2)
        assert np.isclose(values.mean(), 2.0) and np.allclose(values, 2.0, atol=np.float32(0.1))


# Whatever else goes wrong is a failure, before and after a read.
class TestFails:
    def test_before_a_read(self, device):
        ones(device)
        assert OWN == 4

    def test_host_only(self, device):
        ones(device)
        assert np.allclose(np.ones(3), np.zeros(3))

    def test_own_tensor_is_no_read(self, device):
        assert ttnn.ones((32, 32)).to_list()[0][0] == 5

    def test_key(self, device):
        read(device)
        {}["missing"]

    def test_shape_of_a_comparison(self, device):
        np.testing.assert_allclose(read(device), np.ones((3, 3)))

    def test_memory(self, device):
        read(device)
        try:
            ttnn.allocate_tensor_on_device(ttnn.Shape((65536, 262144)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
        except RuntimeError as error:
            pytest.fail(f"no memory: {error}")

    def test_no_error(self, device):
        read(device)
        with pytest.raises(RuntimeError):
            ones(device)


class TestSkippedBefore:
    def test_memory(self, device):
        np.testing.assert_allclose(read(device), 2.0)
        ttnn.allocate_tensor_on_device(ttnn.Shape((65536, 262144)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)


class TestSetup:
    def test_of_a_fixture(self, checked):
        pass


@pytest.fixture
def checked(device):
    assert read(device).sum() == 2048

@pytest.fixture
def read_later(device):
    yield
    assert read(device).sum() == 2048

@pytest.fixture(scope="module")
def shared():
    device = ttnn.open_device(device_id=0)
    values = ones(device).cpu().to_list()
    ttnn.close_device(device)
    return values
"""
SCRIPT = """
import numpy as np
import ttnn

def check_close(a, b):
    assert np.allclose(a, b), "differ"

def compare_values(a, b):
    return bool((a == b).all())

device = ttnn.open_device(device_id=0)
x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
if {early}:
    assert 1 == 2
values = np.array(ttnn.add(x, x).cpu().to_list())
check_close(values, values + 1)
assert compare_values(values, values + 1)
np.testing.assert_allclose(values, values + 1)
ttnn.relu(x)
"""


@pytest.fixture
def here(with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not with_ttnn.pytest_version:
        pytest.skip(f"THE PYTEST PLUGIN WAS NOT TRIED: no pytest beside ttnn in {with_ttnn.path}")
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.oracle
def test_tests_that_read_the_device(here: Path) -> None:
    (here / "test_suite.py").write_text(SUITE)
    words = ("test", "test_suite.py", "-p", "no:cacheprovider", "--json", "--no-store", "--no-programs")
    done = call(*words, "-vv", "-rA", "--junitxml=j.xml")
    rows = {tuple(row["id"].split("::")[1:]): row for row in json.loads(done.out)["tests"]}
    expected = {"TestNotJudged": "passed", "TestSkipped": "passed", "TestFails": "failed", "TestSetup": "skipped"}
    expected["TestSkippedBefore"] = "failed"
    assert len(rows) == SUITE.count("def test_")
    assert {name: row["outcome"] for name, row in rows.items()} == {name: expected[name[0]] for name in rows}, done.err
    # WHAT was not judged is named and counted; what failed is not
    for (kind, name), row in rows.items():
        assert (row["not_judged"] is not None) == (kind in ("TestNotJudged", "TestSetup")), name
        assert (row["skipped_comparisons"] > 0) == (kind != "TestFails"), name
    assert rows["TestSkipped", "test_known"]["skipped_comparisons"] == 6
    assert "Count mismatch: got 0" in rows["TestNotJudged", "test_count"]["not_judged"]
    assert rows["TestSkipped", "test_other_kinds"]["skipped_comparisons"] == 12
    for kind in ("TestFails", "TestSkippedBefore"):
        assert rows[kind, "test_memory"]["failure"]["class"] == "oom/too-big"
    assert done.err.count("a mock computes no values") == 1
    # WITH --values every comparison counts
    kept = call(*words, "--values", "-k", "NotJudged or Skipped or Setup")
    assert {row["outcome"] for row in json.loads(kept.out)["tests"]} <= {"failed", "error", "passed"}
    failed = [row for row in json.loads(kept.out)["tests"] if row["outcome"] in ("failed", "error")]
    assert len(failed) == sum(name[0] != "TestFails" for name in rows)


@pytest.mark.oracle
class TestScripts:
    def run(self, here: Path, early: bool, more: str = "", *words: str) -> tuple[int, dict[str, Any], str]:
        (here / "script.py").write_text(SCRIPT.format(early=early) + more)
        done = call("run", "script.py", "--json", "--no-store", *words)
        return done.code, json.loads(done.out), done.err

    def test_known_comparisons_succeed(self, here: Path) -> None:
        code, told, notes = self.run(here, early=False)
        assert (code, told["ended"], told["skipped_comparisons"]) == (0, None, 3)
        assert "ttnn.relu" in told["operations"]["by_name"]
        assert notes.count("a mock computes no values: 3 comparisons skipped (--values keeps them)") == 1

    def test_an_own_assertion_keeps_the_status_and_is_not_judged(self, here: Path) -> None:
        code, told, notes = self.run(here, False, "pcc = 0.0\nif pcc < 0.9:\n    raise ValueError('PCC too low')\n")
        assert (code, told["ended"]["error"], told["ended"]["not_judged"]) == (1, "ValueError", True)
        assert told["failure"]["class"] == "none"
        assert "ValueError: PCC too low" in notes

    def test_before_a_read_it_is_judged(self, here: Path) -> None:
        code, told, notes = self.run(here, early=True)
        assert (code, told["ended"]["not_judged"], told["skipped_comparisons"]) == (1, False, 0)
        assert "computes no values" not in notes

    def test_values_may_be_kept(self, here: Path) -> None:
        code, told, _ = self.run(here, False, "", "--values")
        assert (code, told["ended"]["message"], told["skipped_comparisons"]) == (1, "differ", 0)


# --- the same rule without a device -------------------------------------------------------------------------------


class Ttnn:
    """The part of the library that reads values."""

    DEVICE_STORAGE_TYPE = "device"

    class Tensor:
        def __init__(self, *, on_device: bool) -> None:
            self._on_device = on_device

        def storage_type(self) -> str:
            return "device" if self._on_device else "host"

        def to_list(self) -> list[float]:
            return [0.0]


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> Iterator[Comparisons]:
    """A suite's helpers are loaded, comparisons are answered."""
    home: Any = types.ModuleType("tests.ttnn.utils_for_testing")
    home.__file__ = "utils_for_testing.py"
    source = """
def comp_anything(a, b):
    return {"agree": bool((a == b).all())}
def assert_with_pcc(a, b):
    assert a.shape == b.shape, "shapes differ"
    assert comp_anything(a, b)["agree"], "values differ"
"""
    exec(compile(source, "utils_for_testing.py", "exec"), vars(home))
    monkeypatch.setitem(sys.modules, "tests.ttnn.utils_for_testing", home)
    found = Comparisons(Ttnn)
    found.install()
    yield found
    found.uninstall()


ONES, TWOS = np.ones(3), np.full(3, 2.0)


def test_comparisons_are_answered_once_the_device_was_read(comparisons: Comparisons) -> None:
    # GIVEN tensors of the host THEN nothing was read
    Ttnn.Tensor(on_device=False).to_list()
    assert not np.allclose(ONES, TWOS)
    Ttnn.Tensor(on_device=True).to_list()
    assert np.allclose(ONES, TWOS)
    assert comparisons.skipped == 1
    # AND a new test has read nothing
    comparisons.begin_test()
    assert not np.allclose(ONES, TWOS)
    comparisons.uninstall()
    Ttnn.Tensor(on_device=True).to_list()
    assert not comparisons.reads.has_read


def test_helpers_of_a_suite_keep_their_check_of_shapes(comparisons: Comparisons) -> None:
    helpers: Any = sys.modules["tests.ttnn.utils_for_testing"]
    with pytest.raises(AssertionError, match="values differ"):
        helpers.assert_with_pcc(ONES, TWOS)
    Ttnn.Tensor(on_device=True).to_list()
    helpers.assert_with_pcc(ONES, TWOS)
    with pytest.raises(AssertionError, match="shapes differ"):
        helpers.assert_with_pcc(ONES, np.ones(4))
    assert comparisons.skipped == 1


CLAIMS = """
import unittest
import numpy as np
def pcc_too_low():
    if 0.0 < 0.99:
        raise ValueError("PCC too low")
def divides():
    return 1.0 / 0.0
def asserts():
    assert 1 == 5.0
def unit():
    unittest.TestCase().assertEqual(1, 2)
def array():
    np.testing.assert_allclose(np.ones(3), np.zeros(3))
def other_shapes():
    np.testing.assert_allclose(np.ones(3), np.zeros(4))
def key():
    return {}["missing"]
def library():
    np.ones(3).reshape(2)
def after_another():
    try:
        key()
    except KeyError:
        assert False
def leaves():
    raise SystemExit(1)
"""


@pytest.mark.parametrize(
    ("name", "is_own"),
    {
        **dict.fromkeys(("pcc_too_low", "divides", "asserts", "unit", "array"), True),
        **dict.fromkeys(("other_shapes", "key", "library", "after_another", "leaves"), False),
    }.items(),
)
def test_own_assertions(name: str, is_own: bool, tmp_path: Path) -> None:
    file = tmp_path / "test_claims.py"
    names: dict[str, Any] = {}
    exec(compile(CLAIMS, str(file), "exec"), names)
    with pytest.raises(BaseException) as caught:
        names[name]()
    # The frame of this test is not that of the suite under test.
    assert is_own_assertion(caught.value.with_traceback(caught.tb.tb_next)) is is_own


WITH_TORCH = """
import torch
from ttmem.engines.worker.comparisons import Comparisons

class Ttnn:
    DEVICE_STORAGE_TYPE = "device"
    class Tensor:
        storage_type = lambda self: "device"
        to_torch = lambda self: torch.zeros(2, 3)

comparisons = Comparisons(Ttnn)
comparisons.install()
own = torch.ones(2, 3)
assert not torch.allclose(own, own + 1)
read = Ttnn.Tensor().to_torch()
assert torch.allclose(own, read) and torch.equal(read, own + 3)
assert torch.allclose(read, torch.tensor(1.0)) and torch.isclose(torch.ones(3), read).shape == (2, 3)
torch.testing.assert_close(actual=read, expected=own)
torch.testing.assert_close(1.0, 2.0)
assert not torch.equal(read, torch.zeros(3))
assert comparisons.skipped == 6
print("answered")
"""


def test_comparisons_of_torch(torch_python: str, tmp_path: Path) -> None:
    source = str(Path(ttmem.__file__).parents[1])
    file = tmp_path / "script.py"
    file.write_text(f"import sys; sys.path.insert(0, {source!r})\n{WITH_TORCH}")
    done = subprocess.run([torch_python, file], capture_output=True, text=True, check=False)
    assert done.stdout == "answered\n", done.stderr
