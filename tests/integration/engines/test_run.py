# SPDX-License-Identifier: Apache-2.0
"""Running a script under capture: states, peaks, buffers and failures, judged by the library's own memory view."""

from __future__ import annotations

import json
import signal
import textwrap
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from integration.engines.operator_cells import alloc, call, t
from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.failure import diagnose_failure, failure, failures
from ttmem.analysis.peaks import peaks
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.run_script import RunSettings, ScriptRun, run_script
from ttmem.engines.ttnn import TtnnEngine
from ttmem.hardware import DATA_TYPES, DRAM, L1, MEMORIES, OpenSettings, open_board
from ttmem.profile import profile_file
from ttmem.profile.model import BEFORE_OPERATION, SNAPSHOT, WITHIN_OPERATION, Profile
from ttmem.twin.device import Device
from ttmem.twin.operations import EXACT, Call, ProgramCache, run_call
from ttmem.twin.tensor_spec import LAYOUTS, TensorSpec

pytestmark = pytest.mark.oracle

EXAMPLES = Path(__file__).parents[3] / "examples"
HEAD = """\
import ttnn

def make(*shape, memory=ttnn.DRAM_MEMORY_CONFIG):
    return ttnn.allocate_tensor_on_device(ttnn.Shape(list(shape)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)

"""
OPEN = "device = ttnn.open_device(device_id=0)\n"


class Running:
    """Writes a script and runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, body: str, *arguments: str, head: str = HEAD + OPEN, **settings: Any) -> ScriptRun:
        script = self.folder / "script.py"
        script.write_text(head + textwrap.dedent(body))
        return run_script(script, arguments, settings=RunSettings(**settings), output=2)


@pytest.fixture
def run(with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.chdir(tmp_path)
    return Running(tmp_path)


def names(profile: Profile) -> list[str]:
    return [profile.forms.name_of(int(form)) for form in profile.timelines[0].form]


def views(profile: Profile, memory: str, kind: int) -> list[list[int]]:
    timeline = profile.timelines[0]
    rows = np.flatnonzero(timeline.state_kind == kind)
    column = timeline.state_view[rows, ("DRAM", "L1", "L1_SMALL", "TRACE").index(memory)]
    return [profile.views[view].tolist() for view in column if view >= 0]


# --- states and peaks ---------------------------------------------------------------------------------------------


def test_states_are_the_allocators_own_before_every_operation_and_at_the_end(run: Running, tmp_path: Path) -> None:
    # GIVEN a script that looks at the memory itself, before each operation and before it closes the device
    told = tmp_path / "views.json"
    body = f"""\
    import json
    seen = {{"DRAM": [], "L1": []}}
    def look():
        for name in seen:
            v = ttnn.get_memory_view(device, getattr(ttnn.BufferType, name))
            seen[name].append([v.num_banks, v.total_bytes_per_bank, v.total_bytes_allocated_per_bank,
                               v.total_bytes_free_per_bank, v.largest_contiguous_bytes_free_per_bank])
    look(); x = make(1, 3, 1000, 1000)
    look(); w = make(1, 1, 1024, 1024, memory=ttnn.L1_MEMORY_CONFIG)
    look(); y = ttnn.roll(x, 3, 2)
    del x
    look(); z = ttnn.reshape(y, (1, 3, 500, 2000))
    look(); s = ttnn.mean(z, dim=1, keepdim=True)
    look(); ttnn.deallocate(y)
    look(); m = ttnn.matmul(w, w, memory_config=ttnn.L1_MEMORY_CONFIG)
    w = None
    look()
    json.dump(seen, open({str(told)!r}, "w"))
    ttnn.close_device(device)
    """
    # WHEN it runs under capture
    profile = run(body).profile
    # THEN the profile's states are what it saw, to the byte
    seen = json.loads(told.read_text())
    for memory in ("DRAM", "L1"):
        assert views(profile, memory, BEFORE_OPERATION) + views(profile, memory, SNAPSHOT) == seen[memory]
    assert profile.source.state_error_bytes == 0


def test_buffers_alive_sum_to_every_state(run: Running) -> None:
    body = """\
    kept = []
    for i in range(4):
        x = make(1, 4, 256, 256 + 64 * i)
        y = ttnn.roll(x, 3, 2)
        kept.append(ttnn.softmax(y, dim=-1))
        l = ttnn.to_memory_config(y, ttnn.L1_MEMORY_CONFIG)
        if i % 2:
            ttnn.deallocate(kept.pop(0))
    """
    timeline = (profile := run(body).profile).timelines[0]
    buffers = timeline.buffers
    assert buffers is not None
    assert WITHIN_OPERATION in timeline.state_kind
    for row, row_views in enumerate(timeline.state_view.tolist()):
        for memory, view in enumerate(row_views):
            alive = (buffers.first_state <= row) & (row <= buffers.last_state) & (buffers.memory == memory)
            if view >= 0:
                assert buffers.bytes_per_bank[alive].sum() == profile.views[view, 2], (row, memory)
    # AND no two of them overlap
    for row in range(len(timeline.state_kind)):
        alive = np.flatnonzero((buffers.first_state <= row) & (row <= buffers.last_state) & (buffers.memory == 0))
        spans = sorted((int(buffers.address[i]), int(buffers.bytes_per_bank[i])) for i in alive)
        assert all(a + size <= b for (a, size), (b, _) in pairwise(spans))


def test_a_result_that_replaces_its_input_is_there_beside_it_for_a_moment(run: Running) -> None:
    # GIVEN x = f(x): the old tensor goes when the new one has been made, between two states
    profile = run("x = make(1, 1, 1024, 1024)\nx = ttnn.relu(x)\ny = ttnn.relu(x)\n").profile
    # THEN both count at the peak, which no state before an operation shows
    assert [view[2] for view in views(profile, "DRAM", BEFORE_OPERATION)] == [0, 176128, 176128]
    assert [view[2] for view in views(profile, "DRAM", WITHIN_OPERATION)] == [2 * 176128]
    assert views(profile, "DRAM", SNAPSHOT)[0][2] == 2 * 176128
    peak = peaks(profile)["DRAM"]
    assert (peak.peak_bytes_per_bank, peak.at_index, peak.within_operation) == (2 * 176128, 1, True)


TEMPORARIES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "mean over channels": ([alloc("a", [1, 4, 1024, 1024], "D")], call("mean", t("a"), dim=1, keepdim=True)),
    "sum of squares": ([alloc("a", [1, 4, 1024, 1024], "D")], call("var", t("a"), dim=-1, keepdim=True)),
    "permute": ([alloc("a", [1, 4, 1024, 1024], "D")], call("permute", t("a"), {"tuple": [0, 2, 3, 1]})),
    "concat": ([alloc("a", [1, 3, 1000, 1000], "D")], call("concat", [t("a"), t("a")], -1)),
}


@pytest.mark.parametrize("name", TEMPORARIES)
def test_the_peak_inside_an_operation_is_exactly_what_it_needs(engine: Callable[..., TtnnEngine], name: str) -> None:
    worker = engine()
    inputs, operation = TEMPORARIES[name]
    banks, _, bank_bytes = worker.device["pools"]["DRAM"]
    # GIVEN the peak that we tell of an operation
    peak = worker.ask([*inputs, operation]).peak_bytes_per_bank["DRAM"]
    # WHEN a filler leaves just so much, or one page less
    pages = (bank_bytes - peak) // 2048
    filled = [alloc("f", [32 * banks, 32 * count], "D") for count in (pages, pages + 1)]
    enough, too_little = (worker.ask([filler, *inputs, operation]) for filler in filled)
    # THEN it runs, or does not
    assert enough.status == "pass"
    assert too_little.status == "oom"


# --- the twin -----------------------------------------------------------------------------------------------------

PROGRAM: list[tuple[str, str, list[str], dict[str, Any]]] = [
    ("b", "relu", ["a"], {}),
    ("c", "add", ["a", "b"], {}),
    ("d", "matmul", ["c", "w"], {}),
    ("e", "softmax", ["d"], {"dim": -1}),
    ("f", "transpose", ["e"], {"dim1": -2, "dim2": -1}),
    ("g", "gelu", ["l"], {}),
    ("h", "multiply", ["g", "l"], {}),
    ("i", "clone", ["f"], {}),
    ("j", "sum", ["i"], {"dim": -1, "keepdim": True}),
    ("k", "typecast", ["i"], {"dtype": "bfloat8_b"}),
]
GIVEN_TENSORS = {"a": ((1, 4, 512, 512), DRAM), "w": ((1, 1, 512, 768), DRAM), "l": ((1, 1, 640, 544), L1)}


def test_the_twin_agrees_with_the_capture_where_it_says_exact(run: Running) -> None:
    # GIVEN a program on the real library
    lines = [
        f"{name} = make({', '.join(map(str, shape))}, memory=ttnn.{memory.name}_MEMORY_CONFIG)"
        for name, (shape, memory) in GIVEN_TENSORS.items()
    ]
    lines += [f"{out} = {_source_of(operation, inputs, options)}" for out, operation, inputs, options in PROGRAM]
    profile = run("\n".join(lines) + "\n").profile
    timeline = profile.timelines[0]
    assert timeline.buffers is not None
    assert timeline.programs_l1 is not None
    captured = {
        timeline.buffers.names[number]: address
        for number, address in zip(timeline.buffers.name.tolist(), timeline.buffers.address.tolist(), strict=True)
    }
    # WHEN the twin does the same
    device = Device(open_board("n150", OpenSettings()))
    tensors = {
        name: device.allocate(TensorSpec(shape, DATA_TYPES.find("bfloat16"), LAYOUTS.find("tile"), memory))
        for name, (shape, memory) in GIVEN_TENSORS.items()
    }
    cache, exact = ProgramCache(), 0
    needs = timeline.programs_l1
    for number, (out, operation, inputs, options) in enumerate(PROGRAM, start=len(GIVEN_TENSORS)):
        given = [tensors[name] for name in inputs]
        arguments = {**options, **({"dtype": DATA_TYPES.find(options["dtype"])} if "dtype" in options else {})}
        call_ = Call(operation, tuple(buffer.placement.spec for buffer in given), arguments)
        result = run_call(device, call_, given, cache)
        assert result.buffer is not None, operation
        tensors[out] = result.buffer
        # THEN addresses agree, and what programs need wherever the twin is sure of it
        assert result.buffer.address == captured[out], operation
        measured = needs.circular_buffers + needs.dataflow_buffers + needs.scratchpads
        if result.plan.confidence == EXACT:
            exact += 1
            assert result.static_bytes_per_core == measured[number], operation
    assert exact >= 5
    for memory in ("DRAM", "L1"):
        view = device.view(MEMORIES.find(memory))
        assert view.allocated_bytes_per_bank == views(profile, memory, SNAPSHOT)[-1][2]


def _source_of(operation: str, inputs: list[str], options: dict[str, Any]) -> str:
    written = {name: f"ttnn.{value}" if name == "dtype" else repr(value) for name, value in options.items()}
    words = [*inputs, *(f"{name}={value}" for name, value in written.items())]
    return f"ttnn.{operation}({', '.join(words)})"


# --- what a profile says ------------------------------------------------------------------------------------------


def test_the_transformer_block_of_the_examples(with_ttnn: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    captured = run_script("examples/transformer_block.py", ["--sequence", "512"], output=2)
    profile = captured.profile
    assert captured.status == 0
    assert names(profile).count("ttnn.linear") == 8
    document = profile.to_json()
    # the parts sum to the peak, and that is more than tensors alone
    l1 = document["memories"]["L1"]
    assert sum(l1["parts"].values()) == l1["peak_with_programs_bytes_per_core"] > l1["peak_bytes_per_bank"] > 0
    assert l1["operations_with_unmeasured_programs"] == 0
    # every operation says where it was called
    assert l1["peak_with_programs_at"]["location"].startswith("examples/transformer_block.py:")
    # tensors have the names that the script gives them, and nothing is left over
    live = alive_at_peak(profile)
    assert live is not None
    weights = {f"blocks[{number}].{name}" for number in (0, 1) for name in ("qkv", "up", "down")}
    assert weights | {"attended", "x"} <= {life.name for life in live.tensors}
    assert live.unattributed_bytes_per_bank == 0
    assert document["failure"] is None
    assert document["facts"]["board"] == "n150"
    # and it can be saved
    assert profile_file.decode(profile_file.encode(profile)).to_json() == document


def test_a_real_out_of_memory_is_the_profiles_failure(with_ttnn: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    captured = run_script("examples/out_of_memory.py", output=2)
    assert captured.status == 1
    found = failure(captured.profile)
    assert found is not None
    assert (found.failure_class, found.memory, found.operation_name) == ("oom/capacity", "L1", "ttnn.gelu")
    assert found.operation_location == "examples/out_of_memory.py:23"
    assert (found.numbers["bytes_per_bank"], found.numbers["free"]) == (262144, 82592)
    assert len(failures(captured.profile)) == 1


@pytest.mark.parametrize("board", ["n300", "p100"])
def test_other_boards(run: Running, board: str) -> None:
    body = """\
    x = make(1, 1, 1024, 1024)
    y = ttnn.layer_norm(ttnn.softmax(ttnn.matmul(x, x), dim=-1))
    """
    profile = run(body, board=board).profile
    wanted = open_board(board)
    found = peaks(profile)
    assert (found["DRAM"].banks, found["DRAM"].bytes_per_bank) == (wanted.dram.banks, wanted.dram.bytes_per_bank)
    assert (found["L1"].banks, found["L1"].bytes_per_bank) == (wanted.l1.banks, wanted.l1.bytes_per_bank)
    assert failure(profile) is None


def test_a_mesh_of_a_whole_box(run: Running) -> None:
    head = HEAD + "device = ttnn.open_mesh_device(ttnn.MeshShape(2, 4))\n"
    body = """\
    x = make(1, 1, 1024, 1024)
    y = ttnn.roll(ttnn.silu(ttnn.matmul(x, x)), 3, 2)
    ttnn.close_mesh_device(device)
    """
    profile = run(body, head=head, board="t3k").profile
    assert profile.facts["chips"] == 8
    needs = profile.timelines[0].programs_l1
    assert needs is not None
    assert needs.measured.tolist() == [1] * 4
    # a mesh has the figures of one chip: not eight times as many buffers
    live = alive_at_peak(profile)
    assert live is not None
    assert live.unattributed_bytes_per_bank == 0


def test_options_change_how_the_script_opens_its_device(run: Running) -> None:
    profile = run("x = make(1, 1, 64, 64)\n", l1_small_bytes=65536, trace_region_bytes=1_000_000).profile
    assert views(profile, "L1_SMALL", BEFORE_OPERATION)[0][1] == 65536
    assert views(profile, "TRACE", BEFORE_OPERATION)[0][1] == 90112


def test_memory_that_comes_and_goes_outside_operations_is_seen(run: Running) -> None:
    body = """\
    host = ttnn.Tensor([1.0] * 4096, [64, 64], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
    up = host.to(device)
    grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 7))])
    flag = ttnn.create_global_semaphore(device, grid, 0)
    made = ttnn.Tensor([1.0] * 4096, [64, 64], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)
    y = ttnn.to_layout(up, ttnn.TILE_LAYOUT)
    up.deallocate()
    del flag, made
    z = ttnn.relu(y)
    """
    profile = run(body).profile
    semaphore = "ttnn.create_global_semaphore"
    assert names(profile) == ["ttnn.Tensor.to", semaphore, "ttnn.to_layout", "ttnn.Tensor.deallocate", "ttnn.relu"]
    buffers = profile.timelines[0].buffers
    assert buffers is not None
    assert {"up", "y", "z", f"kept by {semaphore}", "buffer made outside operations"} <= set(buffers.names)
    ends = {buffers.names[name]: int(last) for name, last in zip(buffers.name, buffers.last_state, strict=True)}
    assert ends["buffer made outside operations"] < ends["z"] > ends[f"kept by {semaphore}"]


def test_a_device_opened_twice_is_followed_twice(run: Running) -> None:
    body = """\
    x = make(1, 1, 64, 64)
    ttnn.close_device(device)
    device = ttnn.open_device(device_id=0, l1_small_size=32768)
    y = make(1, 1, 64, 64)
    """
    timeline = (profile := run(body).profile).timelines[0]
    assert timeline.state_kind.tolist() == [BEFORE_OPERATION, SNAPSHOT, BEFORE_OPERATION, SNAPSHOT]
    assert [view[1] for view in views(profile, "L1", BEFORE_OPERATION)] == [1393312, 1360544]


def test_operations_on_the_host_need_no_device(run: Running) -> None:
    body = """\
    a = ttnn.Tensor([1.0] * 1024, [32, 32], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
    b = ttnn.to_layout(a, ttnn.TILE_LAYOUT)
    """
    profile = run(body, head="import ttnn\n").profile
    assert names(profile) == ["ttnn.to_layout"]
    assert profile.to_json()["memories"] == {}


def test_a_script_that_captures_a_graph_itself_gets_its_own_graph(run: Running, tmp_path: Path) -> None:
    body = f"""\
    graph = ttnn._ttnn.graph
    x = make(1, 1, 64, 64)
    graph.begin_graph_capture(graph.RunMode.NORMAL)
    y = ttnn.relu(x)
    nodes = graph.end_graph_capture()
    open({str(tmp_path / "count")!r}, "w").write(str(sum(n["node_type"] == "buffer_allocate" for n in nodes)))
    z = ttnn.relu(y)
    """
    captured = run(body)
    assert captured.status == 0
    assert (tmp_path / "count").read_text() == "1"
    # what we could not look into is said, not taken for nothing
    needs = captured.profile.timelines[0].programs_l1
    assert needs is not None
    assert needs.measured.tolist() == [1, 0, 1]
    assert "graph capture" in captured.profile.source.warnings[0]
    live = alive_at_peak(captured.profile)
    assert live is not None
    assert live.unattributed_bytes_per_bank == 0


# --- how scripts end ----------------------------------------------------------------------------------------------


def test_a_segfault_is_a_crash_with_its_operation(run: Running) -> None:
    body = """\
    import ctypes
    x = make(1, 1, 64, 64)
    ttnn.silu(x)

    @ttnn.register_python_operation(name="ttnn.broken")
    def broken(x):
        return ctypes.string_at(0)

    ttnn.broken(x)
    """
    captured = run(body)
    found = failure(captured.profile)
    assert captured.status == 128 + signal.SIGSEGV
    assert found is not None
    assert (found.failure_class, found.texts["signal"]) == ("crash", "SIGSEGV")
    assert (found.operation_index, found.operation_name) == (2, "ttnn.broken")
    # what was seen before is there
    assert peaks(captured.profile)["DRAM"].peak_bytes_per_bank == 4096


@pytest.mark.parametrize(
    ("use", "failure_class"),
    [
        ("ttnn.add(x, y)", "lifetime/use-after-free"),
        ("ttnn.softmax(x, dim=-1)", "lifetime/use-after-free"),
        ("ttnn.concat([y, x], dim=0)", "lifetime/use-after-free"),
        ("ttnn.relu(x)", "crash"),
    ],
)
def test_a_freed_input_is_named_with_where_it_was_freed_and_by_whom(run: Running, use: str, failure_class: str) -> None:
    # GIVEN a tensor that a helper frees before its last use; some operations refuse it, some die of it
    body = f"""\
        x = make(1, 1, 64, 64)
        y = make(1, 1, 64, 64)
        def tidy(tensor):
            ttnn.deallocate(tensor)
        tidy(x)
        z = {use}
    """
    profile = run(body).profile
    found = failure(profile)
    assert found is not None
    assert found.failure_class == failure_class
    assert found.texts["freed_tensor"] == "'x' (1x1x64x64 bfloat16)"
    assert found.texts["freed_by"] == "ttnn.deallocate (operation 2)"
    assert (found.texts["freed_at"], found.texts["made_at"]) == ("script.py:10", "script.py:4")
    # THEN the explanation says so, and what is enough to mend it
    (told,) = (diagnose_failure(profile, item) for item in failures(profile))
    assert "'x' (1x1x64x64 bfloat16)" in told.headline
    assert "ttnn.deallocate (operation 2) at script.py:10" in told.headline
    assert (told.remedies[0].id, told.remedies[0].solves) == ("free-it-later", True)


def test_an_input_that_another_operation_freed_is_named_too(run: Running) -> None:
    body = """\
        x = make(1, 1, 64, 64)
        y = make(1, 1, 64, 64)
        moved = ttnn.move(x)
        try:
            ttnn.add(y, x)
        except RuntimeError:
            pass
        x = make(1, 1, 32, 32)
        ttnn.add(x, x)
    """
    profile = run(body).profile
    (found,) = failures(profile)
    assert (found.failure_class, found.survived) == ("lifetime/use-after-free", True)
    assert found.texts["freed_tensor"] == "'x' (1x1x64x64 bfloat16)"
    assert found.texts["freed_by"] == "ttnn.move (operation 2)"
    assert found.texts["freed_at"] == "script.py:9"


def test_an_error_of_living_inputs_speaks_of_no_freed_one(run: Running) -> None:
    body = """\
        x = make(1, 1, 64, 64)
        y = make(1, 1, 64, 32)
        ttnn.deallocate(x)
        x = make(1, 1, 64, 64)
        ttnn.matmul(x, ttnn.matmul(y, y))
    """
    found = failure(run(body).profile)
    assert found is not None
    assert "freed_tensor" not in found.texts


def test_a_killed_script_is_a_crash(run: Running) -> None:
    captured = run("x = make(1, 1, 64, 64)\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    found = failure(captured.profile)
    assert captured.status == 137
    assert found is not None
    assert (found.failure_class, found.texts["signal"], found.operation_index) == ("crash", "SIGKILL", None)


def test_a_script_that_takes_too_long_is_ended(run: Running) -> None:
    captured = run("x = make(1, 1, 64, 64)\nimport time\ntime.sleep(60)\n", timeout_seconds=3.0)
    found = failure(captured.profile)
    assert captured.timed_out
    assert found is not None
    assert found.failure_class == "timeout"


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("", 0),
        ("import sys; sys.exit(7)", 7),
        ("raise SystemExit('enough')", 1),
        ("raise SystemExit", 0),
        ("1 / 0", 1),
    ],
)
def test_the_status_is_the_scripts(run: Running, ending: str, status: int) -> None:
    captured = run(ending + "\n", head="import ttnn\n")
    assert captured.status == status
    found = failure(captured.profile)
    if "1 / 0" in ending:
        assert found is not None
        assert found.message == "ZeroDivisionError: division by zero"
    else:
        assert found is None


def test_an_error_that_the_script_catches_is_told_and_survived(run: Running) -> None:
    body = """\
    try:
        make(1, 1, 131072, 131072)
    except RuntimeError:
        pass
    x = make(1, 1, 64, 64)
    """
    captured = run(body)
    found = failure(captured.profile)
    assert captured.status == 0
    assert found is not None
    assert (found.failure_class, found.survived) == ("oom/too-big", True)


@pytest.mark.parametrize(
    ("then", "ends_with"),
    [
        ("pass", ("oom/too-big", True)),
        ("raise ValueError('no model') from error", ("oom/too-big", False)),
        ("raise SystemExit(3)", ("oom/too-big", False)),
        ("other = True", ("none", False)),
    ],
)
def test_an_error_in_the_last_operation_ends_a_script_only_if_it_led_to_its_end(
    run: Running, then: str, ends_with: tuple[str, bool]
) -> None:
    body = f"""\
    x = make(1, 1, 64, 64)
    other = False
    try:
        make(1, 1, 131072, 131072)
    except RuntimeError as error:
        {then}
    if other:
        raise KeyError("something else")
    """
    found = failure(run(body).profile)
    assert found is not None
    assert (found.failure_class, found.survived) == ends_with


def test_the_program_cache_is_the_programs(run: Running) -> None:
    body = """\
    x = make(1, 1, 64, 64)
    ttnn.add(x, x)
    device.set_program_cache_misses_allowed(False)
    ttnn.add(x, x)
    try:
        ttnn.matmul(x, x)
    except RuntimeError as error:
        assert "cache misses are forbidden" in str(error)
    else:
        raise SystemExit(3)
    device.set_program_cache_misses_allowed(True)
    device.disable_and_clear_program_cache()
    ttnn.add(x, x)
    assert device.num_program_cache_entries() == 0
    device.enable_program_cache()
    ttnn.add(x, x)
    assert device.num_program_cache_entries() == 1
    """
    captured = run(body)
    assert captured.status == 0
    assert not captured.profile.source.warnings
    needs = captured.profile.timelines[0].programs_l1
    assert needs is not None
    # THE same addition needs the same, with a cache and without
    assert len({int(needs.circular_buffers[index]) for index in (1, 2, 4, 5)}) == 1


def test_a_refused_program_is_told_with_what_it_needed(run: Running) -> None:
    body = """\
    x = make(1, 1, 1024, 1024)
    full = make(2048, 32 * 679, memory=ttnn.L1_MEMORY_CONFIG)
    ttnn.add(x, x)
    """
    profile = run(body).profile
    found = failure(profile)
    assert found is not None
    assert found.failure_class == "buffers/clash"
    needs = profile.timelines[0].programs_l1
    assert needs is not None
    # more than a core has, and the library says the same
    assert needs.circular_buffers[2] == found.numbers["region_end"] - 105824 == 12288
    assert needs.tensors[2] + needs.circular_buffers[2] > 1393312


def test_the_script_is_run_as_python_would_run_it(run: Running, tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text("WHO = 'mine'\n")  # a name that ttmem's own files have too
    body = f"""\
    import json, os, sys, tempfile
    from worker import WHO
    told = {{"name": __name__, "argv": sys.argv[1:], "who": WHO, "here": os.getcwd()}}
    told["temporary"] = tempfile.gettempdir()
    json.dump(told, open({str(tmp_path / "told.json")!r}, "w"))
    """
    run(body, "--batch", "4", head="import ttnn\n")
    import tempfile

    assert json.loads((tmp_path / "told.json").read_text()) == {
        "name": "__main__",
        "argv": ["--batch", "4"],
        "who": "mine",
        "here": str(tmp_path),
        "temporary": tempfile.gettempdir(),
    }


def test_children_of_the_script_are_not_recorded(run: Running) -> None:
    body = """\
    import os, warnings
    warnings.simplefilter("ignore")
    x = make(1, 1, 64, 64)
    child = os.fork()
    if child == 0:
        ttnn.relu(x)
        os._exit(0)
    os.waitpid(child, 0)
    y = ttnn.relu(x)
    """
    assert names(run(body).profile) == ["ttnn.allocate_tensor_on_device", "ttnn.relu"]
