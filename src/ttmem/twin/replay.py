# SPDX-License-Identifier: Apache-2.0
"""Allocation scripts: one JSON object per line, `{"alloc": "a", "shape": [..], ..}` or `{"free": "a"}`."""

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from ttmem.base.errors import BadInputError
from ttmem.hardware import DATA_TYPES, MEMORIES, TILE_32X32, Tile
from ttmem.twin.device import Buffer, Device
from ttmem.twin.errors import OutOfMemoryError
from ttmem.twin.placement import Placement
from ttmem.twin.tensor_spec import LAYOUTS, CoreRange, InvalidSpecError, NdShard, Shard, TensorSpec, make_core_grid

_ALLOC_KEYS = {"alloc", "shape", "dtype", "layout", "memory", "shard", "tile"}
_LARGEST = 1 << 63
"""The limit of the library's sizes."""
_SHARD_KEYS = {"kind", "shape", "grid", "ranges", "orientation", "distribution"}


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step."""

    ok: bool
    buffer: Buffer | None = None
    """The buffer of a successful allocation."""
    failure: OutOfMemoryError | InvalidSpecError | None = None


def read_steps(lines: Iterable[str], name: str = "steps") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each step with its location; blank lines and `#` comments are skipped."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        where = f"{name}:{number}"
        try:
            step = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadInputError(f"not JSON: {error.msg} at column {error.colno}", where=where) from None
        except (ValueError, RecursionError):
            raise BadInputError("a number is too long, or lists are nested too deeply", where=where) from None
        if not isinstance(step, dict):
            raise BadInputError("a step is an object with `alloc` or `free`", where=where)
        yield where, step


def read_spec(step: Mapping[str, Any], where: str = "") -> TensorSpec:
    """Return the spec of an `alloc` step; library defaults are bfloat16 tiles in DRAM."""
    unknown = set(step) - _ALLOC_KEYS
    if unknown:
        raise BadInputError(f"unknown key {min(unknown)!r}", where=where, hint=_list_keys(_ALLOC_KEYS))
    shape = step.get("shape")
    if not _is_number_list(shape):
        raise BadInputError("`shape` must be a list of integers", where=where)
    try:
        return TensorSpec(
            tuple(shape),
            DATA_TYPES.find(str(step.get("dtype", "bfloat16"))),
            LAYOUTS.find(str(step.get("layout", "tile"))),
            MEMORIES.find(str(step.get("memory", "DRAM"))),
            read_shard(step["shard"], where) if step.get("shard") is not None else None,
            _read_tile(step["tile"], where) if "tile" in step else TILE_32X32,
        )
    except InvalidSpecError:
        raise
    except BadInputError as error:
        raise BadInputError(error.message, where=error.where or where, hint=error.hint) from None


def _list_keys(keys: set[str]) -> str:
    return f"known: {', '.join(sorted(keys))}"


def _read_tile(raw: Any, where: str) -> Tile:
    if not _is_number_list(raw, 2):
        raise BadInputError("`tile` must be [height, width]", where=where)
    return Tile(*raw)


def read_shard(raw: Any, where: str = "") -> Shard | NdShard:
    """Parse a step's `shard`: kind, shape, and grid or ranges."""
    if not isinstance(raw, dict) or set(raw) - _SHARD_KEYS or "kind" not in raw or "shape" not in raw:
        raise BadInputError(
            "`shard` needs kind and shape, and grid [columns, rows]", where=where, hint=_list_keys(_SHARD_KEYS)
        )
    shape = raw["shape"]
    if not _is_number_list(shape):
        raise BadInputError("the shard's `shape` must be a list of integers", where=where)
    ranges = _read_ranges(raw, where)
    orientation = raw.get("orientation", "row")
    if orientation not in ("row", "col"):
        raise BadInputError(f"unknown orientation {orientation!r}", where=where, hint="known: row, col")
    if raw["kind"] == "nd":
        return NdShard(tuple(shape), ranges, orientation == "col", str(raw.get("distribution", "round_robin_1d")))
    if len(shape) != 2:
        raise BadInputError(f"a {raw['kind']} shard has two sizes", where=where)
    return Shard(str(raw["kind"]), shape[0], shape[1], ranges, orientation == "col")


def _read_ranges(raw: Mapping[str, Any], where: str) -> tuple[CoreRange, ...]:
    """Parse `grid`, [columns, rows] from core (0, 0), or `ranges`, rectangles [x0, y0, x1, y1]."""
    if "ranges" in raw:
        ranges = raw["ranges"]
        if not isinstance(ranges, list) or not all(_is_number_list(r, 4) for r in ranges):
            raise BadInputError("`ranges` must be a list of [x0, y0, x1, y1]", where=where)
        return tuple(CoreRange(*r) for r in ranges)
    if not _is_number_list(raw.get("grid"), 2):
        raise BadInputError("`grid` must be [columns, rows]", where=where)
    return make_core_grid(*raw["grid"])


def _is_number_list(value: Any, count: int | None = None) -> TypeGuard[list[int]]:
    return (
        isinstance(value, list)
        and count in (None, len(value))
        and all(type(n) is int and -_LARGEST < n < _LARGEST for n in value)
    )


def _check_name(name: object, key: str, where: str) -> None:
    if not isinstance(name, str | int):
        raise BadInputError(f"the name in `{key}` must be a text", where=where)


class Placements:
    """A cache of placements on one device: scripts repeat a few specs, and parsing one is slower than allocating."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._known: dict[Hashable, Placement] = {}

    def find(self, step: Mapping[str, Any], where: str = "") -> Placement:
        key: Hashable = None
        # Only the keys of a plain tensor: anything else, right or wrong, is read in full.
        if len(step) == 5 and "shard" not in step:
            try:
                key = (tuple(step["shape"]), step["dtype"], step["layout"], step["memory"])
                placement = self._known.get(key)
            except (KeyError, TypeError):
                key = placement = None
            if placement is not None:
                return placement
        placement = self._device.place(read_spec(step, where))
        if key is not None:
            self._known[key] = placement
        return placement


class ScriptRunner:
    """Runs steps on a device by name. A failed allocation has no buffer, so freeing it does nothing."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._buffers: dict[str, Buffer | None] = {}
        self._placements = Placements(device)

    def step(self, step: Mapping[str, Any], where: str = "") -> StepResult:
        name = step.get("alloc")
        if name is None:
            return self._free(step, where)
        _check_name(name, "alloc", where)
        if self._buffers.get(name) is not None:
            raise BadInputError(f"{name!r} is allocated already; free it first", where=where)
        self._buffers[name] = None
        try:
            buffer = self.device.allocate_placed(self._placements.find(step, where))
        except (OutOfMemoryError, InvalidSpecError) as failure:
            return StepResult(False, None, failure)
        self._buffers[name] = buffer
        return StepResult(True, buffer)

    def _free(self, step: Mapping[str, Any], where: str) -> StepResult:
        if "free" not in step:
            raise BadInputError("a step needs `alloc` or `free`", where=where)
        _check_name(step["free"], "free", where)
        try:
            buffer = self._buffers.pop(step["free"])
        except KeyError:
            raise BadInputError(f"free of {step['free']!r}, which is not allocated", where=where) from None
        if buffer is not None:
            self.device.free(buffer)
        return _FREED


_FREED = StepResult(True)
