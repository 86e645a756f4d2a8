# SPDX-License-Identifier: Apache-2.0
"""``ttmem check``: Whether a profile stays within a memory budget, for CI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ttmem.commands._options import (
    jobs_option,
    one_of,
    output_option,
    quiet_option,
    refuse_overwriting,
    source_argument,
    writable_place,
)
from ttmem.commands._output import emit, json_text, note
from ttmem.commands._runner import verb

if TYPE_CHECKING:
    from ttmem.analysis.budget import Limits

_EXAMPLES = """
ttmem check run.log
ttmem check run.log --max-dram 80% --max-l1 1.2MiB --junit memory.xml
ttmem check run.log --baseline nightly --max-growth 2%
ttmem check run.log --github
"""
_LIMIT = "80%, 0.8, or bytes per bank such as 700MiB"


@verb("check", examples=_EXAMPLES)
@source_argument("source")
@click.option("--max-dram", metavar="LIMIT", help=f"Highest DRAM peak: {_LIMIT}.")
@click.option("--max-l1", metavar="LIMIT", help="Highest L1 peak, in the same forms.")
@click.option(
    "--max-padding", metavar="LIMIT", help="Most padding among the tensors alive at the DRAM peak: 20% or bytes."
)
@click.option("--baseline", metavar="SOURCE", help="Compare the peaks with this source.")
@click.option("--max-growth", metavar="LIMIT", help="How much a peak may exceed the baseline's (default 2%).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--github", "as_github", is_flag=True, help="GitHub annotations.")
@click.option("--junit", callback=writable_place, metavar="FILE", help="Also write JUnit XML.")
@click.option("--sarif", callback=writable_place, metavar="FILE", help="Also write SARIF 2.1.0.")
@output_option
@jobs_option
@quiet_option
def command(
    source: str,
    max_dram: str | None,
    max_l1: str | None,
    max_padding: str | None,
    baseline: str | None,
    max_growth: str | None,
    as_json: bool,
    as_github: bool,
    junit: Path | None,
    sarif: Path | None,
    output: Path | None,
    jobs: int | None,
    quiet: bool,
) -> int:
    """Whether SOURCE stays within a memory budget: exit 0 when every limit holds, 1 when one does not.

    Without any limit the usual targets hold: DRAM at most 80% of a bank, L1 at most 90%. A run that failed is over
    budget whatever its peaks say. SOURCE is read as by 'ttmem profile'; nothing is stored.
    """
    from ttmem.analysis import budget
    from ttmem.commands import _reading
    from ttmem.library import sources as _sources
    from ttmem.reports.check import document as budget_document
    from ttmem.reports.check import github
    from ttmem.reports.check import junit as junit_report
    from ttmem.reports.check import sarif as sarif_report
    from ttmem.reports.check import terminal as budget_terminal

    if max_growth is not None and baseline is None:
        raise click.UsageError("--max-growth needs --baseline SOURCE")
    form = one_of(json=as_json, github=as_github)
    limits = _limits(
        {"DRAM": max_dram, "L1": max_l1}, padding=max_padding, growth=max_growth, compared=baseline is not None
    )
    for read_from in filter(None, (source, baseline)):
        refuse_overwriting(_sources.locate(read_from).path, output, junit, sarif)
    profile = _reading.read(source, jobs=jobs, quiet=quiet)
    reference = _reading.read(baseline, jobs=jobs, quiet=quiet) if baseline is not None else None
    verdicts = budget.check(profile, limits, reference)
    for path, report in ((junit, junit_report), (sarif, sarif_report)):
        if path:
            emit(report.render(verdicts, profile.source.name), path)
            note(f"wrote {path}", quiet=quiet)
    if form == "json":
        answer = json_text(budget_document.document(verdicts))
    elif form == "github":
        answer = github.render(verdicts, profile.source.name)
    else:
        answer = budget_terminal.render(verdicts)
    emit(answer, output)
    return 0 if all(verdict.ok for verdict in verdicts) else 1


def _limits(peaks: Mapping[str, str | None], *, padding: str | None, growth: str | None, compared: bool) -> Limits:
    from ttmem.analysis.budget import DEFAULT_LIMITS, PERCENT, Limits, parse_limit

    memories = {memory: parse_limit(text) for memory, text in peaks.items() if text is not None}
    if not memories and padding is None and not compared:
        return DEFAULT_LIMITS
    return Limits(
        memories=memories,
        padding=parse_limit(padding, bare_unit=PERCENT) if padding is not None else None,
        growth=parse_limit(growth) if growth is not None else None,
    )
