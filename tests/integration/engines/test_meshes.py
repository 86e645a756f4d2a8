# SPDX-License-Identifier: Apache-2.0
"""Several devices, meshes and submeshes: each allocator has states of its own, the worst is shown, all are kept."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.peaks import peaks
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.run_script import RunSettings, ScriptRun, run_script
from ttmem.profile.model import Profile
from ttmem.profile.runs import select

pytestmark = pytest.mark.oracle

TILE = 2048
HEAD = """
import sys
import ttnn


def make(device, *shape, memory=ttnn.DRAM_MEMORY_CONFIG):
    return ttnn.allocate_tensor_on_device(ttnn.Shape(shape), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


def level(device):
    return ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
"""


def run(folder: Path, text: str, *arguments: str, board: str) -> ScriptRun:
    script = folder / "script.py"
    script.write_text(HEAD + textwrap.dedent(text))
    return run_script(script, arguments, settings=RunSettings(board=board), output=2)


def peak_of(profile: Profile, rank: int, memory: str = "DRAM") -> int:
    return peaks(select(profile, rank=rank))[memory].peak_bytes_per_bank


SUBMESHES = """
mesh = ttnn.open_mesh_device(ttnn.MeshShape(2, 4))
top, bottom = mesh.create_submeshes(ttnn.MeshShape(1, 4))
on_top = make(top, 1, 1, 32, 32 * 12 * 2)
on_bottom = make(bottom, 1, 1, 32, 32 * 12 * 5)
both = ttnn.add(on_bottom, on_bottom)
del both
result = ttnn.relu(on_top)
part = bottom.create_submesh(ttnn.MeshShape(1, 2))
small = make(part, 1, 1, 32, 32 * 12)
if len(sys.argv) > 1:
    on_all = make(mesh, 1, 1, 32, 32 * 12)
levels = [level(device) for device in (mesh, top, bottom, part)]
assert levels == [2048 * (len(sys.argv) - 1), 2 * 2 * 2048, 5 * 2048, 2048], levels
ttnn.close_mesh_device(mesh)
"""


@pytest.mark.parametrize("overlapping", [False, True])
def test_submeshes_have_states_of_their_own(with_ttnn: Interpreter, tmp_path: Path, overlapping: bool) -> None:
    ended = run(tmp_path, SUBMESHES, *["all"] * overlapping, board="t3k")
    assert ended.status == 0
    profile = ended.profile
    assert [timeline.rank for timeline in profile.timelines] == [0, 1, 2, 3]
    assert [peak_of(profile, rank) for rank in (1, 2, 3)] == [4 * TILE, 10 * TILE, TILE]
    assert peak_of(profile, 0) == TILE * overlapping
    # AND the worst is shown, with the tensors of its own device under their names
    worst = peaks(profile)["DRAM"]
    assert (worst.rank, worst.peak_bytes_per_bank) == (2, 10 * TILE)
    alive = alive_at_peak(profile, "DRAM")
    assert alive is not None
    assert {life.name for life in alive.tensors} == {"on_bottom", "both"}
    assert profile.facts["ranks"][1:] == [
        "rank 1: submesh 1x4 of rank 0, chips 4 0 2 6",
        "rank 2: submesh 1x4 of rank 0, chips 5 1 3 7",
        "rank 3: submesh 1x2 of rank 2, chips 5 1",
    ]
    # AND a part of a submesh was put where the submesh has its own tensor: neither allocator knows of the other
    assert any("same addresses of the same chips" in warning for warning in profile.source.warnings)


TWO_DEVICES = """
first, second = ttnn.open_device(device_id=0), ttnn.open_device(device_id=1)
a, b = make(first, 1, 1, 32, 32 * 12), make(second, 1, 1, 32, 32 * 12 * 3)
for _ in range(3):
    c = ttnn.relu(b)
d = ttnn.relu(a)
ttnn.close_device(second)
third = ttnn.open_device(device_id=1)
e = make(third, 1, 1, 32, 32 * 12 * 2)
ttnn.close_device(third)
ttnn.close_device(first)
"""


def test_two_devices_at_the_same_time(with_ttnn: Interpreter, tmp_path: Path) -> None:
    ended = run(tmp_path, TWO_DEVICES, board="n300")
    assert ended.status == 0
    profile = ended.profile
    assert [len(timeline) for timeline in profile.timelines] == [2, 5]
    assert (peak_of(profile, 0), peak_of(profile, 1)) == (2 * TILE, 9 * TILE)
    for timeline in profile.timelines:
        assert timeline.programs_l1 is not None
        assert timeline.programs_l1.measured.all()
    assert not any("same addresses" in warning for warning in profile.source.warnings)


COLLECTIVES = """
rows, columns = int(sys.argv[1]), int(sys.argv[2])
ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
mesh = ttnn.open_mesh_device(ttnn.MeshShape(rows, columns))
host = ttnn.Tensor([0.0] * 32 * 32 * columns, [1, 1, 32, 32 * columns], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
host = host.to(ttnn.TILE_LAYOUT)
cut = ttnn.MeshMapperConfig([ttnn.PlacementReplicate(), ttnn.PlacementShard(3)])
shards = ttnn.distribute_tensor(host, ttnn.create_mesh_mapper(mesh, cut), mesh)
copies = ttnn.distribute_tensor(host, ttnn.replicate_tensor_to_mesh_mapper(mesh), mesh)
cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 7))])
flag = ttnn.create_global_semaphore(mesh, cores, 0)
gathered = ttnn.all_gather(shards, dim=3, cluster_axis=1)
scattered = ttnn.reduce_scatter(copies, dim=3, cluster_axis=1)
reduced = ttnn.all_reduce(copies, cluster_axis=1)
assert gathered.shape == copies.shape and scattered.shape == shards.shape
ttnn.close_mesh_device(mesh)
"""


@pytest.mark.parametrize(
    ("board", "rows", "columns"), [("n300", 1, 2), ("t3k", 2, 4), ("galaxy", 4, 8), ("p150x4", 2, 2)]
)
def test_collectives_with_their_buffers_and_semaphores(
    with_ttnn: Interpreter, tmp_path: Path, board: str, rows: int, columns: int
) -> None:
    ended = run(tmp_path, COLLECTIVES, str(rows), str(columns), board=board)
    assert ended.status == 0
    profile = ended.profile
    (timeline,) = profile.timelines
    assert profile.facts["mesh"] == [rows, columns]
    assert timeline.programs_l1 is not None
    assert timeline.programs_l1.measured.all()
    assert timeline.programs_l1.circular_buffers.max() > 0
    # AND semaphores are there as what they are: kept by the collective that made them, or by the program
    assert timeline.buffers is not None
    names = [timeline.buffers.names[name] for name in timeline.buffers.name]
    assert "kept by ttnn.create_global_semaphore" in names
    assert {"kept by ttnn.all_gather", "kept by ttnn.reduce_scatter"} <= set(names)
    # AND a tensor says how the chips share it
    alive = alive_at_peak(profile, "DRAM")
    assert alive is not None
    shared = {life.name: life.type.distribution for life in alive.tensors}
    assert shared["shards"] == f"dim 3 over {columns}"
    assert shared["copies"] == f"replicated on {rows * columns}"
    assert {entry.get("distribution") for entry in profile.to_json()["consumers"]} >= set(shared.values()) - {""}


TRANSFER = """
ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, int(sys.argv[1])))
x = make(mesh, 1, 1, 64, 64)
for _ in range(2):
    y = ttnn.point_to_point(x, ttnn.MeshCoordinate(0, 0), ttnn.MeshCoordinate(0, 1), topology=ttnn.Topology.Linear)
    here = ttnn.point_to_point(x, ttnn.MeshCoordinate(0, 0), ttnn.MeshCoordinate(0, 0), topology=ttnn.Topology.Linear)
z = ttnn.relu(y)
ttnn.close_mesh_device(mesh)
"""


def test_a_transfer_between_two_of_many_chips_needs_what_it_needs_between_two(
    with_ttnn: Interpreter, tmp_path: Path
) -> None:
    # On more than two chips the library dies of it on a mock, with and without ttmem.
    two, eight = (run(tmp_path, TRANSFER.replace("    here", "    # here") if board == "n300" else TRANSFER, chips,
                      board=board) for board, chips in (("n300", "2"), ("t3k", "8")))  # fmt: skip
    assert (two.status, eight.status) == (0, 0)
    for memory in ("DRAM", "L1"):
        found = [peaks(ended.profile)[memory].peak_bytes_per_bank for ended in (two, eight)]
        assert found[1] - found[0] == (TILE if memory == "DRAM" else 0)  # the result of the copy on one chip
    assert any("cannot launch" in warning for warning in eight.profile.source.warnings)
    assert not two.profile.source.warnings
