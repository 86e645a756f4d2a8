# SPDX-License-Identifier: Apache-2.0
"""The tensor behind a request, inferred from its size, its share per bank, and the dimensions of known models.

A buffer of ``total_bytes`` in pages of p bytes, dealt round robin over the banks, makes each bank store
``ceil(pages / banks) * p``. So p divides the total and the share of a bank, and fewer than ``banks`` pages are missing
from a full last row: ``banks * share - total < banks * p``.

Refuses rather than guesses: what only one page size or one distinctive dimension explains is ``likely``, what is the
usual one of several explanations is ``possible``, and the rest is ``unknown``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from math import gcd, prod

from ttmem.base.arithmetic import round_up
from ttmem.failures.diagnosis.board_guess import LIKELY, POSSIBLE, UNKNOWN
from ttmem.failures.failure import Failure
from ttmem.failures.knowledge.tables import load_facts
from ttmem.failures.text.context import KnownTensor
from ttmem.hardware import BFLOAT4_B, BFLOAT8_B, BFLOAT16, DATA_TYPES, FLOAT32, UINT8, DataType
from ttmem.twin.placement import compute_interleaved_bytes_per_bank, compute_paging
from ttmem.twin.tensor_spec import LAYOUTS, ROW_MAJOR, InvalidSpecError, TensorSpec

CERTAIN = "certain"

TILED: tuple[DataType, ...] = (BFLOAT16, FLOAT32, BFLOAT8_B, BFLOAT4_B, UINT8)
"""The formats whose tile sizes differ; integers share theirs with the floats of their width."""
_MOST_TOKENS = 131072
_MOST_PAGES_LISTED = 256
_LARGEST_FACTOR = 1 << 16
_MOST_BYTES = 1 << 48
"""More than any machine has: a larger figure is mistyped."""
_ROW_TYPES: tuple[DataType, ...] = (BFLOAT16, FLOAT32)
_DISTINCTIVE, _RARE, _VERY_RARE = 16, 100, 300
"""Odd parts from which on a page, a vocabulary by its hidden size, or one by any size is not met by chance."""


@dataclass(frozen=True, slots=True)
class TensorGuess:
    """The known properties of the tensor; None where unknown."""

    confidence: str
    text: str
    """The guess in words, with its reason."""
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    layout: str | None = None
    page_bytes: int | None = None
    pages: int | None = None
    page_candidates: tuple[int, ...] = ()
    """Every page size that the figures allow, the largest first; the true one is among them."""
    padding_ratio: float | None = None
    """Padded over logical bytes, where the shape is certain."""
    has_dtype: bool = False
    """Whether the text or the profile names the data type; else it is only one that fits."""
    is_logits: bool = False
    """One row per token, as wide as a vocabulary: most of it is thrown away after the last token is picked."""


def guess_tensor(
    failure: Failure, *, alignment_bytes: int | None = None, known: Sequence[KnownTensor] = ()
) -> TensorGuess | None:
    """The tensor behind an allocation that failed; None where no tensor is concerned or no size is printed."""
    total = failure.numbers.get("requested_bytes")
    if not total or failure.memory not in ("DRAM", "L1", None):
        return None
    banks, share = failure.numbers.get("banks"), failure.numbers.get("bytes_per_bank")
    alignment = alignment_bytes or (32 if failure.memory == "DRAM" else 16)
    if match := _match_known(known, total, banks, share, alignment):
        return match
    if not banks or not share:
        if named := _match_dimensions(total, (), alignment):  # a size alone tells what, not how it is laid out
            return replace(named, layout=None, page_bytes=None, pages=None)
        return TensorGuess(UNKNOWN, "unknown: the size alone is no dimension of a known model")
    pages = find_page_sizes(total, banks, share, alignment)
    if not pages:
        return TensorGuess(UNKNOWN, "no page size gives this share per bank: a figure is mistyped, or cut")
    even = is_even_split(total, banks, share)
    if named := _match_dimensions(total, () if even else pages, alignment):
        return replace(named, page_candidates=pages, confidence=POSSIBLE if even else named.confidence)
    if not even:
        return replace(_match_pages(total, pages), page_candidates=pages)
    text = f"unknown: the size divides evenly over {banks} banks, so any page size fits"
    if failure.memory == "L1":
        text = f"unknown: sharded, or dealt evenly, with {share:,} B on each of {banks} cores"
    return TensorGuess(UNKNOWN, text, page_candidates=pages)


def _match_known(
    known: Iterable[KnownTensor], total: int, banks: int | None, share: int | None, alignment: int
) -> TensorGuess | None:
    """A tensor named near the failure that needs exactly these bytes, by the twin's arithmetic; likely by its total."""
    for tensor in known:
        dtype = DATA_TYPES.get(tensor.dtype)
        if dtype is None:
            continue
        for layout in [LAYOUTS.find(tensor.layout)] if tensor.layout in LAYOUTS else LAYOUTS:
            try:
                spec = TensorSpec(tensor.shape, dtype, layout)
                paging = compute_paging(spec)
            except InvalidSpecError:
                continue
            aligned = round_up(paging.page_bytes, alignment)
            if paging.pages * aligned != total:
                continue
            if (
                banks
                and share
                and share
                != compute_interleaved_bytes_per_bank(
                    pages=paging.pages, page_bytes=paging.page_bytes, alignment_bytes=alignment, banks=banks
                )
            ):
                continue
            ratio = total / spec.logical_bytes
            padding = f", {ratio:.1f}x its {spec.logical_bytes:,} B of data" if ratio >= 1.05 else ""
            if prod(paging.padded_shape) != prod(tensor.shape):
                padding += f": it is stored as {format_shape(paging.padded_shape)}"
            named = f"{tensor.name} " if tensor.name else ""
            text = f"{named}{format_shape(tensor.shape)} {dtype} in {layout}, named near the failure"
            return TensorGuess(
                confidence=CERTAIN if banks and share else LIKELY,
                text=f"{text}, needs exactly these bytes{padding}",
                shape=tensor.shape,
                dtype=dtype.name,
                layout=layout.name,
                page_bytes=aligned,
                pages=paging.pages,
                page_candidates=(aligned,),
                padding_ratio=ratio,
                has_dtype=tensor.has_dtype,
            )
    return None


def _match_dimensions(total: int, pages: tuple[int, ...], alignment: int) -> TensorGuess | None:
    """A vocabulary or a tensor of a public failure whose bytes these are, not contradicted by the page sizes."""
    guesses = [*_vocabularies(total, pages, alignment), *_public_tensors(total, pages), *_width_pairs(total, pages)]
    guesses.sort(key=lambda guess: (guess.confidence != LIKELY, guess.dtype != BFLOAT16.name))
    if not guesses:
        return None
    likely = {(guess.dtype, guess.page_bytes) for guess in guesses if guess.confidence == LIKELY}
    return replace(guesses[0], confidence=POSSIBLE) if len(likely) > 1 else guesses[0]


def _vocabularies(total: int, pages: tuple[int, ...], alignment: int) -> Iterator[TensorGuess]:
    for entry in load_facts("dimensions")["vocabulary"]:
        size, whose = entry["size"], f"{entry['size']:,} is the vocabulary size of {entry['of']}"
        for dtype in _ROW_TYPES:
            page = round_up(size * (dtype.element_bytes or 0), alignment)
            if page in pages and total % page == 0:
                shape = (total // page, size)
                role = f"{whose}, so possibly logits of {shape[0]:,} tokens"
                confidence = LIKELY if _odd_part(size) > _VERY_RARE else POSSIBLE
                yield _build_guess(confidence, shape, dtype, "row_major", page, role, is_logits=True)
        padded = round_up(size, 32)
        for dtype in (BFLOAT16, FLOAT32, BFLOAT8_B):
            page = dtype.tile_bytes()
            tiles, rest = divmod(total, page)
            rows, more = divmod(tiles * 1024, padded)
            if rest or more or rows % 32 or (pages and page not in pages):
                continue
            if rows in entry["hidden"]:
                confidence = LIKELY if pages == (page,) and _odd_part(padded) > _RARE else POSSIBLE
                role = f"{whose} and {rows:,} a hidden size, so possibly an embedding, an lm_head or logits"
                yield _build_guess(confidence, (size, rows), dtype, "tile", page, role)
            elif rows <= _MOST_TOKENS and _odd_part(padded) > _RARE and len(_float_tiles(pages)) < 2:
                confidence = LIKELY if pages == (page,) and _odd_part(padded) > _VERY_RARE else POSSIBLE
                role = f"{whose}, so possibly logits of {rows:,} tokens"
                yield _build_guess(confidence, (rows, size), dtype, "tile", page, role, is_logits=True)


def _public_tensors(total: int, pages: tuple[int, ...]) -> Iterator[TensorGuess]:
    for entry in load_facts("dimensions")["tensor"]:
        dtype = DATA_TYPES.find(entry["dtype"])
        page = dtype.tile_bytes()
        shape = tuple(entry["shape"])
        if prod(shape) // 1024 * page == total and (not pages or page in pages):
            yield _build_guess(POSSIBLE, shape, dtype, "tile", page, f"as large as {entry['what']}")


def _width_pairs(total: int, pages: tuple[int, ...]) -> Iterator[TensorGuess]:
    """A weight between two known widths, one of which is not met by chance."""
    widths = _load_sizes("width")
    for dtype in (BFLOAT16, FLOAT32, BFLOAT8_B):
        page = dtype.tile_bytes()
        tiles, rest = divmod(total, page)
        for width in widths if not rest and (not pages or page in pages) else ():
            other, more = divmod(tiles * 1024, width)
            if not more and other in widths and _odd_part(width) > _DISTINCTIVE:
                role = f"possibly the {widths[other]} by the {widths[width]}"
                yield _build_guess(POSSIBLE, (other, width), dtype, "tile", page, role)


def _float_tiles(pages: tuple[int, ...]) -> list[DataType]:
    return [dtype for dtype in TILED if dtype.tile_bytes() in pages and dtype is not UINT8]


def _match_pages(total: int, pages: tuple[int, ...]) -> TensorGuess:
    floats = _float_tiles(pages)
    if len(floats) > 1:
        names = " or ".join(f"{dtype} ({total // dtype.tile_bytes():,})" for dtype in floats)
        return TensorGuess(POSSIBLE, f"tiles: {names}", layout="tile")
    if floats or UINT8.tile_bytes() in pages:
        dtype = floats[0] if floats else UINT8
        page = dtype.tile_bytes()
        others = "" if len(pages) == 1 else f"; pages of {_list_pages(pages, but=page)} B fit too"
        text = f"{total // page:,} {dtype} tiles of {page:,} B{others}"
        return TensorGuess(POSSIBLE if others else LIKELY, text, None, dtype.name, "tile", page, total // page)
    widths = {
        **{size: f"vocabulary of {owner}" for size, owner in _load_sizes("vocabulary").items()},
        **_load_sizes("width"),
    }
    for page in pages:
        for dtype in _ROW_TYPES:
            width = page // (dtype.element_bytes or 1)
            if width in widths and page % 32 == 0:
                shape = (total // page, width)
                return _build_guess(POSSIBLE, shape, dtype, "row_major", page, f"possibly rows of the {widths[width]}")
    if len(pages) > 1:
        return TensorGuess(POSSIBLE, f"rows of {_list_pages(pages)} B, no tiles", layout="row_major")
    (page,) = pages
    text = f"{total // page:,} rows of {page:,} B, no tiles: {page // 2:,} bfloat16 or {page // 4:,} float32 elements"
    return TensorGuess(LIKELY, text, None, None, "row_major", page, total // page)


def _build_guess(
    confidence: str, shape: tuple[int, ...], dtype: DataType, layout: str, page: int, role: str, is_logits: bool = False
) -> TensorGuess:
    row_major = layout == ROW_MAJOR.name
    count = shape[0] if row_major else prod(round_up(size, 32) for size in shape) // 1024
    text = f"{format_shape(shape)} {dtype}{', row-major' if row_major else ' in tiles'}: {role}"
    return TensorGuess(confidence, text, shape, dtype.name, layout, page, count, is_logits=is_logits)


@cache
def _load_sizes(kind: str) -> dict[int, str]:
    return {entry["size"]: entry["of"] for entry in load_facts("dimensions")[kind]}


def _odd_part(size: int) -> int:
    return size // (size & -size)


def _list_pages(pages: Sequence[int], *, but: int = 0) -> str:
    others = [f"{page:,}" for page in pages if page != but]
    return ", ".join(others[:4]) + (" ..." if len(others) > 4 else "")


def format_shape(shape: Sequence[int]) -> str:
    """``1x32x64``."""
    return "x".join(map(str, shape)) or "scalar"


def find_page_sizes(total_bytes: int, banks: int, bytes_per_bank: int, alignment_bytes: int) -> tuple[int, ...]:
    """Return the aligned page sizes that give exactly this share per bank, the largest first; empty when none does.

    Messages count aligned pages in the total (allocator rules 3), so a page of 100 bytes shows as 128 in DRAM.
    """
    missing_bytes = banks * bytes_per_bank - total_bytes
    if min(total_bytes, banks, bytes_per_bank) <= 0 or missing_bytes < 0 or total_bytes > _MOST_BYTES:
        return ()
    divisors = sorted(_divisors(gcd(total_bytes, bytes_per_bank)), reverse=True)
    pages = (page for page in divisors if page * banks > missing_bytes and page % alignment_bytes == 0)
    return tuple(islice(pages, _MOST_PAGES_LISTED))


def is_even_split(total_bytes: int, banks: int, bytes_per_bank: int) -> bool:
    """True when the total divides evenly over the banks: then any page fits, and none is singled out."""
    return banks * bytes_per_bank == total_bytes


def _divisors(number: int) -> list[int]:
    """Return the divisors; what is left of a number without small factors counts as one.

    A page that has one of two prime factors above 65,536 and not the other does not occur, and to find such factors
    of a figure of twenty digits takes hours.
    """
    found = [1]
    factor, rest = 2, number
    while factor <= _LARGEST_FACTOR and factor * factor <= rest:
        powers = [1]
        while rest % factor == 0:
            rest //= factor
            powers.append(powers[-1] * factor)
        found = [known * power for known in found for power in powers]
        factor += 1
    if rest > 1:
        found += [known * rest for known in found]
    return found
