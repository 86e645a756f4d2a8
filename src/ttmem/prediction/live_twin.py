# SPDX-License-Identifier: Apache-2.0
"""A twin of the open device: its current memory, and the effect of a call on it.

It runs inside the user's program, in the interpreter with ttnn, so it needs only the standard library and ttnn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.engines.worker.library import Library
from ttmem.engines.worker.open_devices import read_device_facts
from ttmem.hardware import (
    ARCHITECTURES,
    DATA_TYPES,
    DEFAULT_RELEASE,
    HOST,
    MEMORIES,
    RELEASES,
    Grid,
    MemoryMap,
    OpenSettings,
    Pool,
)
from ttmem.twin.device import Buffer, WatchedDevice
from ttmem.twin.free_list import FreeListState
from ttmem.twin.operations import (
    EXACT,
    RECORDS,
    UNKNOWN,
    ProgramCache,
    build_call,
    parse_call,
    plan_on_device,
    run_call,
)
from ttmem.twin.tensor_spec import LAYOUTS, CoreRange, Shard, TensorSpec

_MOVES_TO_DEVICE = ("to_device",)


class UnclearCallError(BadInputError):
    """The twin cannot read an argument of this type, so the needs of the call are unknown."""


@dataclass(frozen=True, slots=True)
class SimulatedTensor:
    """A tensor that exists only on the twin."""

    spec: TensorSpec
    buffer: Buffer

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """The effect of a call."""

    results: tuple[SimulatedTensor, ...]
    """Empty if there is no rule for the call."""
    confidence: str
    note: str = ""


class LiveTwin:
    """A twin of one open device."""

    def __init__(self, device: Any) -> None:
        self.library = Library()
        self.device = device
        self.twin = WatchedDevice(_read_memory_map(self.library, device))
        self._cache = ProgramCache()

    def refresh(self) -> None:
        """Copy the current state of the device."""
        states = []
        for pool in self.twin.memory_map.pools:
            free: list[tuple[int, int]] = []
            taken: dict[int, int] = {}
            table = self.library.read_block_table(self.device, pool.memory.name) if pool.bytes_per_bank else []
            for address, size, is_taken in table:
                if is_taken:
                    taken[pool.base_address + address] = size
                else:
                    free.append((pool.base_address + address, size))
            starts, sizes = tuple(start for start, _ in free), tuple(size for _, size in free)
            states.append(
                FreeListState((starts,) if free else (), (sizes,) if free else (), taken, sum(taken.values()))
            )
        self.twin.restore(tuple(states))
        self.twin.peaks = {memory.name: self.twin.get_allocated_bytes_per_bank(memory) for memory in MEMORIES}

    def simulate(self, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> SimulatedCall:
        """Run a call on the twin. It raises what the library would raise if it does not fit; a call without a rule
        leaves the twin unchanged."""
        function = name.removeprefix("ttnn.")
        tensors: dict[str, tuple[TensorSpec, Buffer]] = {}
        step = {
            "call": f"ttnn.{function}",
            "args": [self._describe_argument(value, tensors) for value in arguments],
            "kwargs": {
                key: self._describe_argument(value, tensors) for key, value in options.items() if value is not None
            },
        }
        written = parse_call(step)
        if function in _MOVES_TO_DEVICE and written.tensors:
            spec, _ = tensors[written.tensors[0]]
            moved = TensorSpec(spec.shape, spec.dtype, spec.layout, written.memory or MEMORIES.find("DRAM"))
            return SimulatedCall((SimulatedTensor(moved, self.twin.allocate(moved)),), EXACT)
        record = RECORDS.get(written.function)
        if record is None:
            return SimulatedCall((), UNKNOWN, f"the twin has no rule for {name}")
        held = [tensors[given] for given in written.tensors]
        into, target = tensors[written.target] if written.target is not None else (None, None)
        call = build_call(record, written, [spec for spec, _ in held], into)
        plan = plan_on_device(self.twin, call, self._cache)
        result = run_call(self.twin, call, [buffer for _, buffer in held], self._cache, target, plan)
        made = tuple(SimulatedTensor(spec, buffer) for buffer, spec in result.made)
        return SimulatedCall(made, plan.confidence if made else UNKNOWN, plan.note)

    def add_tensor(self, spec: TensorSpec) -> SimulatedTensor:
        return SimulatedTensor(spec, self.twin.allocate(spec))

    def free(self, *tensors: SimulatedTensor) -> None:
        for tensor in tensors:
            self.twin.free(tensor.buffer)

    def read_spec(self, tensor: Any) -> TensorSpec:
        layout = LAYOUTS.find("tile" if tensor.layout.name == "TILE" else "row_major")
        dtype = DATA_TYPES.find(tensor.dtype.name)
        if not self.library.is_on_device(tensor):
            return TensorSpec(tuple(tensor.shape), dtype, layout, HOST)
        config = tensor.memory_config()
        memory = MEMORIES.find(config.buffer_type.name)
        return TensorSpec(tuple(tensor.shape), dtype, layout, memory, _read_shard(config))

    def _describe_argument(self, value: Any, tensors: dict[str, tuple[TensorSpec, Buffer]]) -> Any:
        """Describe an argument as in a step; tensors get names."""
        ttnn = self.library.ttnn
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (SimulatedTensor, ttnn.Tensor)):
            name = f"t{len(tensors)}"
            if isinstance(value, SimulatedTensor):
                tensors[name] = value.spec, value.buffer
            else:
                spec = self.read_spec(value)
                at = 0 if spec.memory is HOST else value.buffer_address()
                tensors[name] = spec, Buffer(at, self.twin.place(TensorSpec((0,)) if spec.memory is HOST else spec))
            return {"tensor": name}
        if isinstance(value, (list, ttnn.Shape)):
            return [self._describe_argument(item, tensors) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self._describe_argument(item, tensors) for item in value]}
        if isinstance(value, ttnn.MemoryConfig):
            return _describe_memory_config(value)
        if isinstance(value, ttnn.DataType):
            return {"dtype": value.name.lower()}
        if isinstance(value, ttnn.Layout):
            return {"layout": "tile" if value.name == "TILE" else "row_major"}
        if value is self.device:
            return {"device": 0}
        raise UnclearCallError(f"an argument of type {type(value).__name__}")


def _read_memory_map(library: Library, device: Any) -> MemoryMap:
    facts = read_device_facts(library, device)
    pools = {memory.name: Pool(memory, *(int(number) for number in facts["pools"][memory.name])) for memory in MEMORIES}
    release = RELEASES.get(library.version) or DEFAULT_RELEASE
    return MemoryMap(
        board_name="device",
        architecture=next(one for one in ARCHITECTURES if one.ttnn_name == facts["arch"]),
        grid=Grid(*facts["grid"]),
        dram=pools["DRAM"],
        l1=pools["L1"],
        l1_small=pools["L1_SMALL"],
        trace=pools["TRACE"],
        l1_base_address=pools["L1"].base_address,
        settings=OpenSettings(l1_small_bytes=pools["L1_SMALL"].bytes_per_bank),
        source="the open device",
        release=release,
    )


def _read_shard(config: Any) -> Shard | None:
    kind = config.memory_layout.name.lower()
    if kind == "interleaved":
        return None
    cut = config.shard_spec
    if cut is None or not kind.endswith("_sharded") or kind.startswith("nd"):
        raise UnclearCallError("a tensor with n-dimensional shards")
    ranges = tuple(CoreRange(r.start.x, r.start.y, r.end.x, r.end.y) for r in cut.grid.ranges())
    height, width = cut.shape
    by_column = cut.orientation.name == "COL_MAJOR"
    return Shard(kind.removesuffix("_sharded"), height, width, ranges, by_column)


def _describe_memory_config(config: Any) -> dict[str, Any]:
    shard = _read_shard(config)
    written: dict[str, Any] = {"memory": config.buffer_type.name}
    if shard is not None:
        written["shard"] = {
            "kind": shard.kind,
            "shape": [shard.height, shard.width],
            "ranges": [[r.start_x, r.start_y, r.end_x, r.end_y] for r in shard.ranges],
            "orientation": "col" if shard.by_column else "row",
        }
    return written
