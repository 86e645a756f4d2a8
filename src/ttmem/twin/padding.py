# SPDX-License-Identifier: Apache-2.0
"""The padding of a tensor by dimension, and cheaper alternatives."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod

from ttmem.hardware import MemoryMap
from ttmem.twin.placement import Placement, place
from ttmem.twin.tensor_spec import ROW_MAJOR, InvalidSpecError, TensorSpec

_MOST_PERMUTED = 16
"""Dimensions among which the two last ones are looked for."""


@dataclass(frozen=True, slots=True)
class DimensionPadding:
    """A dimension that is padded, and the bytes that it adds."""

    dimension: int
    """The dimension counted from the end: -1 is the width, -2 the height."""
    logical_size: int
    padded_size: int
    added_bytes: int
    """The bytes that it adds to the dimensions after it, so that the parts add up to all padding."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another way to keep the same elements that takes less of every bank."""

    how: str
    """`row_major`, `permute` or `reshape`."""
    spec: TensorSpec
    order: tuple[int, ...] | None
    """The permutation, where it is one."""
    bytes_per_bank: int
    saved_bytes_per_bank: int


@dataclass(frozen=True, slots=True)
class PaddingExplanation:
    """Logical bytes, what is added to them step by step, and cheaper alternatives, the best first."""

    logical_bytes: int
    padded_bytes: int
    """The bytes of all pages without alignment."""
    aligned_bytes: int
    """The bytes of all pages, each rounded up to the alignment of the memory."""
    reserved_bytes: int
    """The bytes that all banks of the pool lose: each reserves as much as the fullest one, in whole quanta."""
    dimensions: tuple[DimensionPadding, ...]
    alternatives: tuple[Alternative, ...]


def explain_padding(spec: TensorSpec, memory_map: MemoryMap) -> PaddingExplanation:
    placement = place(spec, memory_map)
    return PaddingExplanation(
        logical_bytes=spec.logical_bytes,
        padded_bytes=placement.padded_bytes,
        aligned_bytes=placement.total_bytes,
        reserved_bytes=placement.taken_bytes_per_bank * memory_map.pool(spec.memory).banks,
        dimensions=tuple(_list_padded_dimensions(spec)),
        alternatives=find_cheaper_alternatives(spec, placement, memory_map),
    )


def _list_padded_dimensions(spec: TensorSpec) -> Iterator[DimensionPadding]:
    padded_shape = spec.padded
    shape = (1,) * (len(padded_shape) - len(spec.shape)) + spec.shape
    elements = prod(shape)
    for dimension in range(-1, -len(shape) - 1, -1):
        logical, padded = shape[dimension], padded_shape[dimension]
        if padded == logical or not logical:
            continue
        grown = elements // logical * padded
        added = spec.dtype.logical_bytes(grown) - spec.dtype.logical_bytes(elements)
        yield DimensionPadding(dimension, logical, padded, added)
        elements = grown


def find_cheaper_alternatives(spec: TensorSpec, placement: Placement, memory_map: MemoryMap) -> tuple[Alternative, ...]:
    """Return the best alternative of each kind; none for shards, because the caller chose them deliberately."""
    if spec.shard is not None or not placement.paging.pages:
        return ()
    found: list[Alternative] = []
    for how, options in (
        ("row_major", _list_row_major(spec)),
        ("reshape", _list_reshapes(spec)),
        ("permute", _list_permutations(spec)),
    ):
        best: Alternative | None = None
        for other, order in options:
            try:
                cost = place(other, memory_map)
            except InvalidSpecError:
                continue
            saved = placement.taken_bytes_per_bank - cost.taken_bytes_per_bank
            if saved > (best.saved_bytes_per_bank if best else 0):
                best = Alternative(how, other, order, cost.bytes_per_bank, saved)
        found += [best] if best else []
    return tuple(sorted(found, key=lambda a: -a.saved_bytes_per_bank))


_Options = Iterator[tuple[TensorSpec, tuple[int, ...] | None]]


def _list_row_major(spec: TensorSpec) -> _Options:
    if spec.is_tiled and not spec.dtype.is_block_float:
        yield replace(spec, layout=ROW_MAJOR), None


def _list_permutations(spec: TensorSpec) -> _Options:
    """Yield one permutation for each pair of last sizes; the order of other dimensions does not change the bytes."""
    rank = len(spec.shape)
    if rank < 2:
        return
    tried = {spec.shape[-2:]}
    for last_two in permutations(_select_dimensions(spec.shape), 2):
        sizes = spec.shape[last_two[0]], spec.shape[last_two[1]]
        if sizes not in tried:
            tried.add(sizes)
            order = (*(d for d in range(rank) if d not in last_two), *last_two)
            yield replace(spec, shape=tuple(spec.shape[d] for d in order)), order


def _select_dimensions(shape: tuple[int, ...]) -> list[int]:
    """Return up to two dimensions of each size, and at most `_MOST_PERMUTED`."""
    seen: Counter[int] = Counter()
    kept = []
    for dimension, size in enumerate(shape):
        seen[size] += 1
        if seen[size] <= 2:
            kept.append(dimension)
    return kept[:_MOST_PERMUTED]


def _list_reshapes(spec: TensorSpec) -> _Options:
    """Yield the two-dimensional shapes; of equally good ones the first has the narrowest rows."""
    for cut in range(len(spec.shape) - 1, 0, -1):
        shape = (prod(spec.shape[:cut]), prod(spec.shape[cut:]))
        if shape != spec.shape and max(shape) < 1 << 32:
            yield replace(spec, shape=shape), None
