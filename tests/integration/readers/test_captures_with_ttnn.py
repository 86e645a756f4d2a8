# SPDX-License-Identifier: Apache-2.0
"""The fixtures' claims, made again with the ttnn that is installed: captures against its own allocator."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from oracle.real import find_ttnn, mock_environment
from support.captures import operation_names, views_before_operations
from ttmem import read
from unit.readers.captures.test_against_allocator import STEPS

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs the recorder; kernels are compiled (by a stub) once for all."""
    interpreter, reason = find_ttnn()
    if interpreter is None:
        pytest.skip(f"CAPTURES WERE NOT COMPARED WITH THE REAL TTNN: {reason}; run `python tools/ttnn_env.py`")

    def record(board: str, kind: str) -> tuple[Path, list[dict[str, list[int]]]]:
        folder = tmp_path_factory.mktemp(f"{board}-{kind}")
        with mock_environment(interpreter, board) as environment:
            done = subprocess.run(
                [interpreter.path, str(Path(__file__).with_name("recorder.py")), board, kind, str(folder)],
                capture_output=True,
                text=True,
                timeout=280,
                env=environment,
                check=False,
            )
        assert done.returncode == 0, done.stderr[-3000:]
        states = json.loads((folder / "truth.json").read_text())["states"]
        return folder, [state["views"] for state in states if state["when"] == "before"]

    return record


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_reports_and_databases_equal_the_allocator(recorded: Any, board: str) -> None:
    folder, wanted = recorded(board, "report")
    for source in (folder / "report.json", folder / "db.sqlite"):
        profile = read(source)
        assert operation_names(profile) == STEPS
        found = views_before_operations(profile)
        assert found == [{memory: views[memory] for memory in mine} for views, mine in zip(wanted, found, strict=True)]


def test_a_bare_capture_equals_it_but_for_what_it_never_touched(recorded: Any) -> None:
    folder, wanted = recorded("n150", "normal")
    first, last = views_before_operations(read(folder / "capture.json"))[0], wanted[0]
    assert first["L1"][2] == last["L1"][2]
    assert first["DRAM"][2] == last["DRAM"][2] - 34816
