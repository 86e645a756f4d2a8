# SPDX-License-Identifier: Apache-2.0
"""'internal error' is never right for bad input: every kind of source, changed field by field, through its verbs.

``TTMEM_BAD_VALUES=500 pytest tests/integration/hostile/test_bad_values.py`` tries so many changes of each kind
instead of a few.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import bad_values
from support.bad_values import KINDS, Kind
from ttmem.operators.case import Case, CaseTensor, ModelUse
from ttmem.operators.pytest_files import Predictions, test_files

CHANGES = int(os.environ.get("TTMEM_BAD_VALUES", "12"))


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("bad-values")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_changed_value_is_answered(kind: Kind, templates: Path) -> None:
    template = templates / kind.name / "template"
    home = templates / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTMEM_HOME", str(home))
        source = bad_values.valid(kind, template)
    random_ = random.Random(f"fixed {kind.name} {CHANGES}")
    for number in range(CHANGES):
        folder = template.with_name("changed")
        bad_values.changed_sources(kind, template, folder, random_)
        place = folder / source.relative_to(template) if source.is_absolute() else source
        own_home = folder / "home"
        words = bad_values.words_of(random_.choice(kind.verbs), place, folder)
        code, _, errors = bad_values.run(words, TTMEM_HOME=str(own_home if own_home.is_dir() else home))
        assert code in (0, 1, 2, 3), (number, words, errors)
        assert b"internal error" not in errors, (number, words, errors)
        assert b"Traceback" not in errors, (number, words, errors)
        assert code in (0, 1) or errors.startswith(b"ttmem: "), (number, words, errors)


@pytest.mark.parametrize(
    "line",
    [
        '{"alloc": ["a"], "shape": [1]}',
        '{"alloc": {"a": 1}, "shape": [1]}',
        '{"free": ["a"]}',
        '{"alloc": "a", "shape": [' + "9" * 5000 + "]}",
        '{"alloc": "a", "shape": ' + "[" * 3000 + "]" * 3000 + "}",
        '{"alloc": "a", "shape": [1e400]}',
        '{"alloc": "a", "shape": [340282366920938463463374607431768211456]}',
    ],
    ids=str,
)
def test_a_step_that_is_none_is_told_with_its_line(line: str, tmp_path: Path) -> None:
    steps = tmp_path / "steps.jsonl"
    steps.write_text(f"# steps\n{line}\n")
    code, _, errors = bad_values.run(["replay", str(steps)])
    assert (code, f"{steps}:2".encode() in errors) == (2, True), errors


EVIL = [
    'm"""\nimport os; os.mkdir("ran")\n"""',
    "m\rimport os; os.mkdir('ran')",
    "m\u2028import os",
    '\\"""); import os; os.mkdir("ran")',
    "\x0cimport os",
]


@pytest.mark.parametrize("name", EVIL, ids=ascii)
def test_no_name_becomes_code_of_a_generated_test(name: str, tmp_path: Path) -> None:
    """Case files come from anywhere, and the tests that are made of them are run."""
    tensors = (CaseTensor((32, 32), "bfloat16"),)
    case = Case("silu", tensors, {}, (ModelUse(name, 1, name, (name,)),), id=f"x-{name}")
    plain = Case("silu", tensors, {}, (ModelUse("m", 1, "s", ("n",)),), id="x-y")
    shapes = []
    for one in (plain, case):
        tree = ast.parse(test_files([one], Predictions(), l1_small_bytes=0).files["test_silu.py"])
        shapes.append([type(node).__name__ for node in ast.walk(tree)])
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(
    "args",
    [
        {"dtype": "bfloat16; __import__('os').mkdir('ran')"},
        {"dtype": "__import__('os').mkdir('ran')"},
        {"dim": {"new": "__import__('os').mkdir", "kwargs": {"path": "ran"}}},
        {"dim": {"tensor": 'a.__import__("os").mkdir("ran")'}},
        {"dim": [{"dtype": "x; import os"}]},
    ],
    ids=str,
)
@pytest.mark.parametrize("op", ["_to_copy", "sum"])
def test_no_argument_becomes_code_either(args: dict[str, object], op: str, tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    case = {"id": "a", "op": op, "tensors": [{"shape": [32, 32], "dtype": "bfloat16"}], "args": args}
    cases.write_text(json.dumps(case) + "\n")
    code, _, errors = bad_values.run(["ops", "tests", str(cases), "-o", str(tmp_path / "made"), "-q"])
    assert b"internal error" not in errors
    for path in tmp_path.glob("made/test_*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert names.isdisjoint({"__import__", "os"})
    assert code in (0, 1, 2)
