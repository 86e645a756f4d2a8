# SPDX-License-Identifier: Apache-2.0
"""``ttmem cb``: Analyse circular buffers: depths, stalls, declarations in C++ code, figures in logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.base.errors import BadInputError
from ttmem.commands import options
from ttmem.commands.command_line import GroupWithExamples, debug_option, verb
from ttmem.commands.output import emit, json_text, looks, note, progress_bar

if TYPE_CHECKING:
    from ttmem.circular_buffers.facts import Evidence
    from ttmem.circular_buffers.scan.scanning import Scan
    from ttmem.circular_buffers.simulate import Simulation
    from ttmem.circular_buffers.workload import Assumptions, Workload

command = GroupWithExamples(
    "cb",
    help="Analyse circular buffers: the depths they need, their declarations in C++ code, figures in logs.",
    epilog="""
ttmem cb simulate 16 16
ttmem cb scan my_op/ --bind num_tiles=64
ttmem cb profile capture.json
ttmem cb analyze --multi --html report.html
""",
    params=[debug_option()],
)

_html_option = options.file_option("--html", help="Also write the report as one offline page.")
_assumption_options = options.combine_options(
    click.option(
        "--strategy",
        "strategies",
        multiple=True,
        metavar="NAME|FILE",
        help="fixed, adaptive (both readings), adaptive-guide, adaptive-program, all (default) or a TOML file; "
        "may be repeated.",
    ),
    options.board_option("Whose L1 and latencies count."),
    click.option("--dtype", default="float32", show_default=True, metavar="TYPE", help="Data type of the tiles."),
    click.option(
        "--tiles-per-barrier",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        metavar="N",
        help="B tiles that the reader fetches before it waits for them.",
    ),
    options.count_option(
        "--cores", help="Cores that read and write DRAM at the same time.", default=1, show_default=True
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


def _simulate_all(
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
    """Return what the options assume, and each workload simulated with each named strategy once."""
    from ttmem.circular_buffers.simulate import simulate
    from ttmem.circular_buffers.strategies import choose
    from ttmem.circular_buffers.workload import assume

    cycles = _parse_cycles(compute_cycles)
    assumed = assume(board, data_type=dtype, tiles_per_barrier=tiles_per_barrier, cores=cores, compute_cycles=cycles)
    chosen = tuple(dict.fromkeys(one for word in strategies or ("all",) for one in choose(word)))
    return assumed, tuple(simulate(one, chosen, assumed, kernel_bytes=kernel_bytes) for one in workloads)


def _parse_workload(tiles_per_shard: str, r_tiles: str) -> Workload:
    """Parse two tile counts."""
    from ttmem.circular_buffers.workload import Workload

    counts = []
    for name, word in (("TILES_PER_SHARD", tiles_per_shard), ("R_TILES", r_tiles)):
        if not (word.isascii() and word.lstrip("+-").isdigit() and len(word) <= 20):
            raise BadInputError(f"{name} is a number of tiles, not {word!r}", hint="for example: 16 16")
        counts.append(int(word))
    return Workload(*counts)


def _parse_cycles(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    low, _, high = text.partition(":")
    try:
        bounds = (float(low), float(high or low))
    except ValueError:
        raise BadInputError(f"--compute-cycles takes one number or LOW:HIGH, not {text!r}") from None
    if not all(0 < bound < 1e9 for bound in bounds):
        raise BadInputError(f"--compute-cycles must be between 0 and 1e9, not {text!r}")
    return bounds


def _read_evidence(source: str, *, quiet: bool = False) -> Evidence:
    """Read what the source says about circular buffers."""
    from ttmem.circular_buffers.facts import circular_buffer_evidence

    name = "standard input" if source == "-" else source
    with progress_bar(f"reading {name}", quiet=quiet) as progress:
        return circular_buffer_evidence(source, progress=progress)


@verb(
    """
ttmem cb simulate 16 16
ttmem cb simulate 16 16 --strategy fixed --strategy my.toml
ttmem cb simulate --multi --json
ttmem cb simulate 32 32 --board p150 --tiles-per-barrier 4 --plot depth.svg
""",
    group=command,
    line="Compare strategies for the depths of circular buffers: L1 use and predicted stall.",
)
@click.argument("tiles_per_shard", required=False)
@click.argument("r_tiles", required=False)
@click.option(
    "--multi", is_flag=True, help="The workloads 1, 2, 4, 8, 16, 17, 32, and where pressure becomes critical."
)
@_assumption_options
@options.json_option
@_html_option
@click.option("--plot", callback=options.check_output_path, metavar="FILE.svg", help="Also draw throughput over depth.")
@options.output_option
def simulate(
    tiles_per_shard: str | None,
    r_tiles: str | None,
    multi: bool,
    as_json: bool,
    html: Path | None,
    plot: Path | None,
    output: Path | None,
    **assumed: Any,
) -> int:
    """Compare circular buffers for TILES_PER_SHARD A tiles and R_TILES B tiles: depths, L1, predicted stall.

    Every A tile is combined with every B tile, as in the distributed element-wise example. The headline is the share
    of its time that the compute kernel waits, simulated on published NoC latencies and given as a range over what is
    assumed. Miss rate and thrashing risk are the guide's heuristic. Exits 1 when a strategy does not fit, hangs or
    breaks a rule of kernels.
    """
    from ttmem.circular_buffers.analyze import Analysis
    from ttmem.circular_buffers.kernels import throughput_over_depth
    from ttmem.circular_buffers.simulate import critical_points
    from ttmem.circular_buffers.workload import multi as multi_workloads
    from ttmem.reports import cb_analyze, cb_simulate, cb_simulate_document

    if multi == (tiles_per_shard is not None) or (not multi and r_tiles is None):
        raise click.UsageError("give TILES_PER_SHARD and R_TILES, or --multi alone")
    options.refuse_overwriting("-", output, html, plot)
    workloads = multi_workloads() if multi else (_parse_workload(str(tiles_per_shard), str(r_tiles)),)
    assumptions, found = _simulate_all(workloads, **assumed)
    curves = throughput_over_depth(assumptions) if plot or html or not multi else ()
    if plot:
        emit(cb_simulate.render_svg(curves), plot)
    if html:
        emit(cb_analyze.render_html(Analysis(found, curves)), html)
    critical = critical_points(found)
    if as_json:
        one, many = cb_simulate_document.build_single, cb_simulate_document.build_multi
        answer = json_text(many(found, critical) if multi else one(found[0], curves))
    elif multi:
        answer = cb_simulate.render_multi(found, critical, **looks(output))
    else:
        answer = cb_simulate.render_single(found[0], curves, **looks(output))
    emit(answer, output)
    return 0 if all(one.works for one in found) else 1


@verb(
    """
ttmem cb scan program_factory.cpp
ttmem cb scan my_op/ --bind num_tiles=64 --bind dtype=bfloat16 --board p150
ttmem cb scan my_op/ --l1-tensors 800000 --fail-on error
ttmem cb scan src/ --sarif buffers.sarif --json -o buffers.json
""",
    group=command,
    line="Scan C++ code: the buffers it declares, whether they fit, which rules kernels break.",
)
@click.argument("path", metavar="PATH", type=click.Path())
@click.option(
    "--bind",
    "bindings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of a name in the code: a number, true, false, a data type or a layout; may be repeated.",
)
@options.board_option("Whose L1 the buffers must fit.")
@click.option(
    "--l1-tensors",
    "l1_tensor_bytes",
    type=click.IntRange(min=0),
    default=0,
    metavar="BYTES",
    help="L1 that tensors take per bank: buffers that reach them clash.",
)
@click.option(
    "--fail-on", type=click.Choice(["warning", "error"]), help="Exit 1 when a finding is at least that severe."
)
@options.json_option
@options.file_option("--sarif", help="Also write the findings as SARIF 2.1.0.")
@click.option("--all", "everything", is_flag=True, help="Do not cut long lists.")
@options.count_option("-j", "--jobs", help="Processes that read a large tree (default: one per core, at most 8).")
@options.output_option
@options.quiet_option
def scan(
    path: str,
    bindings: tuple[str, ...],
    board: str,
    fail_on: str | None,
    as_json: bool,
    sarif: Path | None,
    everything: bool,
    output: Path | None,
    quiet: bool,
    **limits: int | None,
) -> int:
    """Scan the C++ code of PATH for circular and dataflow buffers: sizes, fit, and rules that kernels break.

    PATH is a file or a folder of host code and kernels; nothing is compiled and no include is needed. Sizes stay
    expressions until every name in them is bound with --bind. Buffers that borrow a tensor's memory are not counted.
    Rules R1 to R13 are explained where they are first reported, and in docs/cb-scan.md. Exit 0, unless --fail-on.
    """
    from ttmem.reports import cb_scan

    if Path(path).is_file():
        options.refuse_overwriting(path, output, sarif)
    found = _scan_code(path, bindings, board, quiet=quiet, **limits)
    if sarif:
        emit(cb_scan.render_sarif(found), sarif)
        note(f"wrote {sarif}", quiet=quiet)
    for skipped in found.skipped[:5]:
        note(f"skipped {skipped.file}: {skipped.reason}", quiet=quiet or not as_json)
    if found.unused_bindings:
        note(f"no size, count or condition depends on {', '.join(found.unused_bindings)}", quiet=quiet)
    if as_json:
        emit(json_text(cb_scan.build_document(found)), output)
    else:
        emit(cb_scan.render_terminal(found, **looks(output), everything=everything), output)
    failing = found.count("error") + (found.count("warning") if fail_on == "warning" else 0)
    return 1 if fail_on and failing else 0


def _scan_code(path: str, bindings: tuple[str, ...], board: str, *, quiet: bool, **limits: Any) -> Scan:
    from ttmem.circular_buffers.scan.scanning import parse_bindings, scan
    from ttmem.hardware import open_board

    known, memory_map = parse_bindings(bindings), open_board(board)
    with progress_bar(f"scanning {path}", quiet=quiet) as progress:
        return scan(path, bindings=known, memory_map=memory_map, progress=progress, **limits)


@verb(
    """
ttmem cb profile debug.log
ttmem cb profile capture.json --json
ttmem cb profile generated/watcher/watcher.log
ttmem cb profile ops_perf_results.csv
""",
    group=command,
    line="Report what a log, capture or profiler table holds about circular buffers.",
)
@options.source_argument("source")
@options.json_option
@options.output_option
@options.quiet_option
def profile(source: str, as_json: bool, output: Path | None, quiet: bool) -> None:
    """Report what SOURCE holds about circular buffers, and what it does not.

    SOURCE is a graph capture, a log of the program, a watcher log, the device profiler's table of operations (CSV), a
    ttnn-visualizer report or a stored profile. The runtime itself logs no allocation, reserve, push or pop of a
    circular buffer; where a log has nothing, the answer names what to capture instead.
    """
    from ttmem.readers.sources import locate
    from ttmem.reports import cb_profile

    options.refuse_overwriting(locate(source).path, output)
    evidence = _read_evidence(source, quiet=quiet)
    if as_json:
        emit(json_text(cb_profile.build_document(evidence)), output)
    else:
        emit(cb_profile.render_terminal(evidence, **looks(output)), output)


@verb(
    """
ttmem cb analyze 16 16
ttmem cb analyze --multi customer/ fixed/ run.log
ttmem cb analyze 16 16 add_customer.cpp add_fixed.cpp --html report.html
ttmem cb analyze ops_perf_results.csv watcher.log --json
""",
    group=command,
    line="Write all circular-buffer analyses into one report.",
)
@click.argument("words", nargs=-1, metavar="[T R] [PATH]... [LOG]...")
@click.option("--multi", is_flag=True, help="The workloads 1, 2, 4, 8, 16, 17, 32 instead of T and R.")
@_assumption_options
@click.option(
    "--bind", "bindings", multiple=True, metavar="NAME=VALUE", help="For the scan: the value of a name in the code."
)
@options.json_option
@_html_option
@options.output_option
@options.quiet_option
def analyze(
    words: tuple[str, ...],
    multi: bool,
    bindings: tuple[str, ...],
    as_json: bool,
    html: Path | None,
    output: Path | None,
    quiet: bool,
    **assumed: Any,
) -> None:
    """Simulate T and R, scan code, and read logs and captures, in one Markdown report about circular buffers.

    Folders and C++ files are scanned as by 'ttmem cb scan', with tiles_per_shard and r_tiles bound to T and R; two or
    more are compared side by side. Any other file or stored report is read as by 'ttmem cb profile'. Where two parts
    cover the same thing, the report says whether they agree.
    """
    from ttmem.circular_buffers.analyze import Analysis
    from ttmem.circular_buffers.kernels import throughput_over_depth
    from ttmem.circular_buffers.workload import multi as multi_workloads
    from ttmem.readers.sources import locate
    from ttmem.reports import cb_analyze

    single, paths = _split_words(words)
    if multi and single:
        raise click.UsageError("give T and R, or --multi, not both")
    workloads = multi_workloads() if multi else (single,) if single else ()
    if not workloads and not paths:
        raise click.UsageError("nothing to analyze: give T and R, --multi, code or logs")
    code = [path for path in paths if _is_code(path)]
    logs = [path for path in paths if not _is_code(path)]
    for path in (*code, *(str(locate(log).path) for log in logs)):
        options.refuse_overwriting(path, output, html)
    for path in code:
        if not Path(path).exists():
            raise BadInputError("no such file or folder", where=path)
    # The workload's counts under the names of the published program; the user's bindings come later and win.
    names = (*(f"{name}={count}" for name, count in (asdict(single) if single else {}).items()), *bindings)
    assumptions, simulations = _simulate_all(workloads, **assumed)
    analysis = Analysis(
        simulations,
        curves=throughput_over_depth(assumptions) if workloads else (),
        sources=tuple(_scan_code(path, names, assumed["board"], quiet=quiet) for path in code),
        evidence=tuple(_read_evidence(log, quiet=quiet) for log in logs),
    )
    if html:
        emit(cb_analyze.render_html(analysis), html)
    if as_json:
        emit(json_text(cb_analyze.build_document(analysis, multi=multi)), output)
    else:
        emit(cb_analyze.render_markdown(analysis), output)


def _split_words(words: tuple[str, ...]) -> tuple[Workload | None, tuple[str, ...]]:
    """Split off T and R, which come first; one number alone is a mistake, not a path, unless such a file exists."""
    numbers = [word for word in words[:2] if word.lstrip("+-").isdigit() and not Path(word).exists()]
    if len(numbers) == 2:
        return _parse_workload(*numbers), words[2:]
    if numbers:
        raise BadInputError(
            f"'{numbers[0]}' alone is no workload", hint="give two numbers: tiles per shard and R tiles"
        )
    return None, words


def _is_code(path: str) -> bool:
    from ttmem.circular_buffers.scan.files import SUFFIXES

    folder = Path(path)
    is_report = any(folder.glob("*.sqlite")) or any(folder.glob("*memory_usage*.csv"))
    return folder.suffix.lower() in SUFFIXES or (folder.is_dir() and not is_report)
