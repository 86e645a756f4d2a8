# SPDX-License-Identifier: Apache-2.0
"""``ttmem cb profile``: Report what a log, capture or profiler table holds about circular buffers."""

import sys
from pathlib import Path

from ttmem.commands.options import json_option, output_option, quiet_option, refuse_overwriting, source_argument
from ttmem.commands.cb._options import collect
from ttmem.commands.output import color_wanted, columns, emit, json_text
from ttmem.commands.command_line import verb

_EXAMPLES = """
ttmem cb profile debug.log
ttmem cb profile capture.json --json
ttmem cb profile generated/watcher/watcher.log
ttmem cb profile ops_perf_results.csv
"""


@verb(_EXAMPLES)
@source_argument("source")
@json_option
@output_option
@quiet_option
def command(source: str, as_json: bool, output: Path | None, quiet: bool) -> None:
    """Report what SOURCE holds about circular buffers, and what it does not.

    SOURCE is a graph capture, a log of the program, a watcher log, the device profiler's table of operations (CSV), a
    ttnn-visualizer report or a stored profile. The runtime itself logs no allocation, reserve, push or pop of a
    circular buffer; where a log has nothing, the answer names what to capture instead.
    """
    from ttmem.readers import sources as _sources
    from ttmem.reports.cb_profile import document as cb_profile_document
    from ttmem.reports.cb_profile import terminal as cb_profile_terminal

    refuse_overwriting(_sources.locate(source).path, output)
    evidence = collect(source, quiet=quiet)
    if as_json:
        answer = json_text(cb_profile_document.document(evidence))
    else:
        color = output is None and color_wanted(sys.stdout)
        answer = cb_profile_terminal.render(evidence, width=columns(), color=color)
    emit(answer, output)
