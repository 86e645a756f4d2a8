# SPDX-License-Identifier: Apache-2.0
"""Run an operation in parts: where to cut it, and which buffers its pieces need."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ttmem.base.errors import BadInputError
from ttmem.profile.tensor_type import TensorType
from ttmem.tuning.captured_run import BufferLifetime, CapturedRun
from ttmem.tuning.edited_run import UNKNOWN_BECAUSE, EditedBuffer, EditedRun, read_spec
from ttmem.tuning.edits import Edit
from ttmem.tuning.groups import Group
from ttmem.twin.operations import RECORDS
from ttmem.twin.placement import place
from ttmem.twin.tensor_spec import InvalidSpecError

_ELEMENTWISE = ("unary", "binary", "comparison", "typecast", "clone", "where")
_PRODUCTS = ("matmul", "linear")
_ALONG_THE_LAST = ("softmax", "layer_norm", "rms_norm")
_TILE = 32


class OperationCut(NamedTuple):
    """The dimension and pieces of an operation in parts."""

    dimension: int
    """Dimension of the first input and of the result, counted from the end."""
    pieces: tuple[tuple[int, int], ...]
    cuts_all: bool
    """All inputs with the dimension are cut, not only the first."""
    keeps_last: bool
    """The operation works along one dimension, which must not be cut."""

    @property
    def share(self) -> float:
        (begin, end), size = self.pieces[0], self.pieces[-1][1]
        return (end - begin) / size


def find_cut(draft: EditedRun, index: int, parts: int) -> OperationCut | None:
    """Cut along the outermost dimension with enough parts; None if there is no rule for the operation."""
    run = draft.history
    name = run.operations[index].name.removeprefix("ttnn.")
    family = RECORDS.find(name).family if name in RECORDS else ""
    results = [life for life in run.results(index) if life.type is not None]
    types = [draft.buffer(number).type for number in run.operations[index].inputs]
    if not types or len(results) != 1 or not (family in _ELEMENTWISE or name in (*_PRODUCTS, *_ALONG_THE_LAST)):
        return None
    first, result = types[0], results[0].type
    if first is None or result is None or len(first.shape) != len(result.shape):
        return None
    if any(type_ is None or type_.shard_bytes for type_ in (*types, result)):
        return None  # pieces of shards would be elsewhere
    best: tuple[int, int, int] | None = None
    for dimension in range(-len(first.shape), -1):
        size = first.shape[dimension]
        if size != result.shape[dimension] or (name in _PRODUCTS and _is_batch_of(types[1:], dimension)):
            continue
        unit = _TILE if dimension == -2 and first.layout == "tile" else 1
        units = -(-size // unit)
        if best is None or min(units, parts) > best[0]:
            best = (min(units, parts), dimension, unit)
    if best is None or best[0] < 2:
        return None
    count, dimension, unit = best
    size = first.shape[dimension]
    step = math.ceil(math.ceil(size / unit) / count) * unit
    pieces = tuple((begin, min(begin + step, size)) for begin in range(0, size, step))
    return OperationCut(dimension, pieces, family in _ELEMENTWISE, name in _ALONG_THE_LAST)


def _is_batch_of(others: list[TensorType | None], dimension: int) -> bool:
    """Return whether another operand of a product has the dimension, too."""
    return dimension < -2 and any(
        one is not None and len(one.shape) >= -dimension and one.shape[dimension] != 1 for one in others
    )


def list_piece_buffers(draft: EditedRun, index: int, cut: OperationCut) -> Iterator[EditedBuffer]:
    """Yield the additional buffers: a part of each input that is cut, and all parts of the result."""
    run = draft.history
    first, end = run.starts[index], run.ends[index] + 1
    inputs = list(run.operations[index].inputs)
    size = cut.pieces[-1][1]
    for number in inputs if cut.cuts_all else inputs[:1]:
        type_ = draft.buffer(number).type
        if type_ is not None and len(type_.shape) >= -cut.dimension and type_.shape[cut.dimension] == size:
            yield from _build_buffers(draft, draft.buffer(number), cut, cut.pieces[:1], first, end)
    for life in run.results(index):
        yield from _build_buffers(draft, draft.buffer(life.number), cut, cut.pieces, first, end)


def _build_buffers(
    draft: EditedRun, whole: EditedBuffer, cut: OperationCut, pieces: tuple[tuple[int, int], ...], first: int, end: int
) -> Iterator[EditedBuffer]:
    spec = read_spec(whole.type) if whole.type is not None else None
    if spec is None or draft.memory_map is None:
        return
    for begin, stop in pieces:
        shape = list(spec.shape)
        shape[cut.dimension] = stop - begin
        try:
            placed = place(replace(spec, shape=tuple(shape)), draft.memory_map)
        except InvalidSpecError:
            return
        yield EditedBuffer(whole.memory, placed.taken_bytes_per_bank, placed.total_bytes, None, first, end)


def find_temporaries(run: CapturedRun, index: int) -> list[BufferLifetime]:
    """Return the buffers that an operation allocates and frees itself."""
    first, last = run.starts[index], run.ends[index]
    begin = bisect.bisect_left(run.lives, first, key=lambda life: life.taken_at)
    behind = run.lives[begin : bisect.bisect_right(run.lives, last, key=lambda life: life.taken_at)]
    return [life for life in behind if life.given_at <= last + 1 and life.taken_at > first]


def chunk_operations(
    draft: EditedRun, edit: Edit, group: Group, cuts: dict[int, OperationCut]
) -> tuple[dict[int, EditedBuffer], str]:
    """Shrink temporaries; add parts of inputs and all parts of results while the operation runs."""
    run = draft.history
    if not edit.value.isdigit() or int(edit.value) < 2:
        raise BadInputError(f"'{edit}': into how many parts?", hint="write chunk:#47=4")
    change: dict[int, EditedBuffer] = {}
    quantum = run.memory_map.quantum_bytes
    added = draft.next_number()
    doubt = ""
    for index in dict.fromkeys(life.producer for life in group.lives if life.producer >= 0):
        if index in draft.cut or any(life.number in draft.written_over for life in run.results(index)):
            raise BadInputError(
                f"'{edit}': operation {index} runs in parts or writes in place already", hint="write one edit of it"
            )
        cut = find_cut(draft, index, int(edit.value))
        if cut is None:
            doubt = f"{UNKNOWN_BECAUSE}how {run.operations[index].name} is cut is not known"
        else:
            cuts[index] = cut
            for piece in list_piece_buffers(draft, index, cut):
                change[added] = piece
                added += 1
        share = cut.share if cut is not None else 1 / int(edit.value)
        for life in find_temporaries(run, index):
            piece = draft.buffer(life.number)
            size = -(-int(piece.bytes_per_bank * share + 1) // quantum) * quantum
            change[life.number] = piece._replace(bytes_per_bank=min(size, piece.bytes_per_bank))
    return change, doubt or "all parts of the result are counted as long as the operation runs"
