# SPDX-License-Identifier: Apache-2.0
"""``ttmem check``: Check a profile against a memory budget, for CI."""

from pathlib import Path
from typing import Any

import click

from ttmem.commands import options
from ttmem.commands.output import emit, json_text, looks, note
from ttmem.commands.command_line import verb


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
    source: str, baseline: str | None, as_json: bool, as_github: bool, output: Path | None, quiet: bool, **limits: Any
) -> int:
    """Check SOURCE against a memory budget: exit 0 when every limit holds, 1 when one does not.

    Without any limit the usual targets hold: DRAM at most 80% of a bank, L1 at most 90%. L1 is judged with what
    programs take where SOURCE knows it (captured runs), else by its tensors alone; the verdict says which. A run that
    ran out of memory is over budget whatever its peaks say; one that ended for another reason is judged by its memory
    as far as it ran. Where figures that could change the answer cannot be read, the exit status is 2. SOURCE is read
    as by 'ttmem profile'; nothing is stored.
    """
    import ttmem
    from ttmem.commands import profile_answer
    from ttmem.commands._progress import progress_bar
    from ttmem.reports.check import github, junit, sarif, terminal

    if limits["max_growth"] is not None and baseline is None:
        raise click.UsageError("--max-growth needs --baseline SOURCE")
    form = options.one_of(json=as_json, github=as_github)
    also = ((limits.pop("junit"), junit), (limits.pop("sarif"), sarif))
    profile_answer.protect(source, baseline, outputs=(output, *(path for path, _ in also)))
    with progress_bar(f"reading {' and '.join(filter(None, (source, baseline)))}", quiet=quiet) as progress:
        found = ttmem.check(source, baseline=baseline, progress=progress, **limits)
    for path, report in also:
        if path:
            emit(report.render(found.verdicts, found.source_name), path)
            note(f"wrote {path}", quiet=quiet)
    if form == "github":
        emit(github.render(found.verdicts, found.source_name), output)
    else:
        emit(
            json_text(found.to_json()) if form else terminal.render(found.verdicts, found.ended, **looks(output)),
            output,
        )
    return 0 if found.ok else 1
