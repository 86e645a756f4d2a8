# SPDX-License-Identifier: Apache-2.0
"""Slice, join and move the tensors of chunked calls: torch on the host, ttnn on a device, or both."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ttmem.base.errors import BadInputError, TtmemError
from ttmem.engines.worker.peaks import compute_allowed_bytes
from ttmem.prediction.chunk_rules import ChunkCut
from ttmem.prediction.live_twin import LiveTwin, SimulatedTensor
from ttmem.twin.error_messages import is_about_memory
from ttmem.twin.errors import DeviceFailureError
from ttmem.twin.operations import UNKNOWN
from ttmem.twin.tensor_spec import TensorSpec

Pieces = Sequence[tuple[int, int]]


class Tensors(ABC):
    """The tensors of one library."""

    @staticmethod
    @abstractmethod
    def is_tensor(value: Any) -> bool:
        """Return whether a value is such a tensor."""

    @abstractmethod
    def set_limit(self, text: str | int | None) -> None:
        """Set the limit of memory in use."""

    @abstractmethod
    def slice(self, tensor: Any, dimension: int, begin: int, end: int) -> Any:
        """Return a slice along one dimension."""

    @abstractmethod
    def join(self, parts: list[Any], dimension: int) -> Any:
        """Join slices again."""

    @abstractmethod
    def would_fit(
        self, name: str, arguments: Any, options: Any, given: Sequence[Any], cut: ChunkCut, pieces: Pieces
    ) -> bool:
        """Return False if the call is known not to fit in these pieces."""

    def find_refusal(self, name: str, arguments: Any, options: Mapping[str, Any]) -> str:
        """Return why the call cannot fit; empty if it may fit."""
        return ""

    def prepare(self, tensor: Any) -> Any:
        """Return the argument for a tensor that is not cut."""
        return tensor

    def take_results(self, results: Any) -> Any:
        """Convert the function's results for the caller."""
        return results

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release what a call needed."""

    def is_tiled(self, tensor: Any, dimension: int) -> bool:
        """Return whether pieces along a dimension should be whole tiles."""
        return False

    def memory_config(self, memory: str) -> Any:
        """Return the memory configuration for interleaved tensors."""
        raise BadInputError(f"'{memory}' is a memory of a device: these tensors have none")

    def cast(self, tensor: Any, dtype: str) -> Any:
        """Convert to another data type."""
        raise BadInputError(f"'{dtype}' is a data type of a device: these tensors have none")

    def move_to_host(self, values: Any) -> Any:
        """Convert arguments for a function on the host."""
        return values

    def free(self, tensors: Any) -> None:  # noqa: B027 - the host gives them back by itself
        """Free tensors."""

    @contextmanager
    def translate_failures(self, error_type: type[Exception]) -> Iterator[None]:
        """Translate the library's out-of-memory errors into another type."""
        yield


class TorchTensors(Tensors):
    """Host tensors of torch; the estimate for a call is twice the bytes of its tensors."""

    def __init__(self, first: Any) -> None:
        self._torch: Any = sys.modules["torch"]
        self._limit: int | None = None

    @staticmethod
    def is_tensor(value: Any) -> bool:
        return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)

    def set_limit(self, text: str | int | None) -> None:
        if isinstance(text, str):
            text = read_limit(text, None)
        self._limit = text

    def slice(self, tensor: Any, dimension: int, begin: int, end: int) -> Any:
        return tensor.narrow(dimension, begin, end - begin)

    def join(self, parts: list[Any], dimension: int) -> Any:
        return self._torch.cat(parts, dim=dimension)

    def find_refusal(self, name: str, arguments: Any, options: Mapping[str, Any]) -> str:
        given = [value for value in flatten((arguments, options)) if self.is_tensor(value)]
        needed = 2 * sum(one.numel() * one.element_size() for one in given)
        return f"about {needed} B, over {self._limit} B" if self._limit is not None and needed > self._limit else ""

    def would_fit(
        self, name: str, arguments: Any, options: Any, given: Sequence[Any], cut: ChunkCut, pieces: Pieces
    ) -> bool:
        if self._limit is None:
            return True
        share = (pieces[0][1] - pieces[0][0]) / cut.size
        cuts = dict(cut.tensors)
        needed: float = sum(
            one.numel() * one.element_size() * (share if place in cuts else 1.0) for place, one in enumerate(given)
        )
        return 2 * needed <= self._limit


def flatten(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from flatten(item)
    else:
        yield value


def read_limit(text: str | int, bank_bytes: int | None) -> int:
    if isinstance(text, int):
        return text
    try:
        if bank_bytes is None and "%" in text:
            raise ValueError(f"'{text}' of what? Tensors of the host have no banks")
        return compute_allowed_bytes(text, bank_bytes or 0)
    except ValueError as error:
        raise BadInputError(f"limit: {error}") from None


Move = Callable[[Any], Any]


class TtnnTensors(Tensors):
    """Device tensors; a twin of the open device says what fits."""

    def __init__(self, device: Any, download: Move | None = None) -> None:
        """``download``: where given, pieces of the result leave the device as soon as they are made."""
        self._ttnn: Any = sys.modules["ttnn"]
        self._live = LiveTwin(device)
        self._allowed: dict[str, int] = {}
        self._download = download

    @staticmethod
    def is_tensor(value: Any) -> bool:
        return "ttnn" in sys.modules and isinstance(value, sys.modules["ttnn"].Tensor)

    def set_limit(self, text: str | int | None) -> None:
        pools = {pool.memory.name: pool.bytes_per_bank for pool in self._live.twin.memory_map.pools}
        self._allowed = {}
        if text is not None:
            self._allowed = {name: read_limit(text, pools[name]) for name in ("DRAM", "L1")}

    def slice(self, tensor: Any, dimension: int, begin: int, end: int) -> Any:
        return self._ttnn.slice(tensor, *_slice_corners(tensor.shape, dimension, begin, end))

    def join(self, parts: list[Any], dimension: int) -> Any:
        if self._download is None:
            return self._ttnn.concat(parts, dimension)
        if type(parts[0]).__module__.startswith("torch"):
            return sys.modules["torch"].cat(parts, dim=dimension)
        return sys.modules["numpy"].concatenate(parts, axis=dimension)

    def take_results(self, results: Any) -> Any:
        if self._download is None:
            return results
        if self._is_on_device(results):
            kept = self._download(results)
            self._ttnn.deallocate(results)
            return kept
        return type(results)(map(self.take_results, results)) if isinstance(results, (list, tuple)) else results

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

    def move_to_host(self, values: Any) -> Any:
        if self.is_tensor(values):
            return self._ttnn.from_device(values)
        if isinstance(values, dict):
            return {key: self.move_to_host(value) for key, value in values.items()}
        return type(values)(map(self.move_to_host, values)) if isinstance(values, (list, tuple)) else values

    def free(self, tensors: Any) -> None:
        for tensor in flatten(tensors):
            if self._is_on_device(tensor):
                self._ttnn.deallocate(tensor)

    @contextmanager
    def translate_failures(self, error_type: type[Exception]) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            text = str(error)
            if not is_about_memory(text):
                raise
            raise error_type(next(line for line in text.splitlines() if is_about_memory(line))) from None

    def find_refusal(self, name: str, arguments: Any, options: Mapping[str, Any]) -> str:
        self._live.refresh()
        return self._simulate_refusal(name, arguments, options)

    def _simulate_refusal(self, name: str, arguments: Any, options: Mapping[str, Any]) -> str:
        try:
            self._simulate(name, arguments, options)
        except DeviceFailureError as error:
            return error.message
        except _OverLimitError as error:
            return str(error)
        except TtmemError:
            return ""
        return ""

    def _simulate(self, name: str, arguments: Any, options: Mapping[str, Any]) -> tuple[SimulatedTensor, ...]:
        """Simulate a call on the twin; return its results, or nothing if there is no rule."""
        told = self._live.simulate(name, arguments, options)
        for memory, most in self._allowed.items():
            if self._live.twin.peaks.get(memory, 0) > most:
                held = self._live.twin.peaks[memory]
                raise _OverLimitError(f"{memory} would hold {held} B per bank, the limit is {most} B")
        return () if told.confidence == UNKNOWN else told.results

    def would_fit(
        self, name: str, arguments: Any, options: Any, given: Sequence[Any], cut: ChunkCut, pieces: Pieces
    ) -> bool:
        self._live.refresh()
        try:
            self._simulate_pieces(name, arguments, options, given, cut, pieces)
        except (DeviceFailureError, _OverLimitError):
            return False
        except TtmemError:
            return True  # unknown: the library will say
        return True

    def _simulate_pieces(
        self, name: str, arguments: Any, options: Any, given: Any, cut: ChunkCut, pieces: Pieces
    ) -> None:
        cut_places = dict(cut.tensors) if len(pieces) > 1 else {}
        whole = {
            place: there
            for place, tensor in enumerate(given)
            if place not in cut_places and (there := self._simulate_upload(tensor)) is not None
        }
        if not cut_places:
            self._simulate(name, *_exchange_tensors(arguments, options, whole, self))
            return
        made: list[tuple[SimulatedTensor, ...]] = []
        for begin, end in pieces:
            cuts: dict[int, SimulatedTensor] = {}
            for place, dimension in cut.tensors:
                piece = self._simulate_slice(given[place], dimension, begin, end)
                if piece is None:
                    return
                cuts[place] = piece
            results = self._simulate(name, *_exchange_tensors(arguments, options, {**whole, **cuts}, self))
            if not results:
                return
            self._live.free(*cuts.values())
            if self._download is not None:
                self._live.free(*results)
            else:
                made.append(results)
        for parts in zip(*made, strict=True):
            self._simulate("ttnn.concat", (list(parts), cut.result_dimension), {})

    def _simulate_upload(self, tensor: Any) -> SimulatedTensor | None:
        """Simulate the upload of a tensor; None if it is on the device already."""
        return None

    def _simulate_slice(self, tensor: Any, dimension: int, begin: int, end: int) -> SimulatedTensor | None:
        made = self._simulate("ttnn.slice", (tensor, *_slice_corners(tensor.shape, dimension, begin, end)), {})
        return made[0] if made else None


class UploadedTensors(TtnnTensors):
    """Host tensors of torch or numpy: slices are uploaded, and results downloaded."""

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

    def slice(self, tensor: Any, dimension: int, begin: int, end: int) -> Any:
        return self._upload(tensor[(slice(None),) * dimension + (slice(begin, end),)])

    def prepare(self, tensor: Any) -> Any:
        if id(tensor) not in self._brought:
            self._brought[id(tensor)] = self._upload(tensor)
        return self._brought[id(tensor)]

    def close(self) -> None:
        self.free(list(self._brought.values()))
        self._brought.clear()

    def move_to_host(self, values: Any) -> Any:
        return values

    def find_refusal(self, name: str, arguments: Any, options: Mapping[str, Any]) -> str:
        self._live.refresh()
        places = [tensor for tensor in flatten((arguments, options)) if self.is_tensor(tensor)]
        try:
            there = {place: self._live.add_tensor(TensorSpec(tuple(one.shape))) for place, one in enumerate(places)}
        except DeviceFailureError as error:
            return error.message
        changed = _exchange_tensors(arguments, options, there, self)
        return self._simulate_refusal(name, *changed)

    def _simulate_upload(self, tensor: Any) -> SimulatedTensor | None:
        return self._live.add_tensor(TensorSpec(tuple(tensor.shape))) if id(tensor) not in self._brought else None

    def _simulate_slice(self, tensor: Any, dimension: int, begin: int, end: int) -> SimulatedTensor | None:
        shape = list(tensor.shape)
        shape[dimension] = end - begin
        return self._live.add_tensor(TensorSpec(tuple(shape)))


class _OverLimitError(Exception):
    """A call exceeds the caller's limit."""


def _exchange_tensors(arguments: Any, options: Any, cuts: Mapping[int, Any], tensors: Tensors) -> tuple[Any, Any]:
    """Replace some tensors of the arguments, counted in order."""
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


def _slice_corners(shape: Sequence[int], dimension: int, begin: int, end: int) -> tuple[list[int], list[int]]:
    first, last = [0] * len(shape), list(shape)
    first[dimension], last[dimension] = begin, end
    return first, last
