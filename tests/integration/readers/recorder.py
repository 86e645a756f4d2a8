# SPDX-License-Identifier: Apache-2.0
"""Runs a small ttnn program on a mock board under capture, and writes down what the allocator itself says meanwhile.

Runs under the interpreter that has ttnn (standard library and ttnn alone), which this finds and prepares:

    python tests/oracle/real.py BOARD tests/integration/readers/recorder.py BOARD KIND FOLDER

KIND is ``normal`` or ``no_dispatch`` (a bare list of nodes), or ``report`` (what full_graph_capture and the importer
write). Beside the capture, ``truth.json`` holds the allocator's own memory views before and after every step.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import types
from pathlib import Path

BOARD, KIND, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3]).resolve()
FOLDER.mkdir(parents=True, exist_ok=True)
if any(FOLDER.iterdir()):
    sys.exit(f"{FOLDER} is not empty: the library's importer would add to what is there")
WORK = Path(os.environ["TMPDIR"])
os.chdir(WORK)

import ttnn  # noqa: E402

MEMORIES = ("DRAM", "L1", "L1_SMALL", "TRACE")


def open_board():
    settings = {"l1_small_size": 32768}
    if BOARD == "n150":
        settings["dispatch_core_config"] = ttnn.DispatchCoreConfig(type=ttnn.device.DispatchCoreType.WORKER)
    return ttnn.open_device(device_id=0, **settings)


class Recorder:
    """Runs steps one by one and notes the memory before and after each."""

    def __init__(self, device):
        self.device = device
        self.states = []
        self.failures = []

    def note(self, when, step):
        views = {}
        for name in MEMORIES:
            view = ttnn.get_memory_view(self.device, getattr(ttnn.BufferType, name))
            views[name] = [
                view.num_banks,
                view.total_bytes_per_bank,
                view.total_bytes_allocated_per_bank,
                view.total_bytes_free_per_bank,
                view.largest_contiguous_bytes_free_per_bank,
            ]
        self.states.append({"when": when, "step": step, "views": views})

    def run(self, step, function, *arguments, **options):
        self.note("before", step)
        try:
            return function(*arguments, **options)
        except RuntimeError as error:
            self.failures.append({"step": step, "text": str(error).split("\nbacktrace:")[0]})
        finally:
            self.note("after", step)

    def tensor(self, *shape, dtype=ttnn.bfloat16, memory=ttnn.DRAM_MEMORY_CONFIG, layout=ttnn.TILE_LAYOUT):
        return ttnn.allocate_tensor_on_device(ttnn.Shape(list(shape)), dtype, layout, self.device, memory)


def height_sharded(rows, columns, cores):
    grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(cores - 1, 0))])
    spec = ttnn.ShardSpec(grid, [rows, columns], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)


def program(recorder, prepared):
    """A small model: an MLP, a reduction with temporaries, a pooling in L1, and one operation too many."""
    x, w1, w2, image, sharded = prepared
    l1 = ttnn.L1_MEMORY_CONFIG
    h = recorder.run("matmul 1", ttnn.matmul, x, w1, memory_config=l1)
    g = recorder.run("gelu", ttnn.gelu, h)
    recorder.run("deallocate", ttnn.deallocate, h)
    y = recorder.run("matmul 2", ttnn.matmul, g, w2)
    z = recorder.run("add", ttnn.add, y, x)
    s = recorder.run("softmax", ttnn.softmax, z, dim=-1)
    recorder.run("relu sharded", ttnn.relu, sharded)
    r = recorder.run("reshape", ttnn.reshape, s, (1, 1, 128, 512))
    m = recorder.run("mean", ttnn.mean, w2, dim=0)
    p = recorder.run(
        "max_pool2d",
        ttnn.max_pool2d,
        input_tensor=image,
        batch_size=1,
        input_h=32,
        input_w=32,
        channels=64,
        kernel_size=[2, 2],
        stride=[2, 2],
        padding=[0, 0],
        dilation=[1, 1],
    )
    del y
    gc = recorder.run("mul", ttnn.mul, z, z)
    recorder.run("too big", ttnn.to_memory_config, recorder.huge, l1)
    recorder.run("exp", ttnn.exp, m)
    return h, g, z, s, r, m, p, gc


def main():
    device = open_board()
    recorder = Recorder(device)
    prepared = (
        recorder.tensor(1, 1, 256, 256, memory=ttnn.L1_MEMORY_CONFIG),
        recorder.tensor(256, 1024),
        recorder.tensor(1024, 256, dtype=ttnn.bfloat8_b),
        recorder.tensor(1, 1, 1024, 64, layout=ttnn.ROW_MAJOR_LAYOUT),
        recorder.tensor(1, 1, 128, 64, memory=height_sharded(32, 64, 4)),
    )
    never_used = recorder.tensor(1, 1, 96, 2176)
    recorder.huge = recorder.tensor(1, 16, 2048, 2048)
    if KIND == "report":
        with contextlib.suppress(ImportError):
            import torch  # noqa: F401
        if "torch" not in sys.modules:  # the recorder asks isinstance(value, torch.Tensor), nothing else
            stand_in = types.ModuleType("torch")
            stand_in.Tensor = type("Tensor", (), {})
            sys.modules["torch"] = stand_in
        with ttnn.graph.full_graph_capture(str(FOLDER / "report.json"), slow_dispatch=False):
            kept = program(recorder, prepared)
        ttnn.graph.import_report(str(FOLDER / "report.json"), str(FOLDER))
    else:
        mode = ttnn.graph.RunMode.NORMAL if KIND == "normal" else ttnn.graph.RunMode.NO_DISPATCH
        ttnn._ttnn.graph.begin_graph_capture(mode)
        try:
            kept = program(recorder, prepared)
        finally:
            nodes = ttnn._ttnn.graph.end_graph_capture()
        (FOLDER / "capture.json").write_text(json.dumps(nodes))
    truth = {"board": BOARD, "kind": KIND, "states": recorder.states, "failures": recorder.failures}
    truth["bases"] = {
        name: ttnn._ttnn.device.GetAllocatorBaseAddress(device, getattr(ttnn.BufferType, name))
        for name in ("DRAM", "L1")
    }
    if KIND != "report":
        used = ttnn.graph.extract_resource_usage_per_core(nodes)
        truth["extracted"] = {
            name: getattr(used, name)
            for name in ("peak_cb", "peak_l1", "peak_dataflow_buffer", "peak_scratchpad", "peak_total")
            if hasattr(used, name)
        }
    (FOLDER / "truth.json").write_text(json.dumps(truth))
    del kept, never_used, prepared
    ttnn.close_device(device)


main()
