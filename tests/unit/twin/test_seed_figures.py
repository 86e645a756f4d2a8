# SPDX-License-Identifier: Apache-2.0
"""The figures of the seeds, recomputed: docs/seed-figures.md says what was right and what was not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ttmem.hardware import DRAM, L1, open_board
from ttmem.twin.device import Device
from ttmem.twin.errors import OutOfMemoryError
from ttmem.twin.placement import place
from ttmem.twin.tensor_spec import TensorSpec, parse_shape

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "seed-figures.md"
N150 = open_board("n150")
MIB = 1 << 20


def nhwc(shape):
    """The seeds' tests moved the channels of every tensor of rank 4 to the end before they uploaded it."""
    return (shape[0], shape[2], shape[3], shape[1]) if len(shape) == 4 else shape


def rows(heading):
    """Table rows below a heading of the document, as lists of cells."""
    section = DOCUMENT.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


FAILURES = rows("Seed 002: the 41 out-of-memory failures")
SHAPES = rows("Seeds 000 and 001: the 2176 x 3840 shapes")


def number(cell):
    return int(cell.replace(",", ""))


def test_all_41_failures_are_there():
    assert len(FAILURES) == 41
    assert len({cells[1] for cells in FAILURES}) == 35
    claimed = [float(cells[2].replace(",", "")) for cells in FAILURES]
    assert (min(claimed), max(claimed), round(sum(claimed) / 41, 1)) == (21.56, 16000, 826.8)


@pytest.mark.parametrize("cells", FAILURES, ids=lambda cells: f"{cells[0]}-{cells[1]}")
def test_each_failure_is_a_tile_padded_tensor(cells):
    _, shape, claimed_mib, allocated, total, per_bank, factor, fits_dram = cells
    spec = TensorSpec(parse_shape(allocated), memory=L1)
    placed = place(spec, N150)
    assert sorted(parse_shape(allocated)) == sorted(parse_shape(shape))
    assert (placed.total_bytes, placed.bytes_per_bank) == (number(total), number(per_bank))
    assert round(placed.total_bytes / MIB, 2) == float(claimed_mib.replace(",", ""))
    assert f"{placed.padding_ratio:,.2f}" == factor
    in_dram = TensorSpec(parse_shape(allocated), memory=DRAM)
    assert place(in_dram, N150).fits_empty is (fits_dram == "yes")


def outcome(operator, shape, memory, arrange):
    """The inputs in the given arrangement, then the operation's result next to them.

    A view or permutation of an NHWC tensor was asked to give the original shape back; a view of a tensor that has its
    shape already shares its buffer.
    """
    device = Device(N150)
    source = arrange(shape)
    result = shape if operator in ("view", "permute") else source
    specs = [source] * (2 if operator == "add" else 1)
    if operator != "view" or result != source:
        specs.append(result)
    try:
        for each in specs:
            device.allocate(TensorSpec(each, memory=memory))
    except OutOfMemoryError:
        return "oom"
    return "fits"


CASES = [(cells[0], parse_shape(cells[1])) for cells in FAILURES]


def test_interleaved_l1_was_the_limit_not_the_card():
    assert [outcome(*case, L1, nhwc) for case in CASES].count("oom") == 41
    assert [case for case in CASES if outcome(*case, DRAM, nhwc) == "oom"] == [("view", (160, 100, 512, 1, 1))]
    alone = [cells for cells in FAILURES if number(cells[5]) <= N150.l1.bytes_per_bank]
    assert len(alone) == 11


def test_in_their_own_layout_eleven_do_not_fail():
    as_it_is = [case for case in CASES if case[0] != "permute" and outcome(*case, L1, lambda s: s) == "fits"]
    assert [case for case in as_it_is if case[0] != "view"] == [
        ("add", (345, 8, 49, 49)),
        ("silu", (1, 80, 640, 400)),
        ("sigmoid", (1, 1, 1280, 800)),
    ]
    assert len(as_it_is) == 11


def test_the_worst_tensor_of_the_seeds():
    placed = place(TensorSpec((160, 100, 512, 1, 1)), N150)
    assert placed.total_bytes == 16_777_216_000
    assert placed.bytes_per_bank == 1_398_102_016


@pytest.mark.parametrize("cells", SHAPES, ids=lambda cells: cells[0])
def test_the_corrected_sizes_of_seeds_000_and_001(cells):
    shape = parse_shape(cells[0])
    spec, channels_last = TensorSpec(shape), TensorSpec(nhwc(shape))
    expected = [spec.logical_bytes, place(spec, N150).padded_bytes, place(channels_last, N150).padded_bytes]
    assert [f"{size / MIB:,.2f}" for size in expected] == cells[3:6]


@pytest.mark.parametrize("cells", SHAPES, ids=lambda cells: cells[0])
def test_a_figure_called_right_is_right(cells):
    truth = [float(cell.replace(",", "")) for cell in cells[3:6]]
    for claim, verdict in zip(cells[1:3], cells[6:8], strict=True):
        if not claim:
            assert verdict == ""
            continue
        value = float(re.sub(r"[^0-9.]", "", claim)) * (1024 if "GB" in claim else 1)
        is_right = any(abs(value - size) <= 0.005 * size for size in truth)
        assert verdict.startswith("right") is is_right, cells
