# SPDX-License-Identifier: Apache-2.0
"""What the verbs of ``cb`` share: options for what a prediction assumes, and evidence with a progress bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ttmem._errors import BadInputError
from ttmem.commands._options import board_option, together
from ttmem.commands._progress import progress_bar

if TYPE_CHECKING:
    from ttmem.circular_buffers.assumptions import Assumptions
    from ttmem.circular_buffers.evidence import Evidence
    from ttmem.circular_buffers.strategies import Strategy
    from ttmem.circular_buffers.workload import Workload

assumption_options = together(
    click.option(
        "--strategy",
        "strategies",
        multiple=True,
        metavar="NAME|FILE",
        help="fixed, adaptive (both readings), adaptive-guide, adaptive-program, all (default) or a TOML file; "
        "may be repeated.",
    ),
    board_option("Whose L1 and latencies count."),
    click.option("--dtype", default="float32", show_default=True, metavar="TYPE", help="Data type of the tiles."),
    click.option(
        "--tiles-per-barrier",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        metavar="N",
        help="B tiles that the reader fetches before it waits for them.",
    ),
    click.option(
        "--cores",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        help="Cores that read and write DRAM at the same time.",
    ),
    click.option(
        "--compute-cycles",
        metavar="LOW[:HIGH]",
        help="Cycles to combine two tiles, when you know better than the default range.",
    ),
    click.option(
        "--kernel-bytes",
        type=click.IntRange(min=0),
        metavar="B",
        help="Size of the program's kernel binaries, to check the kernel-config ring.",
    ),
)


def assumptions_of(
    board: str, dtype: str, tiles_per_barrier: int, cores: int, compute_cycles: str | None
) -> Assumptions:
    """The assumptions that the options describe."""
    from ttmem.circular_buffers.assumptions import assume

    return assume(
        board, data_type=dtype, tiles_per_barrier=tiles_per_barrier, cores=cores, compute_cycles=_cycles(compute_cycles)
    )


def strategies_of(words: tuple[str, ...]) -> tuple[Strategy, ...]:
    """Each named strategy once, in the order of the words."""
    from ttmem.circular_buffers.strategies import choose

    found: dict[Strategy, None] = {}
    for word in words or ("all",):
        found.update(dict.fromkeys(choose(word)))
    return tuple(found)


def workload_of(tiles_per_shard: str, r_tiles: str) -> Workload:
    """Two tile counts."""
    from ttmem.circular_buffers.workload import Workload

    counts = []
    for name, word in (("TILES_PER_SHARD", tiles_per_shard), ("R_TILES", r_tiles)):
        if not (word.isascii() and word.lstrip("+-").isdigit() and len(word) <= 20):
            raise BadInputError(f"{name} is a number of tiles, not {word!r}", hint="for example: 16 16")
        counts.append(int(word))
    return Workload(*counts)


def _cycles(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    low, _, high = text.partition(":")
    try:
        bounds = (float(low), float(high or low))
    except ValueError:
        raise BadInputError(f"--compute-cycles takes one number or LOW:HIGH, not {text!r}") from None
    if not all(0 < bound < 1e9 for bound in bounds):
        raise BadInputError(f"--compute-cycles must lie between 0 and 1e9, not {text!r}")
    return bounds


def collect(source: str, *, quiet: bool = False) -> Evidence:
    """What the source says about circular buffers."""
    from ttmem.library.evidence import circular_buffer_evidence

    name = "standard input" if source == "-" else source
    with progress_bar(f"reading {name}", quiet=quiet) as progress:
        return circular_buffer_evidence(source, progress=progress)
