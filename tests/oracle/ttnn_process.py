# SPDX-License-Identifier: Apache-2.0
"""The child process that holds the real ttnn: JSON lines in on stdin, JSON lines out on stdout.

Runs under another interpreter than the tests, so it imports the standard library, its neighbour and ttnn alone.
A request is `{"open": {...}}`, `{"run": [step, ...]}` or `{"close": true}`; the answer to `run` has one entry per step.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import mock_cluster

BOARD, FOLDER = sys.argv[1], Path(sys.argv[2])
# The library writes to stdout when it fails; the answers keep the real one to themselves.
ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.environ.update(
    mock_cluster.prepare(BOARD, FOLDER, Path(importlib.util.find_spec("ttnn").origin).parent),  # type: ignore
)
os.chdir(FOLDER)

import ttnn  # noqa: E402

MEMORIES = {name: getattr(ttnn.BufferType, name) for name in ("DRAM", "L1", "L1_SMALL", "TRACE")}
LAYOUTS = {"tile": ttnn.TILE_LAYOUT, "row_major": ttnn.ROW_MAJOR_LAYOUT}
ORIENTATIONS = {"row": ttnn.ShardOrientation.ROW_MAJOR, "col": ttnn.ShardOrientation.COL_MAJOR}
KINDS = {
    "height": ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
    "width": ttnn.TensorMemoryLayout.WIDTH_SHARDED,
    "block": ttnn.TensorMemoryLayout.BLOCK_SHARDED,
}


def data_type(name):
    return getattr(ttnn.DataType, name.upper())


def core_ranges(ranges):
    return ttnn.CoreRangeSet(
        [ttnn.CoreRange(ttnn.CoreCoord(x0, y0), ttnn.CoreCoord(x1, y1)) for x0, y0, x1, y1 in ranges],
    )


def message(error):
    """The library's own sentence: between `info:` and `backtrace:` of its exceptions."""
    text = str(error)
    if "\ninfo:\n" in text:
        text = text.split("\ninfo:\n", 1)[1]
    return text.split("\nbacktrace:", 1)[0].strip()


def dispatch_config(name):
    types, axes = ttnn.device.DispatchCoreType, ttnn.device.DispatchCoreAxis
    if name == "eth":
        return ttnn.DispatchCoreConfig(type=types.ETH)
    return ttnn.DispatchCoreConfig(type=types.WORKER, axis={"row": axes.ROW, "col": axes.COL}[name])


def matmul(tensors, arguments, options):
    config = arguments["program_config"]
    grid = tensors[0].device().compute_with_storage_grid_size()
    program_config = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
        compute_with_storage_grid_size=(grid.x, grid.y),
        in0_block_w=config["in0_block_w"],
        out_subblock_h=1,
        out_subblock_w=1,
        per_core_M=config["per_core_M"],
        per_core_N=config["per_core_N"],
        transpose_mcast=False,
        fused_activation=None,
    )
    if "dtype" in arguments:
        options["dtype"] = data_type(arguments["dtype"])
    return ttnn.matmul(*tensors, program_config=program_config, **options)


# How ttnn wants what the twin calls by name; operations that take tensors alone are not listed.
OPERATIONS = {
    "typecast": lambda t, a, o: ttnn.typecast(t[0], data_type(a["dtype"]), **o),
    "concat": lambda t, a, o: ttnn.concat(t, dim=a["dim"], **o),
    "transpose": lambda t, a, o: ttnn.transpose(t[0], a["dim0"], a["dim1"], **o),
    "permute": lambda t, a, o: ttnn.permute(t[0], a["dims"], **o),
    "slice": lambda t, a, o: ttnn.slice(t[0], a["begins"], a["ends"], **o),
    "pad": lambda t, a, o: ttnn.pad(t[0], [tuple(p) for p in a["padding"]], 0.0, **o),
    "reshape": lambda t, a, o: ttnn.reshape(t[0], a["shape"], **o),
    "softmax": lambda t, a, o: ttnn.softmax(t[0], dim=a["dim"], **o),
    "to_memory_config": lambda t, a, o: ttnn.to_memory_config(t[0], o["memory_config"]),
    "to_layout": lambda t, a, o: ttnn.to_layout(t[0], LAYOUTS[a["layout"]], **o),
    "matmul": matmul,
    "leaky_relu": lambda t, a, o: ttnn.leaky_relu(t[0], 0.1, **o),
    **{
        name: lambda t, a, o, name=name: getattr(ttnn, name)(t[0], dim=a["dim"], keepdim=a["keepdim"], **o)
        for name in ("sum", "mean", "max", "min")
    },
    **{
        name: lambda t, a, o, name=name: getattr(ttnn, name)(t[0], t[1] if len(t) > 1 else 2.0, **o)
        for name in ("add", "subtract", "multiply", "divide")
    },
}


class Session:
    """One open device and the tensors that were given names on it."""

    def __init__(self):
        self.device = None
        self.tensors = {}

    def open(self, l1_small_size=0, trace_region_size=0, worker_l1_size=0, dispatch=None):
        self.close()
        settings = {"l1_small_size": l1_small_size, "trace_region_size": trace_region_size}
        if worker_l1_size:
            settings["worker_l1_size"] = worker_l1_size
        if dispatch:
            settings["dispatch_core_config"] = dispatch_config(dispatch)
        self.device = ttnn.open_device(device_id=0, **settings)
        grid = self.device.compute_with_storage_grid_size()
        pools = {}
        for name, memory in MEMORIES.items():
            view = ttnn.get_memory_view(self.device, memory)
            base = ttnn._ttnn.device.GetAllocatorBaseAddress(self.device, memory) if name in ("DRAM", "L1") else None
            pools[name] = [view.num_banks, base, view.total_bytes_per_bank]
        return {
            "grid": [grid.x, grid.y],
            "pools": pools,
            "dram_alignment": ttnn._ttnn.device.get_dram_alignment(),
            "l1_alignment": ttnn._ttnn.device.get_l1_alignment(),
            "max_worker_l1": ttnn._ttnn.device.get_max_worker_l1_unreserved_size(),
        }

    def close(self):
        self.tensors.clear()
        if self.device is not None:
            ttnn.close_device(self.device)
            self.device = None

    def memory_config(self, step):
        memory, shard = MEMORIES[step.get("memory", "DRAM")], step.get("shard")
        if shard is None:
            return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, memory)
        grid, orientation = core_ranges(shard["ranges"]), ORIENTATIONS[shard.get("orientation", "row")]
        if shard["kind"] == "nd":
            strategy = getattr(ttnn.ShardDistributionStrategy, shard["distribution"].upper())
            return ttnn.MemoryConfig(
                memory,
                ttnn.NdShardSpec(ttnn.Shape(shard["shape"]), grid, orientation, strategy),
            )
        return ttnn.MemoryConfig(KINDS[shard["kind"]], memory, ttnn.ShardSpec(grid, shard["shape"], orientation))

    def alloc(self, step):
        arguments = (ttnn.Shape(step["shape"]), data_type(step["dtype"]), LAYOUTS[step["layout"]])
        if "tile" not in step:
            return ttnn.allocate_tensor_on_device(*arguments, self.device, self.memory_config(step))
        shard, memory = step.get("shard"), MEMORIES[step.get("memory", "DRAM")]
        tile = ttnn.Tile(step["tile"])
        if shard is None:
            spec = ttnn.TensorSpec(*arguments, memory, tile)
        else:
            config = self.memory_config(step)
            if shard["kind"] == "nd":
                spec = ttnn.TensorSpec(*arguments, config.nd_shard_spec, memory, tile)
            else:
                spec = ttnn.TensorSpec(*arguments, config.memory_layout, config.shard_spec, memory, tile)
        return ttnn.allocate_tensor_on_device(spec, self.device)

    def describe(self, tensor):
        return {
            "ok": True,
            "address": tensor.buffer_address(),
            "pages": tensor.buffer_num_pages(),
            "page_bytes": tensor.buffer_page_size(),
            "aligned_page_bytes": tensor.buffer_aligned_page_size(),
            "shape": list(tensor.shape),
            "padded_shape": list(tensor.padded_shape),
        }

    def view(self, name, blocks):
        view = ttnn.get_memory_view(self.device, MEMORIES[name])
        answer = {
            "ok": True,
            "allocated": view.total_bytes_allocated_per_bank,
            "free": view.total_bytes_free_per_bank,
            "largest_free": view.largest_contiguous_bytes_free_per_bank,
        }
        if blocks:
            answer["blocks"] = [[int(b["address"]), int(b["size"]), b["allocated"] == "yes"] for b in view.block_table]
        return answer

    def program(self, buffers):
        """A program of circular buffers and an empty kernel on every core.

        Buffers on a core without a kernel corrupt the library's memory, a program without kernels kills it outright.
        """
        grid = self.device.compute_with_storage_grid_size()
        kernel = ttnn.KernelDescriptor(
            kernel_source="void kernel_main() {}",
            source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE,
            core_ranges=core_ranges([[0, 0, grid.x - 1, grid.y - 1]]),
            config=ttnn.ReaderConfigDescriptor(),
        )
        descriptors = [
            ttnn.CBDescriptor(
                total_size=b["bytes"],
                core_ranges=core_ranges(b["ranges"]),
                format_descriptors=[
                    ttnn.CBFormatDescriptor(
                        buffer_index=b["index"], data_format=ttnn.bfloat16, page_size=b["page_bytes"]
                    ),
                ],
            )
            for b in buffers
        ]
        program = ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[], cbs=descriptors)
        if "io" not in self.tensors:
            raise ValueError("a program step needs a tensor named 'io'")
        io = self.tensors["io"]
        self.device.clear_program_cache()  # a cached program is not listed
        graph = ttnn._ttnn.graph
        graph.begin_graph_capture(graph.RunMode.NORMAL)
        try:
            ttnn.generic_op([io, io], program)
        finally:
            nodes = graph.end_graph_capture()
        placed = [n["params"] for n in nodes if n["node_type"] == "circular_buffer_allocate"]
        return {"ok": True, "addresses": [int(p["address"]) for p in placed]}

    def op(self, step):
        tensors = [self.tensors[name] for name in step["inputs"]]
        arguments, options = step.get("args", {}), {}
        if "memory" in step:
            options["memory_config"] = self.memory_config({"memory": step["memory"]})
        if step["op"] in OPERATIONS:
            return OPERATIONS[step["op"]](tensors, arguments, options)
        return getattr(ttnn, step["op"])(*tensors, **options)

    def step(self, step):
        if "alloc" in step:
            tensor = self.alloc(step)
            self.tensors[step["alloc"]] = tensor
            return self.describe(tensor)
        if "free" in step:
            # The buffer dies with its last reference: a view keeps it alive.
            del self.tensors[step["free"]]
            return {"ok": True}
        if "view" in step:
            return self.view(step["view"], step.get("blocks", False))
        if "program" in step:
            return self.program(step["program"])
        if "op" in step:
            tensor = self.op(step)
            self.tensors[step["out"]] = tensor
            return self.describe(tensor)
        if "clear" in step:
            self.tensors.clear()
            self.device.clear_program_cache()
            return {"ok": True}
        raise ValueError(f"unknown step {step}")

    def run(self, steps):
        answers = []
        for step in steps:
            try:
                answers.append(self.step(step))
            except (RuntimeError, ValueError, TypeError) as error:
                answers.append({"ok": False, "error": message(error)})
        return answers


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "open" in request:
                answer = session.open(**request["open"])
            elif "run" in request:
                answer = session.run(request["run"])
            else:
                session.close()
                answer = {"ok": True}
        except Exception as error:
            answer = {"ok": False, "error": message(error), "kind": type(error).__name__}
        ANSWERS.write(json.dumps(answer) + "\n")
        ANSWERS.flush()
    session.close()


if __name__ == "__main__":
    main()
