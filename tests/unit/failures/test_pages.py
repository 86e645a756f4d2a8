# SPDX-License-Identifier: Apache-2.0
"""Page sizes and tensors, from the figures of a message: worked examples, and nothing wrong on random ones."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from support.examples import examples
from ttmem.failures.diagnosis.tensor_guess import TensorGuess, find_page_sizes, guess_tensor, is_even_split
from ttmem.failures.failure import Failure
from ttmem.failures.text.context import KnownTensor
from ttmem.hardware import DATA_TYPES, open_board
from ttmem.twin.placement import place
from ttmem.twin.tensor_spec import LAYOUTS, TensorSpec


def guess(
    total: int,
    banks: int | None = None,
    share: int | None = None,
    *,
    memory: str = "DRAM",
    known: tuple[KnownTensor, ...] = (),
) -> TensorGuess:
    figures = {"requested_bytes": total, "banks": banks, "bytes_per_bank": share}
    numbers = {name: value for name, value in figures.items() if value is not None}
    found = guess_tensor(Failure("oom/unknown", memory, "", "A3", numbers), known=known)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("total", "banks", "share", "pages"),
    [
        (3294625792, 12, 274686208, (402176, 201088)),  # full-vocabulary logits in rows
        (805306368, 12, 67110912, (6144, 3072)),  # a permuted weight in rows
        (146575360, 12, 12214976, (1088, 544)),  # bfloat8_b tiles
        (58720256, 12, 4894720, (4096, 2048)),  # tiles
        (117440512, 12, 9787392, (2048, 1024)),  # bfloat16 tiles
    ],
)
def test_page_sizes_of_public_messages(total: int, banks: int, share: int, pages: tuple[int, ...]) -> None:
    assert find_page_sizes(total, banks, share, 32) == pages
    for page in pages:
        assert -(-(total // page) // banks) * page == share


@pytest.mark.parametrize(
    ("figures", "shape", "dtype", "layout", "confidence"),
    [
        ((3294625792, 12, 274686208), (8192, 201088), "bfloat16", "row_major", "likely"),
        ((805306368, 12, 67110912), (131072, 3072), "bfloat16", "row_major", "possible"),
        ((146575360, 12, 12214976), None, "bfloat8_b", "tile", "possible"),
        ((58720256, 12, 4894720), None, None, "tile", "possible"),
        ((117440512, 12, 9787392), None, "bfloat16", "tile", "possible"),
        ((1050673152,), (128256, 4096), "bfloat16", None, "possible"),
        ((1244659712,), (151936, 4096), "bfloat16", None, "possible"),
        ((1073741824,), (131072, 4096), "bfloat16", None, "possible"),
        ((167772160,), (4096, 10240), "float32", None, "possible"),
        ((536870912,), (32768, 8192), "bfloat16", None, "possible"),
        ((90177536, 8, 11272192), (4096, 11008), "bfloat16", "tile", "possible"),
        ((44493176832, 8, 5561647104), None, None, None, "unknown"),
    ],
)
def test_tensors_of_public_messages(
    figures: tuple[int, ...], shape: tuple[int, ...] | None, dtype: str | None, layout: str | None, confidence: str
) -> None:
    found = guess(*figures)
    assert (found.shape, found.dtype, found.layout, found.confidence) == (shape, dtype, layout, confidence)


def test_counts_of_tiles_are_told() -> None:
    assert guess(117440512, 12, 9787392).pages == 57344
    assert guess(146575360, 12, 12214976).pages == 134720


def test_a_tensor_named_nearby_is_certain_only_when_its_bytes_agree() -> None:
    named = KnownTensor((8192, 7168), "bfloat16", "tile", "w3")
    found = guess(117440512, 12, 9787392, known=(KnownTensor((4096, 4096), "bfloat16"), named))
    assert (found.confidence, found.shape, found.page_bytes) == ("certain", (8192, 7168), 2048)
    other = guess(117440512, 12, 9787392, known=(KnownTensor((8192, 7167, 2), "bfloat16"),))
    assert other.confidence == "possible"


def test_padding_of_a_named_tensor_is_told() -> None:
    found = guess(402653184, 12, 33554432, known=(KnownTensor((1, 4096, 24, 64, 2), "bfloat16", "tile"),))
    assert (found.confidence, found.padding_ratio) == ("certain", 16.0)
    assert "16.0x its 25,165,824 B of data" in found.text


def test_a_share_that_no_page_gives_is_a_mistyped_figure() -> None:
    assert guess(4194304, 12, 349184).confidence == "unknown"
    assert "mistyped" in guess(4194304, 12, 349184).text


def test_nothing_is_guessed_for_regions_that_hold_no_tensors() -> None:
    for memory in ("L1_SMALL", "TRACE"):
        numbers = {"requested_bytes": 4096, "banks": 4, "bytes_per_bank": 1024}
        assert guess_tensor(Failure("oom/unknown", memory, "", "A3", numbers)) is None
    assert guess_tensor(Failure("oom/unknown", "DRAM", "", "A1", {})) is None


def specs() -> st.SearchStrategy[TensorSpec]:
    sizes = st.one_of(st.integers(1, 5000), st.sampled_from([32, 64, 128, 512, 1024, 2048, 4096, 8192, 50257]))
    shapes = st.lists(sizes, min_size=1, max_size=4).map(tuple).filter(lambda shape: prod(shape) < 1 << 33)
    tiled = st.sampled_from(["bfloat16", "float32", "bfloat8_b", "bfloat4_b", "uint8", "uint16", "int32"])
    rows = st.sampled_from(["bfloat16", "float32", "uint32"])  # no logits are bytes, and a guess may count on that
    return st.one_of(
        st.builds(lambda shape, dtype: TensorSpec(shape, DATA_TYPES.find(dtype)), shapes, tiled),
        st.builds(
            lambda shape, dtype: TensorSpec(shape, DATA_TYPES.find(dtype), LAYOUTS.find("row_major")), shapes, rows
        ),
    )


@pytest.mark.slow
@given(specs(), st.sampled_from(["n150", "p150", "p100"]))
@examples(1500)
def test_random_tensors_are_recognised_or_left_unknown(spec: TensorSpec, board: str) -> None:
    # GIVEN any tensor, and what a message would print about it
    memory_map = open_board(board)
    placement = place(spec, memory_map)
    total, banks, share = placement.total_bytes, placement.banks, placement.bytes_per_bank
    numbers = {"requested_bytes": total, "banks": banks, "bytes_per_bank": share}
    # WHEN the tensor is guessed from these alone
    found = guess_tensor(
        Failure("oom/unknown", "DRAM", "", "A3", numbers),
        alignment_bytes=memory_map.architecture.dram_alignment_bytes,
    )
    assert found is not None
    event(found.confidence)
    # THEN the true page is among the candidates
    assert placement.aligned_page_bytes in found.page_candidates or len(found.page_candidates) == 256
    # AND what is called likely is right about the page; a tile's bytes tell its format, but for integers of that width
    if found.confidence == "likely" and found.page_bytes is not None:
        assert found.page_bytes == placement.aligned_page_bytes
    # AND an even split is never identified by its page alone
    if is_even_split(total, banks, share):
        assert found.shape is not None or found.confidence == "unknown"


@given(st.integers(1, 1 << 36), st.integers(1, 140), st.integers(1, 1 << 32))
@examples(400)
def test_any_figures_give_pages_that_explain_them_or_none(total: int, banks: int, share: int) -> None:
    for page in find_page_sizes(total, banks, share, 32):
        assert total % page == 0
        assert -(-(total // page) // banks) * page == share
