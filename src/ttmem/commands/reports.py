# SPDX-License-Identifier: Apache-2.0
"""``ttmem reports``: List, find and remove the stored reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ttmem.base.errors import BadInputError
from ttmem.commands.command_line import GroupWithExamples, debug_option, verb
from ttmem.commands.options import json_option
from ttmem.commands.output import emit, json_text, looks, note

if TYPE_CHECKING:
    from ttmem.profile.store import StoredReport

_EXAMPLES = """
ttmem reports
ttmem reports --json
ttmem reports path bert
ttmem reports rm bert bert-2
"""


@click.group("reports", cls=GroupWithExamples, epilog=_EXAMPLES, invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the stored reports: when, from what, how full DRAM and L1 got, and whether it fit.

    They are in ~/.ttmem/reports (TTMEM_HOME moves it); each name is a SOURCE for every verb.
    """
    if ctx.invoked_subcommand is not None:
        return
    from ttmem.profile import store
    from ttmem.reports.report_list import build_document, render_terminal

    found = build_document(str(store.locate_folder()), store.list_reports())
    if as_json:
        emit(json_text(found), None)
    elif found.reports:
        emit(render_terminal(found, **looks()), None)
    else:
        note(f"no reports in {found.folder}; 'ttmem profile LOG' makes one")


command.params.append(debug_option())


@verb("ttmem reports path bert", group=command)
@click.argument("name")
def path(name: str) -> None:
    """Print the folder of the report NAME."""
    emit(str(_find_report(name).folder), None)


@verb("ttmem reports rm bert bert-2", group=command)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def rm(names: tuple[str, ...]) -> None:
    """Delete the reports NAME..., without asking; their logs are kept."""
    from ttmem.profile import store

    for report in [_find_report(name) for name in dict.fromkeys(names)]:  # all exist, or none is removed
        store.remove(report.name)
        note(f"removed {report.folder}")


def _find_report(name: str) -> StoredReport:
    from ttmem.profile import store

    report = store.find(name)
    if report is None:
        known = ", ".join(store.list_names()) or "none"
        raise BadInputError(f"no stored report '{name}'", hint=f"stored reports: {known}")
    return report
