# SPDX-License-Identifier: Apache-2.0
"""The command line ``ttmem``: a table of verbs, each of which is imported when it is used."""

import importlib
from collections.abc import Sequence
from pathlib import Path

import click

from ttmem._version import __version__
from ttmem.commands.command_line import GroupWithExamples, Settings, debug_option, run_to_exit_code

VERBS = {
    "profile": "Report what filled the memory: peaks, consumers, padding, weights, failure.",
    "explain": "Explain a memory failure: the numbers, the cause, and what to change.",
    "diff": "Compare two profiles: what grew, and which operation caused it.",
    "check": "Check a profile against a memory budget, for CI.",
    "run": "Run a ttnn script on a mock board and report its memory use.",
    "test": "Run a ttnn test suite on a mock board and report the peak memory of every test.",
    "device": "Find, install and diagnose the ttnn environment.",
    "cb": "Analyse circular buffers: depths, stalls, declarations in C++ code, figures in logs.",
    "reports": "List, find and remove the stored reports.",
    "export": "Write a profile for ttnn-visualizer, Perfetto, or as Parquet or CSV tables.",
    "live": "Show what running processes hold on the cards, from shared memory.",
    "boards": "List the boards with their banks and memories, per ttnn release.",
    "tensor": "Compute what a tensor needs on each board: pages, padding, bytes per bank.",
    "replay": "Play an allocation script on the model of the allocator (the twin).",
    "ops": "Extract the operators of models, map them to ttnn, write tests.",
    "sweep": "Find which operators and shapes fail on which board and memory, and their limits.",
    "fit": "Predict whether a model fits a board.",
    "serve": "Browse, compare and follow reports in a browser.",
    "tune": "Find the changes that make a captured run fit, and prove them on a mock board.",
    "whatif": "Predict the peaks of a captured run after an edit, before you make it.",
    "mcp": "Serve the verbs as MCP tools to an agent, over stdin and stdout.",
    "completion": "Print the completion script for a shell.",
}
"""Every verb, in the order of the help: the file ``<verb>.py`` of this folder and the first line of that file."""

_EXAMPLES = """\
ttmem profile run.log
ttmem profile run.log --llm -o report.md
ttmem check run.log --max-dram 80%
ttmem --llm --logfile run.log
"""


class _ProgramGroup(GroupWithExamples):
    """The program; a word that is a file was probably meant to be profiled."""

    @property
    def lines(self) -> dict[str, str]:
        """Return the table above, so that the help imports no verb."""
        return VERBS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's own file."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"ttmem.commands.{cmd_name}").command
        return command

    def guess_verb(self, word: str) -> str:
        """Return a hint: a verb that is spelled like the word, or the verb for a file."""
        return super().guess_verb(word) or (f"; did you mean 'ttmem profile {word}'?" if Path(word).exists() else "")


def _run_without_verb(ctx: click.Context, logfile: str | None, output: str | None, **forms: bool) -> int | None:
    """Accept the form of the first report format: ``ttmem --llm --logfile LOG`` is ``ttmem profile LOG --llm``."""
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


cli = _ProgramGroup(
    name="ttmem",
    help="The memory workbench for Tenstorrent hardware: what filled DRAM and L1, why it failed, what to change.",
    epilog=_EXAMPLES,
    callback=click.pass_context(_run_without_verb),
    invoke_without_command=True,
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
    return run_to_exit_code(cli, argv, prog_name="ttmem", settings=Settings())
