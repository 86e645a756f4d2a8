# SPDX-License-Identifier: Apache-2.0
"""``ttmem test``: Run a ttnn test suite on a mock board, with the peak memory of every test."""

import sys
from typing import Any

import click

from ttmem.commands._child import PASSING_CONTEXT, PassingThrough, passing_signals
from ttmem.commands._options import mock_or_card_options, no_programs_option, python_option, ttnn_option
from ttmem.commands._output import emit, json_text, note
from ttmem.commands._runner import verb

_EXAMPLES = """
ttmem test tests/ttnn/unit_tests --board n150
ttmem test test_block.py -k attention -x --board p150
ttmem test test_block.py --json
"""


@verb(_EXAMPLES, cls=PassingThrough, context=PASSING_CONTEXT)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PATH [PYTEST ARGS]...")
@mock_or_card_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document; pytest's own output goes to stderr.")
@python_option("ttnn and pytest")
@ttnn_option
@click.option("--timeout", type=float, metavar="SECONDS", help="End pytest and what it started after so long.")
@click.option(
    "--test-timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="End a test that does nothing for so long (default 300).",
)
@click.option("--values", is_flag=True, help="Keep value comparisons on, although a mock board computes nothing.")
@no_programs_option
def command(arguments: tuple[str, ...], as_json: bool, no_programs: bool, **settings: Any) -> int:
    """Run a pytest suite of ttnn programs on a mock board and tell the peak memory of every test.

    The fixtures device and mesh_device are there unless the suite has its own; @pytest.mark.ttmem(max_l1="90%",
    max_dram="700MiB") limits a test. A test that crashes or hangs costs itself alone. Nothing is computed on a mock, so
    comparisons of values are skipped and counted. The exit status is pytest's; 125 means that ttmem itself failed. The
    same without ttmem around it, where all share one environment: pytest --ttmem-board n150.
    """
    import ttmem

    printed = sys.stderr.fileno() if as_json else None
    suite = ttmem.test(arguments, programs=not no_programs, output=printed, **settings, **passing_signals())
    if suite.timed_out:
        note("pytest ran out of time")
    if as_json:
        emit(json_text(suite.to_json()), None)
    return suite.status
