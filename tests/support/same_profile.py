# SPDX-License-Identifier: Apache-2.0
"""Everything that a profile says, in a form that can be compared: numbers of tables resolved to what they mean.

How a log is cut into pieces may change in which order tables are filled, and must change nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ttmem.profile.model import Profile, Timeline
from ttmem.readers.runtime_log._lexer import Lexer
from ttmem.readers.runtime_log.reader import build_profile
from ttmem.readers.wrappings import LineSplitter


def meaning(profile: Profile) -> dict[str, Any]:
    """All of the profile but the name of its source."""
    return {
        "source": replace(profile.source, name=""),
        "facts": profile.facts,
        "arguments": profile.arguments,
        "timelines": [_timeline(profile, timeline) for timeline in profile.timelines],
    }


def _timeline(profile: Profile, timeline: Timeline) -> dict[str, Any]:
    return {
        "rank": timeline.rank,
        "first_index": timeline.first_index,
        "operations": [_operation(profile, int(form)) for form in timeline.form],
        "line": timeline.line.tolist(),
        "program": timeline.program.tolist(),
        "state_kind": timeline.state_kind.tolist(),
        "state_operation": timeline.state_operation.tolist(),
        "state_cause": timeline.state_cause.tolist(),
        "state_view": [
            [profile.views[view].tolist() if view >= 0 else None for view in row] for row in timeline.state_view
        ],
        "state_line": timeline.state_line.tolist(),
        "programs": timeline.programs,
        "lookups": timeline.lookups,
        "retained": timeline.retained,
        "failures": timeline.failures,
    }


def _operation(profile: Profile, number: int) -> tuple[Any, ...]:
    form = profile.forms[number]
    types = [
        [profile.tensor_types[number] if number >= 0 else None for number in numbers]
        for numbers in (form.operand_types, form.result_types)
    ]
    return (
        form.name,
        form.results,
        form.operands,
        types,
        profile.forms.location(number),
        form.callee,
        form.frees_input,
    )


def profile_in_chunks(chunks: Iterable[bytes]) -> Profile:
    """The profile of a log that arrives in these pieces."""
    lexer, splitter = Lexer(), LineSplitter()
    for chunk in chunks:
        lexer.byte_count += len(chunk)
        lexer.feed(splitter.split(chunk))
    lexer.feed(splitter.rest())
    return build_profile(lexer.finish(), name="run", where="run.log")
