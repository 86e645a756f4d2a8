# SPDX-License-Identifier: Apache-2.0
"""``ttmem mcp``: Serve the verbs as MCP tools to an agent, over stdin and stdout."""

from pathlib import Path

import click

from ttmem.commands.command_line import verb
from ttmem.commands.options import check_output_path

_VERBS_FOR_PEOPLE = {"device install", "reports rm"}
"""They change this machine or delete what is stored."""
_OPTIONS_FOR_PEOPLE = frozenset(
    {
        *("--debug", "--jobs", "--workers", "--scheduler"),  # how and where it is done
        *("--python", "--torch-python"),  # any program may be named there
        *("--follow", "--idle", "--interval", "--count"),  # until Ctrl-C
        *("--github", "--issue", "--show-masked"),  # an answer for another reader
        *("--save-expectations", "--open"),
    }
)


@verb("""
ttmem mcp
ttmem mcp --root ~/logs --root ~/models
claude mcp add ttmem -- ttmem mcp
""")
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Files below it may be named (default: the client's roots, else the working folder).",
)
@click.pass_context
def command(ctx: click.Context, roots: tuple[Path, ...]) -> None:
    """Serve the verbs as MCP tools on stdin and stdout; the agent starts this command.

    Every verb that answers in JSON is a tool with the verb's own options. Answers are bounded: 10 rows per table unless
    asked for more (at most 100), about 25,000 tokens in all, with their caveats in them. Tools read files below the
    roots, stored reports and pasted text, nothing else, and write to the store and to the output that a call names.
    """
    from ttmem.commands.mcp_server.server import serve

    for root in roots:
        if not root.is_dir():
            raise click.UsageError(f"--root {root}: no such folder", ctx)
    program = ctx.find_root().command
    assert isinstance(program, click.Group)
    serve(program, is_for_people, [root.resolve() for root in roots])


def is_for_people(path: str, param: click.Parameter | None) -> bool:
    """Return whether agents do without a verb, or without an option of it."""
    if param is None:
        return path in _VERBS_FOR_PEOPLE
    return param.callback is check_output_path or not _OPTIONS_FOR_PEOPLE.isdisjoint(param.opts)
