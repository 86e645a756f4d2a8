# SPDX-License-Identifier: Apache-2.0
"""``ttmem check``: Check a profile against a memory budget, for CI."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands import options
from ttmem.commands.command_line import verb
from ttmem.commands.output import emit, json_text, looks, note, progress_bar
from ttmem.commands.profile_answer import protect_sources
from ttmem.commands.read import Progress, Source, read

if TYPE_CHECKING:
    from ttmem.analysis.budget import Amount, Verdict
    from ttmem.analysis.failure import RunEnd


@dataclass(frozen=True, slots=True)
class BudgetCheck:
    """The verdicts, one per limit."""

    verdicts: tuple[Verdict, ...]
    source_name: str
    ended: RunEnd | None = None
    """How the run ended early, if it did; only an end for want of memory is a verdict."""

    @property
    def ok(self) -> bool:
        """True when every limit holds."""
        return all(verdict.ok for verdict in self.verdicts)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``ttmem check --json``."""
        from ttmem.reports.check import CheckDocument
        from ttmem.reports.profile_document import describe_end

        return CheckDocument(ok=self.ok, verdicts=self.verdicts, ended=describe_end(self.ended)).to_json()


def check(
    source: Source,
    *,
    max_dram: Amount | None = None,
    max_l1: Amount | None = None,
    max_padding: Amount | None = None,
    baseline: Source | None = None,
    max_growth: Amount | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> BudgetCheck:
    """Check whether a source stays within a memory budget; a run that ran out of memory never does.

    A run that ended for another reason is checked as far as it ran. Raises ``TtmemError`` where figures
    that could change the answer are missing in a source.

    Limits are shares of a bank (``"80%"``, ``0.8``) or bytes per bank (``"700MiB"``, ``734003200``). ``max_padding`` is
    over the logical bytes alive at the DRAM peak, ``max_growth`` (2 % unless given) over the peaks of ``baseline``.
    Without any limit the usual targets hold: DRAM at most 80 % of a bank, L1 at most 90 %.
    """
    from ttmem.analysis import budget
    from ttmem.analysis.failure import run_end

    amounts = {"DRAM": max_dram, "L1": max_l1}
    peaks = {memory: None if amount is None else budget.parse_limit(amount) for memory, amount in amounts.items()}
    for memory, limit in peaks.items():
        budget.refuse_more_than_a_bank(memory, limit)
    limits = budget.Limits(
        memories={memory: limit for memory, limit in peaks.items() if limit is not None},
        padding=None if max_padding is None else budget.parse_limit(max_padding, bare_unit=budget.PERCENT),
        growth=None if max_growth is None else budget.parse_limit(max_growth),
    )
    if not limits.memories and limits.padding is None and baseline is None:
        limits = budget.DEFAULT_LIMITS
    profile = read(source, jobs=jobs, progress=progress)
    reference = None if baseline is None else read(baseline, jobs=jobs, progress=progress)
    return BudgetCheck(tuple(budget.check(profile, limits, reference)), profile.source.name, run_end(profile))


@verb("""
ttmem check run.log
ttmem check run.log --max-dram 80% --max-l1 1.2MiB --junit memory.xml
ttmem check run.log --baseline nightly --max-growth 2%
ttmem check run.log --github
""")
@options.source_argument("source")
@options.peak_limit_options
@click.option(
    "--max-padding", metavar="LIMIT", help="Most padding among the tensors alive at the DRAM peak: 20% or bytes."
)
@options.baseline_options
@options.json_option
@click.option("--github", "as_github", is_flag=True, help="GitHub annotations.")
@options.file_option("--junit", help="Also write JUnit XML.")
@options.file_option("--sarif", help="Also write SARIF 2.1.0.")
@options.output_option
@options.jobs_option
@options.quiet_option
def command(
    source: str,
    baseline: str | None,
    as_json: bool,
    as_github: bool,
    junit: Path | None,
    sarif: Path | None,
    output: Path | None,
    quiet: bool,
    **limits: Any,
) -> int:
    """Check SOURCE against a memory budget: exit 0 when every limit holds, 1 when one does not.

    Without any limit the usual targets hold: DRAM at most 80% of a bank, L1 at most 90%. L1 includes the use of
    programs where SOURCE has it (captured runs), else its tensors alone; the verdict says which. A run that ran out of
    memory is over budget whatever its peaks; one that ended for another reason is checked as far as it ran. Where
    figures that could change the answer cannot be read, the exit status is 2. SOURCE is read as by 'ttmem profile';
    nothing is stored.
    """
    from ttmem.reports import check as report

    if limits["max_growth"] is not None and baseline is None:
        raise click.UsageError("--max-growth needs --baseline SOURCE")
    form = options.choose_one(json=as_json, github=as_github)
    protect_sources(source, baseline, outputs=(output, junit, sarif))
    with progress_bar(f"reading {' and '.join(filter(None, (source, baseline)))}", quiet=quiet) as progress:
        found = check(source, baseline=baseline, progress=progress, **limits)
    for path, render in ((junit, report.render_junit), (sarif, report.render_sarif)):
        if path:
            emit(render(found.verdicts, found.source_name), path)
            note(f"wrote {path}", quiet=quiet)
    if form == "github":
        emit(report.render_github(found.verdicts, found.source_name), output)
    elif form == "json":
        emit(json_text(found.to_json()), output)
    else:
        emit(report.render_terminal(found.verdicts, found.ended, **looks(output)), output)
    return 0 if found.ok else 1
