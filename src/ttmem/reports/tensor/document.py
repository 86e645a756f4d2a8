# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem tensor --json`` says."""

from collections.abc import Sequence

from ttmem.hardware import MemoryMap
from ttmem.reports.boards.document import OpenedBoard, opening
from ttmem.reports.kit.documents import Document
from ttmem.twin.padding import DimensionPadding, PaddingExplanation
from ttmem.twin.placement import Placement


class Padding(Document, frozen=True):
    """What is added to the elements."""

    aligned_bytes: int
    """All pages, each rounded up to the alignment of the memory."""
    reserved_bytes: int
    """What all banks of the memory lose together: every bank reserves as much as the fullest one."""
    dimensions: tuple[DimensionPadding, ...]


class Cheaper(Document, frozen=True):
    """Another way to keep the same elements that takes less of every bank."""

    how: str
    """``row_major``, ``permute`` or ``reshape``."""
    shape: tuple[int, ...]
    order: tuple[int, ...] | None
    """The permutation, where it is one."""
    bytes_per_bank: int
    saved_bytes_per_bank: int


class OnBoard(Document, frozen=True):
    """The same tensor on one board."""

    board: str
    bytes_per_bank: int
    banks: int
    bank_bytes: int
    fits: bool


class TensorCost(OpenedBoard, frozen=True, tag_field="schema", tag="ttmem.tensor/1"):
    """What a tensor takes of every bank, what of it is padding, and where it fits."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    memory: str
    logical_bytes: int
    padded_shape: tuple[int, ...]
    padded_bytes: int
    page_bytes: int
    """Without alignment."""
    aligned_page_bytes: int
    pages: int
    bytes_per_bank: int
    """What the library says each bank needs to store."""
    taken_bytes_per_bank: int
    """What every bank of the memory loses, after rounding."""
    banks: int
    bank_bytes: int
    total_bytes: int
    padding_ratio: float
    fits: bool
    """Whether an empty board could hold it."""
    padding: Padding
    cheaper: tuple[Cheaper, ...]
    """The best first."""
    boards: tuple[OnBoard, ...]
    """This board first, then the others where the tensor is legal at all."""
    warnings: tuple[str, ...]
    shard: str | None
    """As it was asked for; null when the tensor is interleaved."""


def document(
    placement: Placement,
    padding: PaddingExplanation,
    memory_map: MemoryMap,
    elsewhere: Sequence[tuple[MemoryMap, Placement]] = (),
    shard: str | None = None,
) -> TensorCost:
    """From what the twin computed."""
    spec = placement.spec
    boards = [
        OnBoard.of(
            placed, board=known.board_name, bank_bytes=known.pool(spec.memory).bytes_per_bank, fits=placed.fits_empty
        )
        for known, placed in [(memory_map, placement), *elsewhere]
    ]
    return TensorCost.of(
        placement,
        placement.paging,
        spec,
        **opening(memory_map),
        dtype=spec.dtype.name,
        layout=spec.layout.name,
        memory=spec.memory.name,
        bank_bytes=boards[0].bank_bytes,
        fits=placement.fits_empty,
        padding=padding,
        cheaper=[Cheaper.of(one, one.spec) for one in padding.alternatives],
        boards=boards,
        warnings=[*memory_map.warnings, *placement.warnings],
        shard=shard,
    )
