# SPDX-License-Identifier: Apache-2.0
"""Tensors of ttnn for chunks: on the device already, or brought there piece by piece from the host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ttmem.base.errors import TtmemError
from ttmem.prediction.chunk_rules import Cut
from ttmem.prediction.chunk_tensors import Pieces, Tensors, flat, limit_bytes
from ttmem.prediction.live_twin import Imagined, LiveTwin
from ttmem.twin.error_messages import is_about_memory
from ttmem.twin.errors import DeviceFailureError
from ttmem.twin.operations import UNKNOWN
from ttmem.twin.tensor_spec import TensorSpec

Move = Callable[[Any], Any]


class TtnnTensors(Tensors):
    """On a device: the twin of the open device says what fits."""

    def __init__(self, device: Any, download: Move | None = None) -> None:
        """``download``: where given, pieces of the result leave the device as soon as they are made."""
        self._ttnn: Any = sys.modules["ttnn"]
        self._live = LiveTwin(device)
        self._allowed: dict[str, int] = {}
        self._download = download

    @staticmethod
    def is_tensor(value: Any) -> bool:
        return "ttnn" in sys.modules and isinstance(value, sys.modules["ttnn"].Tensor)

    def limit(self, text: str | int | None) -> None:
        pools = {pool.memory.name: pool.bytes_per_bank for pool in self._live.twin.memory_map.pools}
        self._allowed = {}
        if text is not None:
            self._allowed = {name: limit_bytes(text, pools[name]) for name in ("DRAM", "L1")}

    def part(self, tensor: Any, dimension: int, begin: int, end: int) -> Any:
        return self._ttnn.slice(tensor, *_corners(tensor.shape, dimension, begin, end))

    def joined(self, parts: list[Any], dimension: int) -> Any:
        if self._download is None:
            return self._ttnn.concat(parts, dimension)
        if type(parts[0]).__module__.startswith("torch"):
            return sys.modules["torch"].cat(parts, dim=dimension)
        return sys.modules["numpy"].concatenate(parts, axis=dimension)

    def taken(self, results: Any) -> Any:
        if self._download is None:
            return results
        if self._is_on_device(results):
            kept = self._download(results)
            self._ttnn.deallocate(results)
            return kept
        return type(results)(map(self.taken, results)) if isinstance(results, (list, tuple)) else results

    def _is_on_device(self, value: Any) -> bool:
        return isinstance(value, self._ttnn.Tensor)

    def is_tiled(self, tensor: Any, dimension: int) -> bool:
        return bool(tensor.layout.name == "TILE" and dimension >= len(tensor.shape) - 2)

    def memory_config(self, memory: str) -> Any:
        return getattr(self._ttnn, f"{memory}_MEMORY_CONFIG")

    def cast(self, tensor: Any, dtype: str) -> Any:
        if tensor.dtype.name.startswith(("UINT", "INT")) or tensor.dtype == getattr(self._ttnn, dtype):
            return tensor
        return self._ttnn.typecast(tensor, getattr(self._ttnn, dtype))

    def on_host(self, values: Any) -> Any:
        if self.is_tensor(values):
            return self._ttnn.from_device(values)
        if isinstance(values, dict):
            return {key: self.on_host(value) for key, value in values.items()}
        return type(values)(map(self.on_host, values)) if isinstance(values, (list, tuple)) else values

    def free(self, tensors: Any) -> None:
        for tensor in flat(tensors):
            if self._is_on_device(tensor):
                self._ttnn.deallocate(tensor)

    @contextmanager
    def failures_as(self, error_type: type[Exception]) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            text = str(error)
            if not is_about_memory(text):
                raise
            raise error_type(next(line for line in text.splitlines() if is_about_memory(line))) from None

    def refusal(self, name: str, arguments: Any, options: Mapping[str, Any]) -> str:
        self._live.look()
        return self._refusal(name, arguments, options)

    def _refusal(self, name: str, arguments: Any, options: Mapping[str, Any]) -> str:
        try:
            self._imagined(name, arguments, options)
        except DeviceFailureError as error:
            return error.message
        except _OverLimitError as error:
            return str(error)
        except TtmemError:
            return ""
        return ""

    def _imagined(self, name: str, arguments: Any, options: Mapping[str, Any]) -> tuple[Imagined, ...]:
        """Results on the twin; nothing where it has no rule."""
        told = self._live.imagine(name, arguments, options)
        for memory, most in self._allowed.items():
            if self._live.twin.peaks.get(memory, 0) > most:
                held = self._live.twin.peaks[memory]
                raise _OverLimitError(f"{memory} would hold {held} B per bank, the limit is {most} B")
        return () if told.confidence == UNKNOWN else told.results

    def would_fit(
        self, name: str, arguments: Any, options: Any, given: Sequence[Any], cut: Cut, pieces: Pieces
    ) -> bool:
        self._live.look()
        try:
            self._rehearsed(name, arguments, options, given, cut, pieces)
        except (DeviceFailureError, _OverLimitError):
            return False
        except TtmemError:
            return True  # nobody can say: the library will
        return True

    def _rehearsed(self, name: str, arguments: Any, options: Any, given: Any, cut: Cut, pieces: Pieces) -> None:
        """All pieces on the twin, in the order in which they will be made."""
        cut_places = dict(cut.tensors) if len(pieces) > 1 else {}
        whole = {
            place: there
            for place, tensor in enumerate(given)
            if place not in cut_places and (there := self._imagined_whole(tensor)) is not None
        }
        if not cut_places:
            self._imagined(name, *_exchanged(arguments, options, whole, self))
            return
        made: list[tuple[Imagined, ...]] = []
        for begin, end in pieces:
            cuts: dict[int, Imagined] = {}
            for place, dimension in cut.tensors:
                piece = self._imagined_part(given[place], dimension, begin, end)
                if piece is None:
                    return
                cuts[place] = piece
            results = self._imagined(name, *_exchanged(arguments, options, {**whole, **cuts}, self))
            if not results:
                return
            self._live.free(*cuts.values())
            if self._download is not None:
                self._live.free(*results)
            else:
                made.append(results)
        for parts in zip(*made, strict=True):
            self._imagined("ttnn.concat", (list(parts), cut.result_dimension), {})

    def _imagined_whole(self, tensor: Any) -> Imagined | None:
        """A tensor that has to be brought to the device first; None: it is there."""
        return None

    def _imagined_part(self, tensor: Any, dimension: int, begin: int, end: int) -> Imagined | None:
        made = self._imagined("ttnn.slice", (tensor, *_corners(tensor.shape, dimension, begin, end)), {})
        return made[0] if made else None


class UploadedTensors(TtnnTensors):
    """Of torch or numpy: pieces are cut on the host, brought to the device, and their results taken back."""

    def __init__(self, device: Any, upload: Move | None, download: Move | None) -> None:
        ttnn = sys.modules["ttnn"]
        super().__init__(device, download or ttnn.to_torch)
        self._upload = upload or (
            lambda piece: ttnn.from_torch(piece, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
        )
        self._brought: dict[int, Any] = {}

    @staticmethod
    def is_tensor(value: Any) -> bool:
        kinds = [("torch", "Tensor"), ("numpy", "ndarray")]
        return any(name in sys.modules and isinstance(value, getattr(sys.modules[name], kind)) for name, kind in kinds)

    def is_tiled(self, tensor: Any, dimension: int) -> bool:
        return dimension >= len(tensor.shape) - 2

    def part(self, tensor: Any, dimension: int, begin: int, end: int) -> Any:
        return self._upload(tensor[(slice(None),) * dimension + (slice(begin, end),)])

    def given(self, tensor: Any) -> Any:
        if id(tensor) not in self._brought:
            self._brought[id(tensor)] = self._upload(tensor)
        return self._brought[id(tensor)]

    def close(self) -> None:
        self.free(list(self._brought.values()))
        self._brought.clear()

    def on_host(self, values: Any) -> Any:
        return values

    def refusal(self, name: str, arguments: Any, options: Mapping[str, Any]) -> str:
        self._live.look()
        places = [tensor for tensor in flat((arguments, options)) if self.is_tensor(tensor)]
        try:
            there = {place: self._live.tensor(TensorSpec(tuple(one.shape))) for place, one in enumerate(places)}
        except DeviceFailureError as error:
            return error.message
        changed = _exchanged(arguments, options, there, self)
        return self._refusal(name, *changed)

    def _imagined_whole(self, tensor: Any) -> Imagined | None:
        return self._live.tensor(TensorSpec(tuple(tensor.shape))) if id(tensor) not in self._brought else None

    def _imagined_part(self, tensor: Any, dimension: int, begin: int, end: int) -> Imagined | None:
        shape = list(tensor.shape)
        shape[dimension] = end - begin
        return self._live.tensor(TensorSpec(tuple(shape)))


class _OverLimitError(Exception):
    """More than the caller allows."""


def _exchanged(arguments: Any, options: Any, cuts: Mapping[int, Any], tensors: Tensors) -> tuple[Any, Any]:
    """The arguments with some of their tensors exchanged, counted in order."""
    count = iter(range(1 << 20))

    def walk(value: Any) -> Any:
        if tensors.is_tensor(value):
            return cuts.get(next(count), value)
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)([walk(item) for item in value])
        return value

    return walk(tuple(arguments)), walk(dict(options))


def _corners(shape: Sequence[int], dimension: int, begin: int, end: int) -> tuple[list[int], list[int]]:
    first, last = [0] * len(shape), list(shape)
    first[dimension], last[dimension] = begin, end
    return first, last
