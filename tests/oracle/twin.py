# SPDX-License-Identifier: Apache-2.0
"""Runs the oracle's steps on the twin and answers in the oracle's words."""

from __future__ import annotations

from typing import Any

from ttmem._errors import TtmemError
from ttmem.allocator import Buffer, Device, Program, StaticBuffer
from ttmem.allocator.operations import Call, ProgramCache, run_call
from ttmem.hardware import DATA_TYPES, MEMORIES, OpenSettings, Tile, open_board
from ttmem.tensors import LAYOUTS, CoreRange, NdShard, Shard, TensorSpec


def ranges_of(raw: list[list[int]]) -> tuple[CoreRange, ...]:
    return tuple(CoreRange(*r) for r in raw)


def shard_of(raw: dict[str, Any] | None) -> Shard | NdShard | None:
    if raw is None:
        return None
    by_column = raw.get("orientation", "row") == "col"
    if raw["kind"] == "nd":
        return NdShard(tuple(raw["shape"]), ranges_of(raw["ranges"]), by_column, raw["distribution"])
    return Shard(raw["kind"], *raw["shape"], ranges_of(raw["ranges"]), by_column)


def spec_of(step: dict[str, Any]) -> TensorSpec:
    return TensorSpec(
        tuple(step["shape"]),
        DATA_TYPES.find(step["dtype"]),
        LAYOUTS.find(step["layout"]),
        MEMORIES.find(step.get("memory", "DRAM")),
        shard_of(step.get("shard")),
        Tile(*step.get("tile", (32, 32))),
    )


class TwinDevice:
    """The twin behind the oracle's protocol."""

    def __init__(self, board: str) -> None:
        self.board = board
        self.tensors: dict[str, tuple[TensorSpec, Buffer]] = {}
        self.warnings: list[str] = []

    def open(
        self, l1_small_size: int = 0, trace_region_size: int = 0, worker_l1_size: int = 0, dispatch: str | None = None
    ) -> dict[str, Any]:
        self.tensors.clear()
        self.cache = ProgramCache()
        try:
            memory_map = open_board(
                self.board, OpenSettings(l1_small_size, trace_region_size, worker_l1_size, dispatch)
            )
        except TtmemError as error:
            return {"ok": False, "error": error.message}
        self.device = Device(memory_map)
        return {
            "grid": [memory_map.grid.columns, memory_map.grid.rows],
            "pools": {
                p.memory.name: [p.banks, p.base_address if p.memory.name in ("DRAM", "L1") else None, p.bytes_per_bank]
                for p in memory_map.pools
            },
            "dram_alignment": memory_map.architecture.dram_alignment_bytes,
            "l1_alignment": memory_map.architecture.l1_alignment_bytes,
        }

    def run(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answers = []
        for step in steps:
            try:
                answers.append(self.step(step))
            except TtmemError as error:
                answers.append({"ok": False, "error": error.message})
        return answers

    def step(self, step: dict[str, Any]) -> dict[str, Any]:
        if "alloc" in step:
            spec = spec_of(step)
            buffer = self.device.allocate(spec)
            self.tensors[step["alloc"]] = (spec, buffer)
            return self.describe(spec, buffer)
        if "free" in step:
            self.drop(step["free"])
            return {"ok": True}
        if "op" in step:
            return self.operate(step)
        if "view" in step:
            view = self.device.view(MEMORIES.find(step["view"]))
            answer: dict[str, Any] = {
                "ok": True,
                "allocated": view.allocated_bytes_per_bank,
                "free": view.free_bytes_per_bank,
                "largest_free": view.largest_free_bytes_per_bank,
            }
            if step.get("blocks"):
                answer["blocks"] = self.block_table(step["view"])
            return answer
        if "program" in step:
            buffers = [
                StaticBuffer(b["bytes"], ranges_of(b["ranges"]), b["page_bytes"], (b["index"],))
                for b in step["program"]
            ]
            layout = self.device.launch(Program(tuple(buffers)))
            self.warnings += layout.warnings
            return {"ok": True, "addresses": list(layout.addresses)}
        if "clear" in step:
            for name in list(self.tensors):
                self.drop(name)
            self.cache.clear(self.device)
            return {"ok": True}
        raise AssertionError(step)

    def drop(self, name: str) -> None:
        """A buffer dies with the last tensor that uses it."""
        _, buffer = self.tensors.pop(name)
        if not any(other is buffer for _, other in self.tensors.values()):
            self.device.free(buffer)

    def operate(self, step: dict[str, Any]) -> dict[str, Any]:
        inputs = [self.tensors[name] for name in step["inputs"]]
        memory = MEMORIES.find(step["memory"]) if "memory" in step else None
        call = Call(step["op"], tuple(spec for spec, _ in inputs), step.get("args", {}), memory)
        result = run_call(self.device, call, [buffer for _, buffer in inputs], self.cache)
        assert result.buffer is not None
        assert result.plan.result_spec is not None
        self.tensors[step["out"]] = (result.plan.result_spec, result.buffer)
        return self.describe(result.plan.result_spec, result.buffer)

    def describe(self, spec: TensorSpec, buffer: Buffer) -> dict[str, Any]:
        placement = self.device.place(spec)
        return {
            "ok": True,
            "address": buffer.address,
            "pages": placement.paging.pages,
            "page_bytes": placement.paging.page_bytes,
            "aligned_page_bytes": placement.aligned_page_bytes,
            "shape": list(spec.shape),
            "padded_shape": list(placement.paging.padded_shape),
        }

    def block_table(self, memory: str) -> list[list[Any]]:
        """Addresses in the library's block table count from the base of the pool."""
        found = MEMORIES.find(memory)
        base = self.device.memory_map.pool(found).base_address
        return [[address - base, size, taken] for address, size, taken in self.device.blocks(found)]
