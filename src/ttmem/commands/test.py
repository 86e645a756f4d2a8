# SPDX-License-Identifier: Apache-2.0
"""``ttmem test``: Run a ttnn test suite on a mock board and report the peak memory of every test."""

from pathlib import Path
from typing import Any

import click

from ttmem.commands import options
from ttmem.commands.user_program import PASSING_CONTEXT, PassingThrough, passing_signals
from ttmem.commands.output import emit, json_text, looks, note, stderr_descriptor, warn
from ttmem.commands.command_line import verb

_EXAMPLES = """
ttmem test tests/ttnn/unit_tests --board n150
ttmem test test_block.py -k attention -x --board p150
ttmem test test_block.py --json
ttmem test tests --name nightly --max-dram 80% --max-l1 90%
ttmem test tests --fail-on leak,late-free:10MB --sarif memory.sarif
ttmem test tests --baseline nightly --max-growth 2% --junit memory.xml --html memory.html
"""


@verb(_EXAMPLES, cls=PassingThrough, context=PASSING_CONTEXT)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PATH [PYTEST ARGS]...")
@options.mock_or_card_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document; pytest's own output goes to stderr.")
@options.peak_limit_options
@options.baseline_options
@click.option(
    "--fail-on",
    metavar="KIND[:BYTES],..",
    help="Exit 1 on leaks and waste: leak,late-free:10MB (bytes per bank).",
)
@options.file_option(
    "--sarif", "sarif_path", help="Also write leaks and waste (or what --fail-on names) as SARIF 2.1.0."
)
@options.file_option("--junit", help="Also write JUnit XML, with every test's memory as properties.")
@options.file_option("--html", "html_path", help="Also write the report as one offline page.")
@click.option("--name", metavar="NAME", help="Call the report NAME (default: after PATH).")
@options.no_store_option
@options.python_option("ttnn and pytest")
@options.ttnn_option
@click.option("--timeout", type=float, metavar="SECONDS", help="Stop pytest and its child processes after SECONDS.")
@click.option(
    "--test-timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Stop a test after SECONDS without an operation (default 300).",
)
@options.values_option
@options.no_programs_option
def command(
    arguments: tuple[str, ...],
    as_json: bool,
    sarif_path: Path | None,
    junit: Path | None,
    html_path: Path | None,
    name: str | None,
    no_store: bool,
    no_programs: bool,
    **settings: Any,
) -> int:
    """Run a pytest suite of ttnn programs on a mock board and report the peak memory of every test.

    The fixtures device and mesh_device are there unless the suite has its own; @pytest.mark.ttmem(max_l1="90%",
    max_dram="700MiB") limits a test, --max-l1 and --max-dram limit all. A test that crashes or hangs costs itself
    alone. A mock computes no values: once a test has read some, known comparisons succeed and are counted, and an
    assertion of its own that fails is not judged. Every test is a run of the stored report: 'ttmem profile NAME --run
    N' shows one. The exit status is pytest's, or 1 when a test outgrew the baseline; 125 means that ttmem itself
    failed. Where all share one environment, 'pytest --ttmem-board n150' does the same.
    """
    import ttmem
    from ttmem.commands.library.test import Suite
    from ttmem.profile import store
    from ttmem.reports.test import terminal

    if settings["max_growth"] is not None and settings["baseline"] is None:
        raise click.UsageError("--max-growth needs --baseline SOURCE")
    options.refuse_overwriting("-", junit, html_path, sarif_path)
    if name is not None:
        name = store.check_name(name)
    printed = stderr_descriptor() if as_json else None
    suite: Suite = ttmem.test(
        arguments, name=name, programs=not no_programs, output=printed, **settings, **passing_signals()
    )
    if suite.timed_out:
        note("pytest ran out of time")
    if junit:
        from ttmem.reports.test import junit as junit_report

        emit(junit_report.render(suite.document), junit)
    if sarif_path:
        from ttmem.reports.tune import sarif

        emit(sarif.render([(one, one.test.partition("::")[0]) for one in suite.findings()]), sarif_path)
    if html_path:
        from ttmem.reports.profile import html

        emit(html.render(suite.profile, tests=suite.document), html_path)
    if settings["baseline"] is not None and name is None and not no_store:
        note("not stored, so that the baseline stays what it is; --name NAME keeps this run")
        no_store = True
    kept = None if no_store else _keep(suite, arguments, name)
    table = terminal.render(suite.document, **looks())
    emit(json_text(suite.to_json()) if as_json else table, None)
    note(table, quiet=not as_json)
    for path in filter(None, (junit, html_path, sarif_path)):
        note(f"wrote {path}")
    if kept is not None:
        note(f"stored as '{kept.name}' in {kept.folder}")
        fullest = next((test.run for test in suite.tests if test.run is not None), None)
        note(f"next: ttmem profile {kept.name} --run {fullest}")
    elif suite.is_empty and not no_store:
        note("nothing was recorded, so nothing was stored")
    return suite.status


def _keep(suite: Any, arguments: tuple[str, ...], name: str | None) -> Any:
    """A home that cannot be written to costs the copy, not the answer."""
    from ttmem.base.errors import TtmemError

    try:
        return suite.keep(arguments, name=name)
    except (OSError, TtmemError) as error:
        warn(f"the report was not stored: {error}; TTMEM_HOME says where, --no-store switches it off")
        return None
