# SPDX-License-Identifier: Apache-2.0
"""``ttmem sweep``: operators of models against the memory of boards. Its verbs are files of their own."""

from __future__ import annotations

import importlib

import click

from ttmem.commands._runner import CONTEXT, WithExamples, debug_option

VERBS = {
    "run": ("ttmem.commands.sweep.run", "Run cases on the twin, a mock board or a card, and keep a journal."),
    "report": ("ttmem.commands.sweep.report", "The reports of a sweep, or of a folder of other tools' test logs."),
    "limits": ("ttmem.commands.sweep.limits", "The largest shape per operator that passes, by progressive search."),
}
"""Verb -> (module with a ``command``, one line of help)."""

_EXAMPLES = """
ttmem sweep run cases.jsonl --board n150 --memory DRAM,L1 -o results
ttmem sweep report results -o reports
ttmem sweep limits --op silu --board n150
"""


class _Sweep(WithExamples, click.Group):
    """A group whose verbs are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(VERBS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


@click.group("sweep", cls=_Sweep, epilog=_EXAMPLES, context_settings=CONTEXT, subcommand_metavar="VERB ...")
def command() -> None:
    """Which operators and shapes fail on which board and memory, what the largest are, and what to do about it.

    Every case runs alone on an empty device; how much room a whole model leaves is what 'ttmem fit' answers.
    """


command.params.append(debug_option())
