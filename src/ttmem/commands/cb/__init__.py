# SPDX-License-Identifier: Apache-2.0
"""``ttmem cb``: circular buffers. One sub-verb = one file, imported when it is used."""

from __future__ import annotations

import importlib

import click

from ttmem.commands._runner import CONTEXT, WithExamples, debug_option

VERBS = {
    "simulate": (
        "ttmem.commands.cb.simulate",
        "What depths cost in L1 and in time: predicted stall, strategies compared.",
    ),
    "scan": ("ttmem.commands.cb.scan", "Buffers that C++ code declares, whether they fit, which rules kernels break."),
    "profile": ("ttmem.commands.cb.profile", "What a log, capture or profiler table says about circular buffers."),
    "analyze": ("ttmem.commands.cb.analyze", "All of it in one report."),
}
"""Sub-verb -> (module with a ``command``, one line of help)."""

_EXAMPLES = """\
ttmem cb simulate 16 16
ttmem cb scan my_op/ --bind num_tiles=64
ttmem cb profile capture.json
ttmem cb analyze --multi --html report.html
"""


class _CircularBufferVerbs(WithExamples, click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a newcomer needs them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-verb's own file."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(VERBS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table above, without importing anything."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


command = _CircularBufferVerbs(
    name="cb",
    help="Circular buffers: how deep they should be, what declares them, what was seen of them.",
    epilog=_EXAMPLES,
    subcommand_metavar="VERB ...",
    context_settings=CONTEXT,
    params=[debug_option()],
)
