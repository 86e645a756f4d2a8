# SPDX-License-Identifier: Apache-2.0
"""``ttmem reports``: List, find and remove the stored reports."""

from typing import Any

import click

from ttmem.base.errors import BadInputError
from ttmem.commands.options import json_option
from ttmem.commands.output import emit, json_text, looks, note
from ttmem.commands.command_line import GroupWithExamples, debug_option

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
    from ttmem.reports.report_list import document, terminal

    found = document.document(str(store.folder()), store.listing())
    if as_json:
        emit(json_text(found), None)
    elif found.reports:
        emit(terminal.render(found, **looks()), None)
    else:
        note(f"no reports in {found.folder}; 'ttmem profile LOG' makes one")


@command.command("path", epilog="ttmem reports path bert")
@click.argument("name")
def path(name: str) -> None:
    """Print the folder of the report NAME."""
    emit(str(_stored(name).folder), None)


@command.command("rm", epilog="ttmem reports rm bert bert-2")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def rm(names: tuple[str, ...]) -> None:
    """Delete the reports NAME..., without asking; their logs are kept."""
    from ttmem.profile import store

    for report in [_stored(name) for name in dict.fromkeys(names)]:  # all are there, or none is removed
        store.remove(report.name)
        note(f"removed {report.folder}")


for _command in (command, path, rm):
    _command.params.append(debug_option())


def _stored(name: str) -> Any:
    from ttmem.profile import store

    report = store.find(name)
    if report is None:
        known = ", ".join(store.names()) or "none"
        raise BadInputError(f"no stored report '{name}'", hint=f"stored reports: {known}")
    return report
