# SPDX-License-Identifier: Apache-2.0
"""What the verbs of ``cb`` share: options for what a prediction assumes, and evidence with a progress bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ttmem.base.errors import BadInputError
from ttmem.commands.options import board_option, together
from ttmem.commands._progress import progress_bar

if TYPE_CHECKING:
    from ttmem.circular_buffers.assumptions import Assumptions
    from ttmem.circular_buffers.measured_facts import Evidence
    from ttmem.circular_buffers.simulate import Simulation
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


def predicted(
    workloads: Sequence[Workload],
    *,
    strategies: tuple[str, ...],
    board: str,
    dtype: str,
    tiles_per_barrier: int,
    cores: int,
    compute_cycles: str | None,
    kernel_bytes: int | None,
) -> tuple[Assumptions, tuple[Simulation, ...]]:
    """What the options assume, and the workloads simulated under it with each named strategy once."""
    from ttmem.circular_buffers.assumptions import assume
    from ttmem.circular_buffers.simulate import simulate
    from ttmem.circular_buffers.strategies import choose

    cycles = _cycles(compute_cycles)
    assumed = assume(board, data_type=dtype, tiles_per_barrier=tiles_per_barrier, cores=cores, compute_cycles=cycles)
    chosen = tuple(dict.fromkeys(one for word in strategies or ("all",) for one in choose(word)))
    return assumed, tuple(simulate(one, chosen, assumed, kernel_bytes=kernel_bytes) for one in workloads)


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
    from ttmem.circular_buffers.gather_facts import circular_buffer_evidence

    name = "standard input" if source == "-" else source
    with progress_bar(f"reading {name}", quiet=quiet) as progress:
        return circular_buffer_evidence(source, progress=progress)
