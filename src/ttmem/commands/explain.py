# SPDX-License-Identifier: Apache-2.0
"""``ttmem explain``: Explain a memory failure: the numbers, the cause, and what to change."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands.options import one_of, output_option, quiet_option, refuse_overwriting
from ttmem.commands.output import color_wanted, columns, emit, json_text, note
from ttmem.commands.command_line import verb

if TYPE_CHECKING:
    from ttmem.commands.library.explain import Explained
    from ttmem.reports.explain.privacy import Mask


@verb("""
ttmem explain run.log
ttmem explain "Out of Memory: Not enough space to allocate 16777216 B L1 buffer across 8 banks, where ..."
pytest tests/test_model.py 2>&1 | ttmem explain -
ttmem explain nightly --llm
ttmem explain run.log --issue -o issue.md
""")
@click.argument("source", required=False, metavar='[FILE | - | "TEXT"]')
@click.option("--board", metavar="BOARD", help="Where it happened; see 'ttmem boards'.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list with one entry per failure.")
@click.option("--llm", "as_llm", is_flag=True, help="Compact Markdown for an LLM agent.")
@click.option("--issue", "as_issue", is_flag=True, help="Markdown for an issue report, with private things masked.")
@click.option("--show-masked", is_flag=True, help="With --issue: list on stderr what was masked.")
@click.option(
    "--alive/--no-alive",
    default=None,
    help="Also read FILE as a profile and list the tensors that were alive (default: for logs up to 32 MiB).",
)
@output_option
@quiet_option
def command(
    source: str | None,
    as_json: bool,
    as_llm: bool,
    as_issue: bool,
    show_masked: bool,
    output: Path | None,
    quiet: bool,
    **asked: Any,
) -> None:
    """Explain a memory failure: the numbers, the cause, and what to change.

    Takes a pasted message, a file, stdin (-), a pytest log or a whole runtime log (plain, .gz, .zst), a saved profile
    or the name of a stored report. Each failure is reported once; text without one gives class 'none'. Exit code 0
    whenever the text could be read.
    """
    form = one_of(json=as_json, llm=as_llm, issue=as_issue)
    if source is None:
        if sys.stdin.isatty():
            raise click.UsageError("missing argument: a file, a message in quotes, or - for stdin")
        source = "-"
    import ttmem
    from ttmem.commands._progress import progress_bar
    from ttmem.commands.library.explain import find_source

    located = find_source(source)
    if located is not None:
        refuse_overwriting(located.path, output)
    with progress_bar(f"reading {located.path if located else 'the text'}", quiet=quiet) as progress:
        explained = ttmem.explain(source, progress=progress, **asked)
    mask = _mask() if form == "issue" else None
    emit(_rendered(explained, form, mask, to_file=output is not None), output)
    if mask is not None:
        _report_masked(mask, show=show_masked, quiet=quiet)
    for text in (*explained.notes, *([f"wrote {output}"] if output else [])):
        note(text, quiet=quiet)


def _mask() -> Mask:
    from ttmem.reports.explain.privacy import Mask

    return Mask(_own_names())


def _report_masked(mask: Mask, *, show: bool, quiet: bool) -> None:
    """What is not in the report, so that its author can judge both that nothing is left and that enough is."""
    counts = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in mask.counts().items())
    hint = "" if show or not counts else "; --show-masked lists them"
    note(f"masked: {counts or 'nothing'}{hint}; read the report before you publish it", quiet=quiet)
    for kind, text in dict.fromkeys(mask.masked) if show else ():
        note(f"  {kind}: {text}")


def _rendered(explained: Explained, form: str | None, mask: Mask | None, *, to_file: bool) -> str:
    if form == "json":
        return json_text(explained.to_json())
    from ttmem.reports.explain import terminal

    if form == "llm":
        from ttmem.reports.explain import markdown

        return markdown.render(explained.diagnoses)
    if form == "issue":
        from ttmem.reports.explain import issue

        return issue.render(explained.diagnoses, mask=mask)
    encoding = "utf-8" if to_file else (sys.stdout.encoding or "ascii")
    return terminal.render(
        explained.diagnoses,
        width=columns(),
        color=not to_file and color_wanted(sys.stdout),
        ascii_only="utf" not in encoding.lower(),
    )


def _own_names() -> list[str]:
    """Account and host of this machine: they may be in the text without any sign of what they are."""
    import getpass
    import socket

    try:
        account = getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for its user
        account = ""
    return [account, socket.gethostname()]
