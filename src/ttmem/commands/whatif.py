# SPDX-License-Identifier: Apache-2.0
"""``ttmem whatif``: Predict the peaks of a captured run after an edit, before you make it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands import options
from ttmem.commands.command_line import verb
from ttmem.commands.output import emit, json_text, looks
from ttmem.commands.profile_answer import print_next_command, protect_sources, store_profile, try_store
from ttmem.commands.read import Source, read

if TYPE_CHECKING:
    from ttmem.profile.model import Profile
    from ttmem.reports.whatif import WhatIfDocument
    from ttmem.tuning.edited_run import AppliedEdit, EditedRun
    from ttmem.tuning.edits import Edit
    from ttmem.tuning.figures import Figures


@dataclass(frozen=True, eq=False)
class WhatIf:
    """The predicted effect of edits."""

    before: Figures
    after: Figures
    applied: tuple[AppliedEdit, ...]
    draft: EditedRun
    programs_doubt: str = ""
    """Why the L1 use of programs is not certain; empty when it is."""

    def profile(self, name: str | None = None) -> Profile:
        """Return the changed run as a Profile: ``diff`` it, ``check`` it, store it."""
        from ttmem.tuning.replay import build_profile

        return build_profile(self.draft, name or f"{self.draft.history.profile.name}-whatif")

    def document(self) -> WhatIfDocument:
        """Return the answer of ``ttmem whatif``."""
        from ttmem.reports.whatif import build_document

        return build_document(self.before, self.after, self.applied, self.draft, self.programs_doubt)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``ttmem whatif --json``."""
        return self.document().to_json()


def whatif(source: Source, edits: Sequence[str | Edit], *, board: str | None = None) -> WhatIf:
    """Apply edits (``free:x@41``, ``memory:q@12=DRAM``, ``dtype:*.weight=bfloat8_b``, ...) to a captured run.

    It is played again on the twin's allocator; without edits that gives the captured addresses to the byte.
    """
    from ttmem.tuning.apply_edit import apply_edit
    from ttmem.tuning.captured_run import read_captured_run
    from ttmem.tuning.edited_run import start_edits
    from ttmem.tuning.edits import BOARD, CHUNK, Edit, parse_edit
    from ttmem.tuning.figures import compute_figures
    from ttmem.tuning.programs import update_programs

    last = (CHUNK, BOARD)  # parts are those of the tensors as all other edits leave them
    chosen = [parse_edit(one) if isinstance(one, str) else one for one in edits]
    if board is not None:
        chosen.append(Edit(BOARD, value=board))
    chosen.sort(key=lambda edit: last.index(edit.kind) if edit.kind in last else -1)
    start = draft = start_edits(read_captured_run(read(source)))
    applied: list[AppliedEdit] = []
    for edit in chosen:
        draft, one = apply_edit(draft, edit)
        applied.append(one)
    draft, doubt = update_programs(draft)
    return WhatIf(compute_figures(start), compute_figures(draft), tuple(applied), draft, doubt)


def _edit_option(name: str, kind: str, form: str) -> Callable[[Any], Any]:
    """Declare an edit as an option of its own, which may be repeated."""

    def parse(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
        return [f"{kind}:{_join_value(kind, value)}" for value in values]

    about = f"As {kind}:{_join_value(kind, form)}."
    return click.option(name, f"{kind}_edits", metavar=form, multiple=True, callback=parse, help=about)


def _join_value(kind: str, value: str) -> str:
    """Spell ``gelu@47:4`` as ``gelu@47=4``."""
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
@_edit_option("--free-early", "free", "TENSOR@LINE")
@_edit_option("--inplace", "inplace", "TENSOR@LINE")
@_edit_option("--memory", "memory", "TENSOR=MEMORY")
@_edit_option("--dtype", "dtype", "PATTERN=TYPE")
@_edit_option("--shard", "shard", "TENSOR=FORM")
@_edit_option("--chunk", "chunk", "OPERATION@LINE:PARTS")
@_edit_option("--order", "order", "TENSOR=WHEN")
@_edit_option("--region", "region", "REGION=BYTES")
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
    shard:TENSOR=interleaved    shard it in another way (height:64x512@8x8)
    chunk:#INDEX=4              run an operation in parts (gelu@47=4: by name and line)
    order:TENSOR=last           upload it right before its first use (=first: before all)
    region:L1_SMALL=0           open the device with another region
    board=p150                  run it on another board

    TENSOR is the name in the report, a pattern may match several, 'weights' is everything that objects keep; LINE is
    where it is made, #INDEX an operation. The run is played again on the twin's allocator, so addresses, fragmentation
    and clashes count.
    """
    from ttmem.profile import store
    from ttmem.reports.whatif import render_terminal

    edits = (*edits, *(edit for given in more.values() for edit in given))
    if not edits and board is None:
        raise click.UsageError("no EDIT was given")
    if name is not None:
        name = store.check_name(name)
    protect_sources(source, outputs=(output,))
    found = whatif(source, edits, board=board)
    answer = found.document()
    if name is not None:
        profile, origin = found.profile(name), os.path.realpath(f"{source} with {' '.join(edits)}")
        kept = try_store(lambda: store_profile(profile, origin=origin, name=name))
        print_next_command(profile, kept, quiet=quiet)
    emit(json_text(answer.to_json()) if as_json else render_terminal(answer, **looks(output)), output)
    return 0 if found.after.fits else 1
