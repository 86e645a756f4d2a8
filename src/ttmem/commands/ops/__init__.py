# SPDX-License-Identifier: Apache-2.0
"""``ttmem ops``: the operators of models; each verb of the group has its own file."""

from __future__ import annotations

import importlib

import click

from ttmem.commands._runner import CONTEXT, WithExamples, debug_option

_VERBS = {
    "extract": ("ttmem.commands.ops.extract", "Operators, shapes, types and scalars of models, one case per line."),
    "map": ("ttmem.commands.ops.map", "Which ttnn call stands for each operator, and what is supported."),
    "tests": ("ttmem.commands.ops.tests", "pytest files, one per operator, for a card and for the mock."),
}

_EXAMPLES = """
ttmem ops extract hf:ViTConfig --size 224x224 -o cases.jsonl
ttmem ops map cases.jsonl
ttmem ops tests cases.jsonl -o generated
"""


class _Operators(WithExamples, click.Group):
    """Verbs that are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the work."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's own file."""
        if cmd_name not in _VERBS:
            return None
        found: click.Command = importlib.import_module(_VERBS[cmd_name][0]).command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table above, so that help imports nothing."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in _VERBS.items()])


@click.group("ops", cls=_Operators, epilog=_EXAMPLES, context_settings=CONTEXT, subcommand_metavar="VERB ...")
def command() -> None:
    """What models are made of: extract their operators, map them to ttnn, write tests for them.

    A case is one operator with all its shapes, data types and scalars; a case file has one per line and is what
    'ttmem sweep' runs.
    """


command.params.append(debug_option())
