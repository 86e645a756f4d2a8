# SPDX-License-Identifier: Apache-2.0
"""``ttmem whatif``: Predict the peaks of a captured run after an edit, before you make it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ttmem.commands import options
from ttmem.commands.output import emit, json_text, looks
from ttmem.commands.command_line import verb


def _edit_option(name: str, kind: str, form: str, text: str) -> Callable[[Any], Any]:
    """An edit as an option of its own, which may be given again and again."""

    def as_edits(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
        return [f"{kind}:{_with_value(kind, value)}" for value in values]

    return click.option(name, f"{kind}_edits", metavar=form, multiple=True, callback=as_edits, help=text)


def _with_value(kind: str, value: str) -> str:
    """``gelu@47:4`` says ``gelu@47=4``."""
    target, _, parts = value.rpartition(":")
    return f"{target}={parts}" if kind == "chunk" and "=" not in value and target else value


@verb("""
ttmem whatif block free:x@41
ttmem whatif block free:x@41 'dtype:*.weight=bfloat8_b' --name smaller
ttmem whatif block memory:q@12=DRAM --board p150 --json
ttmem whatif block --free-early x@41 --dtype weights=bfloat8_b --chunk gelu@47:4
""")
@options.source_argument("source")
@click.argument("edits", nargs=-1, metavar="EDIT...")
@_edit_option("--free-early", "free", "TENSOR@LINE", "As free:TENSOR@LINE.")
@_edit_option("--inplace", "inplace", "TENSOR@LINE", "As inplace:TENSOR@LINE.")
@_edit_option("--memory", "memory", "TENSOR=MEMORY", "As memory:TENSOR=MEMORY.")
@_edit_option("--dtype", "dtype", "PATTERN=TYPE", "As dtype:PATTERN=TYPE.")
@_edit_option("--shard", "shard", "TENSOR=FORM", "As shard:TENSOR=FORM.")
@_edit_option("--chunk", "chunk", "OPERATION@LINE:PARTS", "As chunk:OPERATION@LINE=PARTS.")
@_edit_option("--order", "order", "TENSOR=WHEN", "As order:TENSOR=WHEN.")
@_edit_option("--region", "region", "REGION=BYTES", "As region:REGION=BYTES.")
@click.option("--board", metavar="BOARD", help="As if it ran on this board.")
@click.option("--name", metavar="NAME", help="Store the changed run under this name, for 'diff', 'check' and the page.")
@options.json_option
@options.output_option
@options.quiet_option
def command(
    source: str,
    edits: tuple[str, ...],
    board: str | None,
    name: str | None,
    as_json: bool,
    output: Path | None,
    quiet: bool,
    **more: list[str],
) -> int:
    """Predict the peaks of SOURCE, a run captured by 'ttmem run', after EDITs: exit 0 when it fits then, else 1.

    \b
    free:TENSOR@LINE            free it right after its last use
    inplace:TENSOR@LINE         write it over the input that it is made from
    memory:TENSOR@LINE=DRAM     make it in DRAM or L1
    dtype:PATTERN=bfloat8_b     make it in another data type
    shard:TENSOR=interleaved    lay it out otherwise (height:64x512@8x8)
    chunk:#INDEX=4              run an operation in parts (gelu@47=4: by name and line)
    order:TENSOR=last           upload it right before its first use (=first: before all)
    region:L1_SMALL=0           open the device with another region
    board=p150                  run it on another board

    TENSOR is the name in the report, a pattern may mean several, 'weights' all that objects keep; LINE is where it is
    made, #INDEX an operation. The run is played again on the twin's allocator, so addresses, fragmentation and clashes
    count.
    """
    import ttmem
    from ttmem.commands import profile_answer
    from ttmem.profile import store
    from ttmem.readers.sources import Located
    from ttmem.reports.whatif import terminal

    edits = (*edits, *(edit for given in more.values() for edit in given))
    if not edits and board is None:
        raise click.UsageError("no EDIT was given")
    if name is not None:
        name = store.check_name(name)
    profile_answer.protect(source, outputs=(output,))
    found = ttmem.whatif(source, edits, board=board)
    answer = found.document()
    if name is not None:
        profile = found.profile(name)
        kept = profile_answer.keep(profile, Located(f"{source} with {' '.join(edits)}", None), name=name)
        profile_answer.say_what_next(profile, kept, quiet=quiet)
    emit(json_text(answer.to_json()) if as_json else terminal.render(answer, **looks(output)), output)
    return 0 if found.after.fits else 1
