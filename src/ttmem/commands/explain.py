# SPDX-License-Identifier: Apache-2.0
"""``ttmem explain``: Explain a memory failure: the numbers, the cause, and what to change."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.base.errors import BadInputError
from ttmem.commands.command_line import verb
from ttmem.commands.options import choose_one, output_option, quiet_option, refuse_overwriting
from ttmem.commands.output import emit, json_text, looks, note, progress_bar
from ttmem.commands.read import Progress

if TYPE_CHECKING:
    from ttmem.failures.diagnosis.diagnose import Diagnosis
    from ttmem.readers.sources import Located
    from ttmem.reports.explain_privacy import Mask


@dataclass(frozen=True, slots=True)
class Explained:
    """The diagnoses, and remarks for the user."""

    diagnoses: list[Diagnosis]
    notes: tuple[str, ...] = ()

    def to_json(self) -> list[dict[str, Any]]:
        """Return the document of ``ttmem explain --json``: one entry per failure."""
        from ttmem.reports.explain_document import build_document

        return [entry.to_json() for entry in build_document(self.diagnoses)]


def explain(
    source: str | Path, *, board: str | None = None, alive: bool | None = None, progress: Progress | None = None
) -> Explained:
    """Explain every failure in a text or a source of any kind: the numbers, the cause, and what to change.

    ``source`` is a failure message, a file, ``-`` for standard input or the name of a stored report; ``board`` is
    where it happened. ``alive``: also read a log as a profile, so that the diagnosis can name the live tensors
    (None: where that is quick). Text without a failure is an answer: one diagnosis of class ``none``.
    """
    if board is not None:
        from ttmem.hardware import BOARDS

        board = BOARDS.find(board).name
    located = find_source(str(source))
    if located is None:
        from ttmem.failures.diagnosis.diagnose import explain as explain_text

        return Explained(explain_text(str(source), board=board))
    from ttmem.analysis.source_diagnosis import diagnose_source

    found = diagnose_source(located, board=board, alive=alive, progress=progress)
    return Explained(found.diagnoses, found.notes)


def find_source(source: str) -> Located | None:
    """Find the file or stored report of that name, or ``-``; None when the argument is the text itself."""
    from ttmem.readers.sources import locate

    try:
        return locate(source)
    except BadInputError:
        if " " in source.strip() or "\n" in source:
            return None  # a message has blanks; a single word that is no file is a mistyped name
        raise


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
    **settings: Any,
) -> None:
    """Explain a memory failure: the numbers, the cause, and what to change.

    Takes a pasted message, a file, stdin (-), a pytest log or a whole runtime log (plain, .gz, .zst), a saved profile
    or the name of a stored report. Each failure is reported once; text without one gives class 'none'. Exit code 0
    whenever the text could be read.
    """
    form = choose_one(json=as_json, llm=as_llm, issue=as_issue)
    if source is None:
        if sys.stdin.isatty():
            raise click.UsageError("missing argument: a file, a message in quotes, or - for stdin")
        source = "-"
    located = find_source(source)
    if located is not None:
        refuse_overwriting(located.path, output)
    with progress_bar(f"reading {located.path if located else 'the text'}", quiet=quiet) as progress:
        explained = explain(source, progress=progress, **settings)
    mask = _create_mask() if form == "issue" else None
    emit(_render(explained, form, mask, output), output)
    if mask is not None:
        _report_masked(mask, show=show_masked, quiet=quiet)
    for text in (*explained.notes, *([f"wrote {output}"] if output else [])):
        note(text, quiet=quiet)


def _create_mask() -> Mask:
    """Return a mask that knows the account and host of this machine: nothing in a text marks them as such."""
    import getpass
    import socket

    from ttmem.reports.explain_privacy import Mask

    try:
        account = getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for its user
        account = ""
    return Mask([account, socket.gethostname()])


def _report_masked(mask: Mask, *, show: bool, quiet: bool) -> None:
    """Print what was masked, so that the author can judge the report."""
    counts = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in mask.count_kinds().items())
    hint = "" if show or not counts else "; --show-masked lists them"
    note(f"masked: {counts or 'nothing'}{hint}; read the report before you publish it", quiet=quiet)
    for kind, text in dict.fromkeys(mask.masked) if show else ():
        note(f"  {kind}: {text}")


def _render(explained: Explained, form: str | None, mask: Mask | None, output: Path | None) -> str:
    if form == "json":
        return json_text(explained.to_json())
    from ttmem.reports import explain as report

    if form == "llm":
        return report.render_markdown(explained.diagnoses)
    if form == "issue":
        return report.render_issue(explained.diagnoses, mask=mask)
    encoding = "utf-8" if output else (sys.stdout.encoding or "ascii")
    return report.render_terminal(explained.diagnoses, **looks(output), ascii_only="utf" not in encoding.lower())
