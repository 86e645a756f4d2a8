# SPDX-License-Identifier: Apache-2.0
"""Decodes arguments of steps: from JSON to the library's own objects.

Numbers, texts and lists are themselves. An object has one of these keys: ``tensor`` (a named tensor), ``tuple``,
``dtype``, ``layout``, ``shape``, ``memory`` (with ``shard``), ``device`` (the open one), ``attribute`` (anything by its
name: ``ttnn.Conv2dL1FullSliceConfig``), ``new`` (a call of it).
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from .library import Library

_ORIENTATIONS = {"row": "ROW_MAJOR", "col": "COL_MAJOR"}


class ValueDecoder:
    def __init__(self, library: Library, tensors: Mapping[str, Any], device: Callable[[], Any]) -> None:
        self._ttnn = library.ttnn
        self._graph = library.graph
        self._device = device
        self._kinds: dict[str, Callable[[Any], Any]] = {
            "tensor": tensors.__getitem__,
            "tuple": lambda items: tuple(map(self.decode, items)),
            "dtype": self.find_data_type,
            "layout": self.find_layout,
            "shape": self._ttnn.Shape,
            "device": lambda _: device(),
            "attribute": self.find_attribute,
        }

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "memory" in value:  # first: a whole memory config has a layout and a shape too
            return self.build_memory_config(value)
        for kind, make in self._kinds.items():
            if kind in value:
                return make(value[kind])
        if "new" in value:
            arguments, options = self.call_arguments(value)
            return self.find_attribute(value["new"])(*arguments, **options)
        raise ValueError(f"no such kind of value: {sorted(value)}")

    def call_arguments(self, call: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        named = {name: self.decode(value) for name, value in call.get("kwargs", {}).items()}
        return tuple(map(self.decode, call.get("args", []))), named

    def find_attribute(self, name: str) -> Any:
        """Find ``ttnn.a.b`` (the leading ``ttnn.`` is optional); nothing outside the library."""
        found = self._ttnn
        for part in name.removeprefix("ttnn.").split("."):
            if part.startswith("_"):
                raise AttributeError(f"'{name}' is not public")
            found = getattr(found, part)
        return found

    def find_data_type(self, name: str) -> Any:
        return getattr(self._ttnn.DataType, name.upper())

    def find_layout(self, name: str) -> Any:
        return {"tile": self._ttnn.TILE_LAYOUT, "row_major": self._ttnn.ROW_MAJOR_LAYOUT}[name]

    def build_memory_config(self, placement: Mapping[str, Any]) -> Any:
        ttnn = self._ttnn
        memory = getattr(ttnn.BufferType, placement.get("memory", "DRAM"))
        shard = placement.get("shard")
        if shard is None:
            return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, memory)
        grid = self.build_core_ranges(shard["ranges"])
        orientation = getattr(ttnn.ShardOrientation, _ORIENTATIONS[shard.get("orientation", "row")])
        if shard["kind"] == "nd":
            strategy = getattr(ttnn.ShardDistributionStrategy, shard["distribution"].upper())
            return ttnn.MemoryConfig(memory, ttnn.NdShardSpec(ttnn.Shape(shard["shape"]), grid, orientation, strategy))
        layout = getattr(ttnn.TensorMemoryLayout, f"{shard['kind'].upper()}_SHARDED")
        return ttnn.MemoryConfig(layout, memory, ttnn.ShardSpec(grid, shard["shape"], orientation))

    def build_core_ranges(self, ranges: list[list[int]]) -> Any:
        """Decode ``[[x0, y0, x1, y1], ...]``."""
        ttnn = self._ttnn
        return ttnn.CoreRangeSet(
            [ttnn.CoreRange(ttnn.CoreCoord(x0, y0), ttnn.CoreCoord(x1, y1)) for x0, y0, x1, y1 in ranges]
        )

    def allocate(self, step: Mapping[str, Any]) -> Any:
        """Allocate a tensor on the device; without a tile of its own the way that most programs do."""
        ttnn = self._ttnn
        spec = (
            ttnn.Shape(step["shape"]),
            self.find_data_type(step["dtype"]),
            self.find_layout(step.get("layout", "tile")),
        )
        config = self.build_memory_config(step)
        if "tile" not in step:
            return ttnn.allocate_tensor_on_device(*spec, self._device(), config)
        tile = ttnn.Tile(step["tile"])
        if not config.is_sharded():
            described = ttnn.TensorSpec(*spec, config.buffer_type, tile)
        elif step["shard"]["kind"] == "nd":
            described = ttnn.TensorSpec(*spec, config.nd_shard_spec, config.buffer_type, tile)
        else:
            described = ttnn.TensorSpec(*spec, config.memory_layout, config.shard_spec, config.buffer_type, tile)
        return ttnn.allocate_tensor_on_device(described, self._device())

    def create_host_tensor(self, step: Mapping[str, Any]) -> Any:
        filled = [float(step.get("fill", 0.0))] * prod(step["shape"])
        layout = self.find_layout(step.get("layout", "row_major"))
        return self._ttnn.Tensor(filled, step["shape"], self.find_data_type(step["dtype"]), layout)

    def run_program(self, buffers: list[dict[str, Any]], io: Any) -> Any:
        """Run a program with these circular buffers and an empty kernel on every core; return its graph nodes.

        Buffers on a core without a kernel corrupt the library's memory; a program without kernels kills it.
        """
        ttnn, device = self._ttnn, self._device()
        grid = device.compute_with_storage_grid_size()
        kernel = ttnn.KernelDescriptor(
            kernel_source="void kernel_main() {}",
            source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE,
            core_ranges=self.build_core_ranges([[0, 0, grid.x - 1, grid.y - 1]]),
            config=ttnn.ReaderConfigDescriptor(),
        )
        described = [
            ttnn.CBDescriptor(
                total_size=buffer["bytes"],
                core_ranges=self.build_core_ranges(buffer["ranges"]),
                format_descriptors=[
                    ttnn.CBFormatDescriptor(
                        buffer_index=buffer["index"], data_format=ttnn.bfloat16, page_size=buffer["page_bytes"]
                    )
                ],
            )
            for buffer in buffers
        ]
        program = ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[], cbs=described)
        device.clear_program_cache()  # circular buffers of a cached program are not listed
        self._graph.begin_graph_capture(self._graph.RunMode.NORMAL)
        try:
            ttnn.generic_op([io, io], program)
        finally:
            nodes = self._graph.end_graph_capture()
        return nodes
