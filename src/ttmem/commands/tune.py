# SPDX-License-Identifier: Apache-2.0
"""``ttmem tune``: Find the changes that make a captured run fit, and prove them on a mock board."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.base.errors import BadInputError
from ttmem.commands import options
from ttmem.commands.command_line import verb
from ttmem.commands.output import emit, json_text, looks, note, stderr_descriptor
from ttmem.commands.profile_answer import protect_sources
from ttmem.commands.read import Source, read

if TYPE_CHECKING:
    from ttmem.analysis.budget import Amount
    from ttmem.analysis.findings import Finding
    from ttmem.profile.model import Profile
    from ttmem.reports.tune import TuneDocument
    from ttmem.tuning.edited_run import AppliedEdit
    from ttmem.tuning.figures import Figures
    from ttmem.tuning.patch import Patch
    from ttmem.tuning.search import SearchStep
    from ttmem.tuning.tuned_run import TunedRun
    from ttmem.tuning.verify import Verification

_LIMIT = "80%, 0.8, or bytes per bank such as 700MiB"
_SCRIPT_HINT = "write --script 'model.py --batch 4'"


@dataclass(frozen=True, eq=False)
class Tuned:
    """The edits that were found, and their effect."""

    answer: TunedRun

    @property
    def steps(self) -> tuple[SearchStep, ...]:
        """The edits in the order in which they were chosen, with the figures after each."""
        return self.answer.steps

    @property
    def applied(self) -> tuple[AppliedEdit, ...]:
        """The edits."""
        return self.answer.applied

    @property
    def reached(self) -> bool:
        """True when the target is reached."""
        return self.answer.reached

    @property
    def before(self) -> Figures:
        """The peaks without the edits."""
        return self.answer.before

    @property
    def after(self) -> Figures:
        """The peaks with the edits."""
        return self.answer.after

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Leaks and waste in the captured run."""
        return self.answer.findings

    @property
    def verified(self) -> Verification | None:
        """The run with the edits, where one was requested."""
        return self.answer.verified

    def patch(self) -> Patch:
        """Return the edits as a unified diff."""
        return self.answer.build_patch()

    def document(self, *, patched: bool = False) -> TuneDocument:
        """Return the answer of ``ttmem tune``; ``patched`` adds the figures of the patch alone."""
        from ttmem.reports.tune import build_document

        answer = self.answer
        return build_document(
            reached=answer.reached,
            before=answer.before,
            after=answer.after,
            steps=answer.steps,
            frontier=answer.frontier,
            findings=answer.findings,
            draft=answer.found.draft,
            verified=answer.verified,
            patch=self.patch(),
            tried=answer.tried,
            proven_smallest=answer.found.proven_smallest,
            programs_doubt=answer.found.programs_doubt,
            patched=answer.compute_patched() if patched else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``ttmem tune --json``."""
        return self.document().to_json()


def tune(
    source: Source,
    *,
    target: str | None = None,
    max_dram: Amount | None = None,
    max_l1: Amount | None = None,
    most: int | None = None,
    verify: bool = False,
    script: str | None = None,
    python: str | None = None,
    ttnn: str | None = None,
    timeout: float | None = None,
    output: int | None = None,
) -> Tuned:
    """Search edits of a captured run, the cheapest kinds first.

    ``target="fits"`` means that nothing runs out of memory, ``max_dram`` and ``max_l1`` are limits as for
    ``ttmem.check``; without a target, the edits that lower the peaks most are returned. ``verify`` runs the script
    again on the mock with the edits made at its calls, for at most ``timeout`` seconds; when it then fails further on,
    the search continues from there; when it ends otherwise than without the edits, an edit is dropped. ``script`` is
    the command line that is run; a file that ``ttmem run`` did not store here does not choose it.
    """
    from ttmem.engines.interpreters import choose_python
    from ttmem.tuning.tuned_run import parse_goal, prove_edits, tune_run

    profile = read(source)
    goal = parse_goal(profile, target, max_dram, max_l1)
    answer = tune_run(profile, goal, most)
    if verify:
        settings = {
            "command": choose_command(source, script, profile),
            "python": choose_python(python, ttnn),
            "output": output,
            "timeout_seconds": timeout,
        }
        answer = prove_edits(answer, goal, most, settings)
    return Tuned(answer)


def choose_command(source: Source, script: str | None, profile: Profile | None = None) -> list[str]:
    """Return the command line that ``verify`` runs: ``script``, else the one of a run that this user captured."""
    from ttmem.profile.model import Profile
    from ttmem.readers.sources import locate
    from ttmem.tuning.verify import find_command

    if script is not None:
        try:
            words = shlex.split(script)
        except ValueError as error:  # a quote that is not closed
            raise BadInputError(f"'{script}' is no command line: {error}", hint=_SCRIPT_HINT) from None
        if not words:
            raise BadInputError("no script was named", hint=_SCRIPT_HINT)
        return words
    words = find_command(profile or read(source))
    if not isinstance(source, Profile):
        located = locate(source)
        if located.stored is None or located.origin != os.path.realpath(words[0]):
            raise BadInputError(
                f"'{source}' was not captured and stored by 'ttmem run' here: it does not choose which script is run",
                hint=f"if this is what you want to run: --script {shlex.quote(shlex.join(words))}",
            )
    return words


@verb("""
ttmem tune block
ttmem tune block --target fits --verify
ttmem tune block --max-l1 70% --patch smaller.diff
ttmem tune block --max-dram 80% --json
""")
@options.source_argument("source")
@click.option("--target", type=click.Choice(["fits"]), help="Nothing runs out of memory.")
@click.option("--max-dram", metavar="LIMIT", help=f"Highest DRAM peak: {_LIMIT}.")
@click.option("--max-l1", metavar="LIMIT", help="Highest L1 peak with what programs need, in the same forms.")
@options.count_option("--most", help="At most N edits (default: 10 without a target, else 24).")
@click.option("--verify", is_flag=True, help="Run the script again on the mock with the edits, and compare.")
@click.option(
    "--script", metavar="COMMAND", help="What --verify runs: the script and its arguments (for a file of other origin)."
)
@click.option("--timeout", type=float, metavar="SECONDS", help="Stop each run of --verify after SECONDS.")
@options.file_option(
    "--patch", "patch_path", place=options.check_product_path, help="Write the edits as a unified diff."
)
@options.file_option("--sarif", "sarif_path", help="Also write the findings as SARIF 2.1.0.")
@options.json_option
@options.python_option()
@options.ttnn_option
@options.output_option
@options.quiet_option
def command(
    source: str,
    verify: bool,
    script: str | None,
    patch_path: Path | None,
    sarif_path: Path | None,
    as_json: bool,
    output: Path | None,
    quiet: bool,
    **settings: Any,
) -> int:
    """Find the smallest set of edits that brings SOURCE, a run captured by 'ttmem run', to a target.

    Cheap edits come first: freeing at the last use, writing in place, unused regions, L1 or DRAM, narrower
    data types, parts. Exit 1 when the target is not reached. Without a target: the edits that lower the peaks most.
    Nothing is written but the patch, whose paths are relative to the current folder ('git apply', 'patch -p1').
    """
    from ttmem.base.formatting import flatten_text
    from ttmem.reports.tune import render_sarif, render_terminal

    protect_sources(source, outputs=(output, patch_path, sarif_path))
    if verify:
        script = shlex.join(choose_command(source, script))
        note(flatten_text(f"--verify runs: {script}"))
    found = tune(source, verify=verify, script=script, output=stderr_descriptor(), **settings)
    answer = found.document(patched=patch_path is not None)
    if patch_path is not None:
        _write_patch(found.patch(), patch_path, quiet=quiet)
    if sarif_path is not None:
        name = found.answer.history.profile.source.name
        emit(render_sarif([(one, name) for one in found.findings]), sarif_path)
        note(f"wrote {sarif_path}", quiet=quiet)
    emit(json_text(answer.to_json()) if as_json else render_terminal(answer, **looks(output)), output)
    return 0 if found.reached else 1


def _write_patch(patch: Patch, path: Path, *, quiet: bool) -> None:
    from ttmem.base.atomic_files import write_bytes

    if patch.text:
        write_bytes(path, patch.text.encode())  # a carriage return of the source is part of its lines
        note(f"wrote {path}", quiet=quiet)
    else:
        note(f"{path} was not written: no edit can be part of a patch", quiet=quiet)
    for edit in patch.left_out:
        note(f"not in the patch ({patch.hunks[edit].why_not}); edit by hand: {edit}", quiet=quiet)
