# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem tensor``: the memory that a tensor takes, its padding and cheaper layouts."""

from collections.abc import Sequence

from ttmem.base.formatting import format_bytes, format_shape
from ttmem.hardware import MemoryMap
from ttmem.reports.boards import OpenedBoard, describe_opening, format_opened_board
from ttmem.reports.kit.documents import Document
from ttmem.twin.padding import DimensionPadding, PaddingExplanation
from ttmem.twin.placement import Placement


class PaddingDocument(Document, frozen=True):
    """The bytes added to the elements."""

    aligned_bytes: int
    """All pages, each rounded up to the alignment of the memory."""
    reserved_bytes: int
    """The bytes reserved in all banks: each bank reserves as much as the fullest one."""
    dimensions: Sequence[DimensionPadding]


class Cheaper(Document, frozen=True):
    """Another layout of the same elements that takes less of each bank."""

    how: str
    """``row_major``, ``permute`` or ``reshape``."""
    shape: Sequence[int]
    order: Sequence[int] | None
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
    """The memory that a tensor takes of each bank, its padding, and the boards where it fits."""

    shape: Sequence[int]
    dtype: str
    layout: str
    memory: str
    logical_bytes: int
    padded_shape: Sequence[int]
    padded_bytes: int
    page_bytes: int
    """Without alignment."""
    aligned_page_bytes: int
    pages: int
    bytes_per_bank: int
    """The bytes that the library says each bank needs to store."""
    taken_bytes_per_bank: int
    """The bytes that every bank of the memory loses, after rounding."""
    banks: int
    bank_bytes: int
    total_bytes: int
    padding_ratio: float
    fits: bool
    """True when an empty board could hold it."""
    padding: PaddingDocument
    cheaper: Sequence[Cheaper]
    """The best first."""
    boards: Sequence[OnBoard]
    """This board first, then the others where the tensor is legal."""
    warnings: Sequence[str]
    shard: str | None
    """As requested; null when the tensor is interleaved."""


def build_document(
    placement: Placement,
    padding: PaddingExplanation,
    memory_map: MemoryMap,
    elsewhere: Sequence[tuple[MemoryMap, Placement]] = (),
    shard: str | None = None,
) -> TensorCost:
    """Build the document from the twin's placement."""
    spec = placement.spec
    boards = [
        OnBoard(
            board=known.board_name,
            bytes_per_bank=placed.bytes_per_bank,
            banks=placed.banks,
            bank_bytes=known.pool(spec.memory).bytes_per_bank,
            fits=placed.fits_empty,
        )
        for known, placed in [(memory_map, placement), *elsewhere]
    ]
    return TensorCost(
        shape=spec.shape,
        dtype=spec.dtype.name,
        layout=spec.layout.name,
        memory=spec.memory.name,
        logical_bytes=spec.logical_bytes,
        padded_shape=placement.paging.padded_shape,
        padded_bytes=placement.padded_bytes,
        page_bytes=placement.paging.page_bytes,
        aligned_page_bytes=placement.aligned_page_bytes,
        pages=placement.paging.pages,
        bytes_per_bank=placement.bytes_per_bank,
        taken_bytes_per_bank=placement.taken_bytes_per_bank,
        banks=placement.banks,
        bank_bytes=boards[0].bank_bytes,
        total_bytes=placement.total_bytes,
        padding_ratio=placement.padding_ratio,
        fits=placement.fits_empty,
        padding=PaddingDocument(
            aligned_bytes=padding.aligned_bytes,
            reserved_bytes=padding.reserved_bytes,
            dimensions=padding.dimensions,
        ),
        cheaper=[
            Cheaper(
                how=one.how,
                shape=one.spec.shape,
                order=one.order,
                bytes_per_bank=one.bytes_per_bank,
                saved_bytes_per_bank=one.saved_bytes_per_bank,
            )
            for one in padding.alternatives
        ],
        boards=boards,
        warnings=[*memory_map.warnings, *placement.warnings],
        shard=shard,
        **describe_opening(memory_map),
    )


_BAR = 48
_PARTS = (("logical", "█", "32"), ("padding", "▓", "33"), ("alignment", "▒", "35"), ("lock step", "░", "36"))


def render_terminal(cost: TensorCost, *, color: bool = False) -> str:
    share = 100 * cost.taken_bytes_per_bank / cost.bank_bytes if cost.bank_bytes else 0.0
    verdict = "fits an empty board" if cost.fits else "DOES NOT FIT an empty board"
    sharded = " sharded" if cost.shard else ""
    where, _, sizes = format_opened_board(cost).partition("; bank sizes: ")
    lines = [
        f"{format_shape(cost.shape)} {cost.dtype} {cost.layout} {cost.memory}{sharded}",
        _draw_bar(cost, color),
        "",
        f"padded shape    {format_shape(cost.padded_shape)}   ({cost.padding_ratio:,.2f} x the elements)",
        f"pages           {cost.pages:,} of {cost.page_bytes:,} B, {cost.aligned_page_bytes:,} B aligned",
        f"per bank        {cost.bytes_per_bank:,} B in {cost.banks} banks",
        f"of every bank   {cost.taken_bytes_per_bank:,} B of {cost.bank_bytes:,} B: {share:.1f} %",
        f"{cost.memory:<15} {verdict}: {where}",
        f"bank sizes      {sizes}",
    ]
    lines += [
        f"dimension {d.dimension}    {d.logical_size} -> {d.padded_size} adds {format_bytes(d.added_bytes)}"
        for d in cost.padding.dimensions
    ]
    for other in cost.cheaper:
        how = f"permute {list(other.order)}" if other.order else other.how.replace("row_major", "row_major layout")
        lines.append(f"cheaper         {how}: {format_shape(other.shape)} takes {other.bytes_per_bank:,} B per bank")
    if cost.boards[1:]:
        lines += ["", "on other boards"]
    for place in cost.boards[1:]:
        answer = "fits" if place.fits else "does not fit"
        lines.append(
            f"  {place.board:<17} {place.bytes_per_bank:>15,} B of {place.bank_bytes:>13,} B per bank  {answer}"
        )
    return "\n".join(lines)


def _draw_bar(cost: TensorCost, color: bool) -> str:
    """Draw elements, padding of the shape, alignment of pages and unused reserved bytes, to scale."""
    edges = (cost.logical_bytes, cost.padded_bytes, cost.padding.aligned_bytes, cost.padding.reserved_bytes)
    whole = max(edges[-1], 1)
    bar, legend, drawn, below = "", [], 0, 0
    for (name, mark, code), edge in zip(_PARTS, edges, strict=True):
        amount, below = max(edge - below, 0), max(edge, below)
        cells = round(_BAR * below / whole) - drawn
        drawn += cells
        text = mark * cells
        bar += f"\x1b[{code}m{text}\x1b[0m" if color and text else text
        if amount:
            legend.append(f"{mark} {name} {format_bytes(amount)}")
    return f"{bar}  {'   '.join(legend)}"
