# SPDX-License-Identifier: Apache-2.0
"""Run an operation in the fewest pieces that fit, with the same result, or in another way that the user prefers.

    softmax = ttmem.chunked(ttnn.softmax, dim=0, limit="60%")
    y = softmax(x, dim=-1)
    softmax.last.chunks                  # the number of pieces

Inside the user's program: the standard library alone, and ttnn where its tensors are given. Functions of torch on
tensors of torch go the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ttmem.base.bisection import find_first_failure
from ttmem.base.errors import BadInputError
from ttmem.prediction.chunk_rules import ChunkCut, ChunkedCall, ChunkError, find_rule
from ttmem.prediction.chunk_tensors import Move, Tensors, TorchTensors, TtnnTensors, UploadedTensors
from ttmem.prediction.guard import HINT, WontFitError, operation_name

WHOLE, CHUNKS, ON_HOST = "whole", "chunks", "host"
_MEMORIES = ("L1", "DRAM")
_TYPES = ("bfloat8_b", "bfloat4_b", "bfloat16")
_TILE = 32
_MOST_CHUNKS = 4096


@dataclass(frozen=True, slots=True)
class ChunkedRun:
    """The way in which a call was run."""

    name: str
    """``whole``, ``L1``, ``DRAM``, a data type, ``chunks`` or ``host``."""
    chunks: int = 1
    refused: tuple[str, ...] = ()
    """Reasons why the earlier ways failed."""


class _TensorCall(NamedTuple):
    """A call of the function, with the kind of its tensors."""

    tensors: Tensors
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def replace_tensors(self, change: Callable[[Any], Any]) -> _TensorCall:
        arguments, options = (_replace_tensors(one, change, self.tensors) for one in (self.arguments, self.options))
        return _TensorCall(self.tensors, arguments, options)

    def run(self, function: Callable[..., Any]) -> Any:
        return self.tensors.take_results(function(*self.arguments, **self.options))


class Chunked:
    """A function with the signature of the one it wraps."""

    def __init__(
        self,
        function: Callable[..., Any],
        dim: int,
        limit: str | int | None,
        order: Sequence[str],
        host: Callable[..., Any] | None,
        rule: str | None,
        moving: _Transfers,
    ) -> None:
        unknown = [way for way in order if way not in (WHOLE, CHUNKS, ON_HOST, *_MEMORIES, *_TYPES)]
        if unknown or not order:
            known = ", ".join((WHOLE, *_MEMORIES, *_TYPES, CHUNKS, ON_HOST))
            raise BadInputError(f"no way '{unknown[0] if unknown else ''}'", hint=f"known: {known}")
        if ON_HOST in order and host is None:
            raise BadInputError("'host' needs a function of the host", hint="ttmem.chunked(fn, host=torch.softmax)")
        self.last: ChunkedRun | None = None
        """The way of the last call."""
        self._function, self._dim, self._limit = function, dim, limit
        self._order, self._host, self._moving = tuple(order), host, moving
        self._name = operation_name(function)
        if CHUNKS in order:
            self._rule = find_rule(self._name, rule)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        tensors = self._moving.tensors_for(arguments, options)
        if tensors is None:
            raise BadInputError(f"{self._name or 'the function'} was given no tensor of ttnn or torch")
        tensors.set_limit(self._limit)
        try:
            return self._try_each_way(_TensorCall(tensors, arguments, options))
        finally:
            tensors.close()

    def _try_each_way(self, call: _TensorCall) -> Any:
        refused: list[str] = []
        changes_result: ChunkError | None = None
        for way in self._order:
            try:
                result, pieces = self._run_way(way, call)
            except (DoesNotFitError, ChunkError) as error:
                refused.append(f"{way}: {error}")
                changes_result = error if isinstance(error, ChunkError) else changes_result
                continue
            self.last = ChunkedRun(way, pieces, tuple(refused))
            return result
        if changes_result is not None:
            raise changes_result
        raise WontFitError(f"{self._name} fits in none of the ways: {'; '.join(refused)}", hint=HINT)

    def _run_way(self, way: str, call: _TensorCall) -> tuple[Any, int]:
        if way == CHUNKS:
            return self._run_in_chunks(call)
        tensors = call.tensors
        if way == ON_HOST and self._host is not None:
            return self._host(*tensors.move_to_host(call.arguments), **dict(tensors.move_to_host(call.options))), 1
        if way in _TYPES:
            return self._run_as_type(way, call), 1
        if way in _MEMORIES:
            call = call._replace(options={**call.options, "memory_config": tensors.memory_config(way)})
        return self._run_whole(call), 1

    def _run_whole(self, call: _TensorCall) -> Any:
        if reason := call.tensors.find_refusal(self._name, call.arguments, call.options):
            raise DoesNotFitError(reason)
        with call.tensors.translate_failures(DoesNotFitError):
            return call.replace_tensors(call.tensors.prepare).run(self._function)

    def _run_as_type(self, dtype: str, call: _TensorCall) -> Any:
        """Run the call with tensors of another data type, which are freed afterwards."""
        made: list[Any] = []

        def cast(tensor: Any) -> Any:
            changed = call.tensors.cast(tensor, dtype)
            if changed is not tensor:
                made.append(changed)
            return changed

        try:
            with call.tensors.translate_failures(DoesNotFitError):
                changed = call.replace_tensors(cast)
            return self._run_whole(changed)
        finally:
            call.tensors.free(made)

    def _run_in_chunks(self, call: _TensorCall) -> tuple[Any, int]:
        described, given = self._describe_call(call)
        cut = self._rule(described, self._dim)
        place, dimension = cut.tensors[0]
        step = _TILE if call.tensors.is_tiled(given[place], dimension) and cut.size >= _TILE else 1
        most = min(_MOST_CHUNKS, -(-cut.size // step))

        def fits(count: int) -> bool:
            pieces = list(_split_range(cut.size, step, count))
            return call.tensors.would_fit(self._name, call.arguments, call.options, given, cut, pieces)

        count = self._find_fewest_pieces(fits, most)
        while True:
            try:
                return self._run_pieces(call, cut, list(_split_range(cut.size, step, count)))
            except DoesNotFitError:
                if count == most:
                    raise
                count = min(most, count * 2)

    def _describe_call(self, call: _TensorCall) -> tuple[ChunkedCall, list[Any]]:
        given: list[Any] = []
        keywords: list[str] = []
        values: list[Any] = []
        plain: dict[str, Any] = {}
        for key, value in (*(("", one) for one in call.arguments), *call.options.items()):
            found = list(_find_tensors(value, call.tensors))
            given += found
            keywords += [key] * len(found)
            if not found and key:
                plain[key] = value
            elif not found:
                values.append(value)
        return ChunkedCall(self._name, [tuple(one.shape) for one in given], keywords, values, plain), given

    def _find_fewest_pieces(self, fits: Callable[[int], bool], most: int) -> int:
        high = 1
        while high < most and not fits(high):
            high = min(most, high * 2)
        if high == most and not fits(most):
            raise DoesNotFitError(f"not even in {most} pieces along dimension {self._dim}")
        return find_first_failure(high // 2, high, lambda count: not fits(count))

    def _run_pieces(self, call: _TensorCall, cut: ChunkCut, pieces: list[tuple[int, int]]) -> tuple[Any, int]:
        if len(pieces) == 1:
            return self._run_whole(call), 1
        made: list[Any] = []
        try:
            for begin, end in pieces:
                made.append(self._run_piece(call, dict(cut.tensors), begin, end))
            with call.tensors.translate_failures(DoesNotFitError):
                return _join_results(call.tensors, made, cut.result_dimension), len(pieces)
        finally:
            call.tensors.free(made)

    def _run_piece(self, call: _TensorCall, dimensions: Mapping[int, int], begin: int, end: int) -> Any:
        slices: list[Any] = []
        places = itertools.count()

        def slice_tensor(tensor: Any) -> Any:
            dimension = dimensions.get(next(places))
            if dimension is None:
                return call.tensors.prepare(tensor)
            slices.append(call.tensors.slice(tensor, dimension, begin, end))
            return slices[-1]

        try:
            with call.tensors.translate_failures(DoesNotFitError):
                return call.replace_tensors(slice_tensor).run(self._function)
        finally:
            call.tensors.free(slices)


class DoesNotFitError(Exception):
    """A way to run the call does not fit."""


def chunked(
    function: Callable[..., Any],
    *,
    dim: int = 0,
    limit: str | int | None = None,
    order: Sequence[str] = (WHOLE, CHUNKS),
    host: Callable[..., Any] | None = None,
    rule: str | None = None,
    device: Any = None,
    upload: Move | None = None,
    download: Move | None = None,
) -> Chunked:
    """Wrap a function to run in the first way that fits: by default as a whole, else in the fewest pieces.

    ``dim``: along which dimension of the result it is cut. ``limit``: how full a memory of the device may become,
    ``"80%"`` of a bank or ``"700MiB"`` per bank; for tensors of torch the bytes of one piece. ``order``: the ways in
    the order that is preferred, of ``whole``, ``L1`` and ``DRAM`` (where the result goes), ``bfloat8_b`` (tensors of
    that type), ``chunks`` and ``host`` (the function ``host``). ``rule``: how a function of one's own may be cut.

    With a ``device`` the tensors are those of torch or numpy: pieces are brought to the device (``upload``: by default
    as bfloat16 tiles) and their results taken back (``download``), so that neither has to fit it as a whole. With
    tensors of the device and a ``download``, results leave it piece by piece.
    """
    return Chunked(function, dim, limit, order, host, rule, _Transfers(device, upload, download))


@dataclass(frozen=True, slots=True)
class _Transfers:
    """Uploads and downloads between host and device."""

    device: Any
    upload: Move | None
    download: Move | None

    def tensors_for(self, arguments: Any, options: Any) -> Tensors | None:
        found = next(_find_tensors((arguments, options), TtnnTensors), None)
        if found is not None:
            return TtnnTensors(found.device(), self.download)
        if self.device is not None and next(_find_tensors((arguments, options), UploadedTensors), None) is not None:
            return UploadedTensors(self.device, self.upload, self.download)
        found = next(_find_tensors((arguments, options), TorchTensors), None)
        return TorchTensors(found) if found is not None else None


def _find_tensors(value: Any, tensors: Any) -> Iterator[Any]:
    if tensors.is_tensor(value):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _find_tensors(item, tensors)


def _replace_tensors(value: Any, change: Callable[[Any], Any], tensors: Tensors) -> Any:
    if tensors.is_tensor(value):
        return change(value)
    if isinstance(value, dict):
        return {key: _replace_tensors(item, change, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and next(_find_tensors(value, tensors), None) is not None:
        return type(value)([_replace_tensors(item, change, tensors) for item in value])
    return value


def _join_results(tensors: Tensors, made: list[Any], dimension: int) -> Any:
    """Join the results of the pieces; if the operation has several results, each on its own."""
    if tensors.is_tensor(made[0]):
        return tensors.join(made, dimension)
    return tuple(tensors.join(list(parts), dimension) for parts in zip(*made, strict=True))


def _split_range(size: int, step: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of at most ``count`` pieces of nearly the same size, in whole steps."""
    steps = -(-size // step)
    each = -(-steps // count) * step
    for begin in range(0, size, each):
        yield begin, min(size, begin + each)
