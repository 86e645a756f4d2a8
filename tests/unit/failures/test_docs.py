# SPDX-License-Identifier: Apache-2.0
"""The page about explanations says what the program does."""

from __future__ import annotations

import re
import textwrap

from support.command_line import REAL_OOM, ROOT
from support.failure_classes import CLASSES
from ttmem.failures.diagnosis.diagnose import explain
from ttmem.failures.diagnosis.savings import COMPUTATIONS
from ttmem.failures.knowledge.tables import FailureClass, load_entries
from ttmem.reports.explain import render_terminal

PAGE = (ROOT / "docs" / "explain.md").read_text()


def test_the_example_is_the_real_output() -> None:
    shown = re.search(r"<!-- example: .*? -->\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert render_terminal(explain(REAL_OOM.read_text()), width=80).startswith(shown[1])


def test_every_class_is_listed_with_its_meaning() -> None:
    rows = {known.name: f"| `{known.name}` | {known.meaning} |" for known in load_entries(FailureClass)}
    assert [rows[name] in PAGE for name in CLASSES] == [True] * len(CLASSES)


def test_every_computation_is_named() -> None:
    for name in COMPUTATIONS:
        assert re.search(rf"`{name}[:`]", PAGE), name


def test_the_python_example_runs() -> None:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    exec(textwrap.dedent(code[1]), {"text": REAL_OOM.read_text(), "print": lambda *_: None})
