# SPDX-License-Identifier: Apache-2.0
"""What the library cannot do on a mock board: programs that use it go on, and the profile says what is not known."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

import pytest

from ttmem.engines.interpreters import Interpreter
from ttmem.engines.run_script import RunSettings, ScriptRun, run_script

pytestmark = pytest.mark.oracle

TRACED = """
import sys
import ttnn

queues, mesh = int(sys.argv[1]), int(sys.argv[2])
device = ttnn.open_mesh_device(ttnn.MeshShape(1, mesh), trace_region_size=1_000_000, num_command_queues=queues)
x = ttnn.ones((1, 1, 64, 64), layout=ttnn.TILE_LAYOUT, device=device)
y = ttnn.relu(x)
trace = ttnn.begin_trace_capture(device, cq_id=0)
assert ttnn.is_trace_capture_active(device)
z = ttnn.matmul(ttnn.add(x, y), y)
ttnn.end_trace_capture(device, trace, cq_id=0)
assert not ttnn.is_trace_capture_active(device)
for _ in range(3):
    if queues > 1:
        ttnn.wait_for_event(0, ttnn.record_event(device, 1))
        with ttnn.command_queue(1):
            ttnn.relu(x)
    ttnn.relu(x)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=False)
ttnn.synchronize_device(device)
ttnn.release_trace(device, trace)
ttnn.close_mesh_device(device)
"""

SUB_DEVICES = """
import ttnn

device = ttnn.open_device(device_id=0)
x = ttnn.ones((1, 1, 64, 64), layout=ttnn.TILE_LAYOUT, device=device)
some = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 3))})
rest = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(4, 4), ttnn.CoreCoord(7, 7))})
manager = device.create_sub_device_manager([ttnn.SubDevice([some]), ttnn.SubDevice([rest])], 3200)
device.load_sub_device_manager(manager)
device.set_sub_device_stall_group([ttnn.SubDeviceId(0)])
ttnn.relu(x)
ttnn.synchronize_device(device, sub_device_ids=[ttnn.SubDeviceId(1)])
ttnn.concat([x, x], dim=2, sub_core_grids=None)
device.reset_sub_device_stall_group()
device.clear_loaded_sub_device_manager()
device.remove_sub_device_manager(manager)
ttnn.close_device(device)
"""


def run(folder: Path, text: str, *arguments: str, **settings: str) -> ScriptRun:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(text))
    return run_script(script, arguments, settings=RunSettings(**settings), output=2)  # type: ignore[arg-type]


@pytest.mark.parametrize(("board", "queues", "mesh"), [("n150", 1, 1), ("n150", 2, 1), ("t3k", 2, 8), ("p300", 2, 2)])
def test_a_traced_program_is_profiled_like_others(
    with_ttnn: Interpreter, tmp_path: Path, board: str, queues: int, mesh: int
) -> None:
    ended = run(tmp_path, TRACED, str(queues), str(mesh), board=board)
    assert ended.status == 0
    (timeline,) = ended.profile.timelines
    assert timeline.programs_l1 is not None
    assert timeline.programs_l1.measured.all()
    # AND what is known of the trace is said: where its replays write, and who took memory there afterwards
    (told,) = [warning for warning in ended.profile.source.warnings if "a trace was captured" in warning]
    assert re.search(r"its buffers \([1-9]\d* B per bank of DRAM\) must stay", told)
    (taken,) = [warning for warning in ended.profile.source.warnings if "the next replay overwrites it" in warning]
    assert "first by ttnn.relu" in taken
    assert "script.py:" in taken


def test_sub_devices_do_not_end_the_program(with_ttnn: Interpreter, tmp_path: Path) -> None:
    ended = run(tmp_path, SUB_DEVICES)
    assert ended.status == 0
    assert any("sub-devices" in warning for warning in ended.profile.source.warnings)


@pytest.mark.parametrize("value", [None, "somewhere"])
def test_a_program_reads_its_own_environment(
    with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    for name in ("TT_METAL_HOME", "TT_METAL_RUNTIME_ROOT"):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    text = f"""
        import os
        import ttnn
        for name in ("TT_METAL_HOME", "TT_METAL_RUNTIME_ROOT"):
            assert os.environ.get(name) == os.getenv(name) == {value!r}
        device = ttnn.open_device(device_id=0)
        ttnn.relu(ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device))
    """
    assert run(tmp_path, text).status == 0


def test_packages_of_another_python_are_left_out(
    with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN packages of another Python on the path, of which none loads here, and a module of the user's own
    strange, own = tmp_path / "lib" / "python3.7" / "site-packages", tmp_path / "own"
    for name in ("numpy", "ttnn", "pytest", "typing_extensions"):
        (strange / name).mkdir(parents=True)
        (strange / name / "__init__.py").write_text("raise ImportError('compiled for another Python')")
    own.mkdir()
    (own / "mine.py").write_text("ROWS = 32")
    monkeypatch.setenv("PYTHONPATH", f"{strange}{os.pathsep}{own}")
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    text = """
        import ttnn
        from mine import ROWS
        device = ttnn.open_device(device_id=0)
        ttnn.relu(ttnn.ones((ROWS, 32), layout=ttnn.TILE_LAYOUT, device=device))
    """
    assert run(tmp_path, text).status == 0


GLOBAL_BUFFER = """
import ttnn

device = ttnn.open_device(device_id=0)
receivers = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(1, 0), ttnn.CoreCoord(3, 0))])
shared = ttnn.create_global_circular_buffer(device, [(ttnn.CoreCoord(0, 0), receivers)], 65536)
x = ttnn.ones((1, 1, 1, 4096), layout=ttnn.ROW_MAJOR_LAYOUT, device=device)
count, places = ttnn.nonzero(x)
del shared
ttnn.relu(ttnn.to_layout(x, ttnn.TILE_LAYOUT))
ttnn.close_device(device)
"""


def test_a_global_circular_buffer_is_memory_of_the_call_that_made_it(with_ttnn: Interpreter, tmp_path: Path) -> None:
    ended = run(tmp_path, GLOBAL_BUFFER)
    assert ended.status == 0
    buffers = ended.profile.timelines[0].buffers
    assert buffers is not None
    named = [buffers.names[name] for name in buffers.name]
    own = [row for row, name in enumerate(named) if name == "kept by ttnn.create_global_circular_buffer"]
    assert max(int(buffers.bytes_per_bank[row]) for row in own) == 65536
    assert all(buffers.last_state[row] < buffers.last_state.max() for row in own)
    # AND what cannot be known of a shape that depends on values is said
    assert any("ttnn.nonzero" in warning for warning in ended.profile.source.warnings)
