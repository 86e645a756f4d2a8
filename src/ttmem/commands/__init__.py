# SPDX-License-Identifier: Apache-2.0
"""The command line: one verb = one file of this folder, found by its first line and loaded when it is used."""

from collections.abc import Sequence
from pathlib import Path

import click

from ttmem._version import __version__
from ttmem.commands._group import VerbGroup
from ttmem.commands.run_command import Settings, exit_code_of

_EXAMPLES = """\
ttmem profile run.log
ttmem profile run.log --llm -o report.md
ttmem check run.log --max-dram 80%
ttmem --llm --logfile run.log
"""


class _Program(VerbGroup):
    """All verbs; a word that is a file was probably meant to be profiled."""

    def guess(self, word: str) -> str:
        """A verb that is spelled like it, or the verb for a file."""
        return super().guess(word) or (f"; did you mean 'ttmem profile {word}'?" if Path(word).exists() else "")


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
    command = cli.get_command(ctx, "profile")
    assert command is not None
    with command.make_context("profile", [*options, "--", logfile], parent=ctx) as profile_ctx:
        result: int | None = command.invoke(profile_ctx)
    return result


cli = _Program(
    __name__,
    first=(
        *("profile", "explain", "diff", "check", "run", "test", "device", "cb", "reports", "export", "live"),
        *("boards", "tensor", "replay", "ops", "sweep"),
    ),
    last=("mcp", "completion"),
    name="ttmem",
    help="The memory workbench for Tenstorrent hardware: what filled DRAM and L1, why it failed, what to change.",
    epilog=_EXAMPLES,
    callback=click.pass_context(_without_verb),
    invoke_without_command=True,
    params=[
        click.Option(["--logfile"], metavar="LOG", help="Same as 'ttmem profile LOG', with these:"),
        click.Option(["--llm"], is_flag=True, help="Markdown for an LLM agent."),
        click.Option(["--json"], is_flag=True, help="One JSON document."),
        click.Option(["--csv"], is_flag=True, help="One row per memory state."),
        click.Option(["-o", "output"], metavar="FILE", help="Write there instead of to stdout."),
    ],
)
cli = click.version_option(__version__, "-V", "--version", prog_name="ttmem", message="%(prog)s %(version)s")(cli)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ttmem and return its exit code; the one place where errors are printed."""
    return exit_code_of(cli, argv, prog_name="ttmem", settings=Settings())
