# SPDX-License-Identifier: Apache-2.0
"""The command line: one verb = one file. This one knows the verbs by name and loads a file when its verb is used."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import click

from ttmem._version import __version__
from ttmem.commands._runner import CONTEXT, Settings, WithExamples, debug_option, exit_code_of

VERBS = {
    "profile": ("ttmem.commands.profile", "What filled the memory: peaks, consumers, padding, weights, failure."),
    "explain": ("ttmem.commands.explain", "What happened in memory when something failed, and what to change."),
    "diff": ("ttmem.commands.diff", "What grew from one profile to another, and which operation did it."),
    "check": ("ttmem.commands.check", "Whether a profile stays within a memory budget, for CI."),
    "run": ("ttmem.commands.run", "Run a ttnn script on a mock board and tell what it did to the memory."),
    "test": ("ttmem.commands.test", "Run a ttnn test suite on a mock board, with the peak memory of every test."),
    "device": ("ttmem.commands.device", "What can run ttnn here, making it, and why it does not work."),
    "cb": ("ttmem.commands.cb", "Circular buffers: depths, stalls, declarations in C++ code, what logs say."),
    "reports": ("ttmem.commands.reports", "List, find and remove the stored reports."),
    "export": ("ttmem.commands.export", "Write a profile for ttnn-visualizer, Perfetto, or as Parquet or CSV tables."),
    "live": ("ttmem.commands.live", "What running processes hold on the cards, from shared memory."),
    "boards": ("ttmem.commands.boards", "The boards, their banks and memories, per ttnn release."),
    "tensor": ("ttmem.commands.tensor", "What a tensor needs on each board: pages, padding, bytes per bank."),
    "replay": ("ttmem.commands.replay", "Play an allocation script on the twin of the allocator."),
    "ops": ("ttmem.commands.ops", "What models are made of: extract operators, map them to ttnn, write tests."),
    "sweep": ("ttmem.commands.sweep", "Which operators and shapes fail on which board and memory, and their limits."),
    "mcp": ("ttmem.commands.mcp", "Serve the verbs as MCP tools to an agent, over stdin and stdout."),
    "completion": ("ttmem.commands.completion", "Print the completion script for a shell."),
}
"""Verb -> (module with a ``command``, one line of help): ``ttmem --help`` shows them without importing any."""

_EXAMPLES = """\
ttmem profile run.log
ttmem profile run.log --llm -o report.md
ttmem check run.log --max-dram 80%
ttmem --llm --logfile run.log
"""


class _Verbs(WithExamples, click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb, in the order in which a newcomer needs them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's own file."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(VERBS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb, or what the user may have meant."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"no verb '{args[0]}'{_guess(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of verbs, from the table above."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


def _guess(word: str) -> str:
    import difflib

    if close := difflib.get_close_matches(word, VERBS, n=1):
        return f"; did you mean '{close[0]}'?"
    if Path(word).exists():
        return f"; did you mean 'ttmem profile {word}'?"
    return ""


def _without_verb(ctx: click.Context, logfile: str | None, output: str | None, **forms: bool) -> int | None:
    """The form of the first report format: ``ttmem --llm --logfile LOG`` is ``ttmem profile LOG --llm``."""
    options = [f"--{form}" for form, wanted in forms.items() if wanted] + (["-o", output] if output else [])
    if ctx.invoked_subcommand is not None:
        if logfile or options:
            option = options[0] if options else "--logfile"
            raise click.UsageError(f"{option} belongs after the verb '{ctx.invoked_subcommand}'", ctx)
        return None
    if logfile is None:
        if options:
            raise click.UsageError(f"{options[0]} of which log? Use 'ttmem profile LOG {options[0]}'", ctx)
        click.echo(ctx.get_help(), err=True)
        return 2
    from ttmem.commands.profile import command

    with command.make_context("profile", [*options, "--", logfile], parent=ctx) as profile_ctx:
        result: int | None = command.invoke(profile_ctx)
    return result


cli = _Verbs(
    name="ttmem",
    help="The memory workbench for Tenstorrent hardware: what filled DRAM and L1, why it failed, what to change.",
    epilog=_EXAMPLES,
    callback=click.pass_context(_without_verb),
    invoke_without_command=True,
    subcommand_metavar="VERB ...",
    context_settings=CONTEXT,
    params=[
        click.Option(["--logfile"], metavar="LOG", help="Same as 'ttmem profile LOG', with these:"),
        click.Option(["--llm"], is_flag=True, help="Markdown for an LLM agent."),
        click.Option(["--json"], is_flag=True, help="One JSON document."),
        click.Option(["--csv"], is_flag=True, help="One row per memory state."),
        click.Option(["-o", "output"], metavar="FILE", help="Write there instead of to stdout."),
        debug_option(),
    ],
)
cli = click.version_option(__version__, "-V", "--version", prog_name="ttmem", message="%(prog)s %(version)s")(cli)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ttmem and return its exit code; the one place where errors are printed."""
    return exit_code_of(cli, argv, prog_name="ttmem", settings=Settings())
