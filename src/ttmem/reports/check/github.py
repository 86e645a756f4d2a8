# SPDX-License-Identifier: Apache-2.0
"""Verdicts as GitHub workflow commands: annotations on the job, one line each."""

from collections.abc import Sequence

from ttmem.analysis.budget import Verdict
from ttmem.reports.kit.units import one_line


def render(verdicts: Sequence[Verdict], source_name: str) -> str:
    """An error for each broken limit; what holds needs nobody's attention."""
    commands = ""
    for verdict in verdicts:
        if verdict.ok:
            continue
        place = f"file={_property(source_name)},line={verdict.line or 1},title={_property(f'ttmem {verdict.rule}')}"
        commands += f"::error {place}::{_data(one_line(verdict.message))}\n"
    return commands


def _data(text: str) -> str:
    """The escapes that the runner undoes; without them a log could write commands of its own."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
