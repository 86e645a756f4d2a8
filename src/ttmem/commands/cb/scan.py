# SPDX-License-Identifier: Apache-2.0
"""``ttmem cb scan``: Scan C++ code: the buffers it declares, whether they fit, which rules kernels break."""

import sys
from pathlib import Path

import click

from ttmem.commands.options import board_option, json_option, one_of, output_option, quiet_option, refuse_overwriting, writable_place
from ttmem.commands._progress import progress_bar
from ttmem.commands.output import color_wanted, columns, emit, json_text, note
from ttmem.commands.command_line import verb

_EXAMPLES = """
ttmem cb scan program_factory.cpp
ttmem cb scan my_op/ --bind num_tiles=64 --bind dtype=bfloat16 --board p150
ttmem cb scan my_op/ --l1-tensors 800000 --fail-on error
ttmem cb scan src/ --sarif buffers.sarif --json -o buffers.json
"""


@verb(_EXAMPLES)
@click.argument("path", metavar="PATH", type=click.Path())
@click.option(
    "--bind",
    "bindings",
    multiple=True,
    metavar="NAME=VALUE",
    help="What a name of the code stands for: a number, true, false, a data type or a layout; may be repeated.",
)
@board_option("Whose L1 the buffers must fit.")
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
@json_option
@click.option("--sarif", callback=writable_place, metavar="FILE", help="Also write the findings as SARIF 2.1.0.")
@click.option("--all", "everything", is_flag=True, help="Do not cut long lists.")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that read a large tree (default: one per core, at most 8).",
)
@output_option
@quiet_option
def command(
    path: str,
    bindings: tuple[str, ...],
    board: str,
    l1_tensor_bytes: int,
    fail_on: str | None,
    as_json: bool,
    sarif: Path | None,
    everything: bool,
    jobs: int | None,
    output: Path | None,
    quiet: bool,
) -> int:
    """Scan the C++ code of PATH for circular and dataflow buffers: sizes, fit, and rules that kernels break.

    PATH is a file or a folder of host code and kernels; nothing is compiled and no include is needed. Sizes stay
    expressions until every name in them is bound with --bind. Buffers that borrow a tensor's memory are not counted.
    Rules R1 to R13 are explained where they are first reported, and in docs/cb-scan.md. Exit 0, unless --fail-on.
    """
    from ttmem.circular_buffers.scan import parse_bindings, scan
    from ttmem.hardware import open_board
    from ttmem.reports.cb_scan import document as cb_scan_document
    from ttmem.reports.cb_scan import sarif as cb_scan_sarif
    from ttmem.reports.cb_scan import terminal as cb_scan_terminal

    form = one_of(json=as_json)
    known = parse_bindings(bindings)
    memory_map = open_board(board)
    if Path(path).is_file():
        refuse_overwriting(path, output, sarif)
    with progress_bar("scanning", quiet=quiet) as progress:
        found = scan(
            path, bindings=known, memory_map=memory_map, l1_tensor_bytes=l1_tensor_bytes, jobs=jobs, progress=progress
        )
    if sarif:
        emit(cb_scan_sarif.render(found), sarif)
        note(f"wrote {sarif}", quiet=quiet)
    for skipped in found.skipped[:5]:
        note(f"skipped {skipped.file}: {skipped.reason}", quiet=quiet or form is None)
    if found.unused_bindings:
        note(f"no size, count or condition depends on {', '.join(found.unused_bindings)}", quiet=quiet)
    if form == "json":
        answer = json_text(cb_scan_document.document(found))
    else:
        color = output is None and color_wanted(sys.stdout)
        answer = cb_scan_terminal.render(found, width=columns(), color=color, everything=everything)
    emit(answer, output)
    failing = found.count("error") + (found.count("warning") if fail_on == "warning" else 0)
    return 1 if fail_on and failing else 0
