# SPDX-License-Identifier: Apache-2.0
"""The files that the store keeps of a profile: three data files, the page, and the whole profile.

The data files hold columns with dictionaries, not one object per operation: half a million operations stay small and
load at once.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec

from ttmem.base.text_safety import encode_json
from ttmem.profile import profile_file
from ttmem.profile.model import MEMORIES, STATE_NAMES, Profile
from ttmem.profile.operation_forms import Int64, OperationForms
from ttmem.reports.profile import html, sentences
from ttmem.reports.profile.analyses import analyses
from ttmem.reports.test.document import SuiteRun

_VIEW_COLUMNS = ("banks", *(f"{figure}_bytes_per_bank" for figure in ("total", "allocated", "free", "largest_free")))
"""As the columns of ``Profile.views`` stand."""
_TYPE_FACTS = ("shape", "dtype", "layout", "memory", "placement", "logical_bytes", "padded_bytes")
_PROGRAM_FACTS = ("name", "parent", "run", "caller", "first_operation", "end_operation", "finished", "line")


def files(profile: Profile, tests: SuiteRun | None = None) -> Iterator[tuple[str, bytes]]:
    """(file name after ``<name>_``, content); ``tests`` are those of a suite."""
    yield "memory.json", encode_json(memory_document(profile))
    yield "operations.json", encode_json(operations_document(profile))
    yield "inputs_registry.json", encode_json(inputs_document(profile))
    if tests is not None:
        yield "tests.json", encode_json(tests)
    yield "report.html", html.render(profile, tests=tests).encode("utf-8", "replace")
    yield "profile.ttmem", profile_file.to_bytes(profile)


def facts(profile: Profile) -> dict[str, object]:
    """Return the facts that a listing of the store shows."""
    known = analyses(profile)
    peaks = [(memory.lower(), known.peaks.get(memory)) for memory in ("DRAM", "L1")]
    return {
        "kind": profile.source.kind,
        "operations_executed": sum(len(timeline) for timeline in profile.timelines),
        **{f"peak_{memory}_bytes_per_bank": peak and peak.peak_bytes_per_bank for memory, peak in peaks},
        **{f"peak_{memory}_percent": peak and peak.peak_percent for memory, peak in peaks},
        "status": sentences.status_text(known),
    }


def memory_document(profile: Profile) -> dict[str, Any]:
    """Per process, one column per fact about a memory state; each memory's column points into ``views`` (-1: none)."""
    return {
        "schema": "ttmem.memory/1",
        "name": profile.name,
        "states": list(STATE_NAMES),
        "state_error_bytes": profile.source.state_error_bytes,
        "views": {name: profile.views[:, column].tolist() for column, name in enumerate(_VIEW_COLUMNS)},
        "processes": [
            {
                "rank": timeline.rank,
                "state": timeline.state_kind.tolist(),
                "operation": timeline.state_operation.tolist(),
                "caused_by": timeline.state_cause.tolist(),
                "line": timeline.state_line.tolist(),
                **{memory: timeline.state_view[:, column].tolist() for column, memory in enumerate(MEMORIES)},
            }
            for timeline in profile.timelines
        ],
    }


def operations_document(profile: Profile) -> dict[str, Any]:
    """Per process, one column per fact about an operation; ``form`` points into the distinct operation texts."""
    return {
        "schema": "ttmem.operations/1",
        "name": profile.name,
        "tensor_types": [_attributes(item, _TYPE_FACTS) for item in profile.tensor_types],
        "forms": _forms(profile.forms),
        "processes": [
            {
                "rank": timeline.rank,
                "first_index": timeline.first_index,
                "form": timeline.form.tolist(),
                "line": timeline.line.tolist(),
                "program": timeline.program.tolist(),
                "retained": sorted(timeline.retained),
                "programs": [_attributes(program, _PROGRAM_FACTS) for program in timeline.programs],
            }
            for timeline in profile.timelines
        ],
    }


def inputs_document(profile: Profile) -> dict[str, Any]:
    """Every argument of every graph, as the module dumps name them."""
    arguments: list[dict[str, Any]] = [msgspec.to_builtins(argument) for argument in profile.arguments]
    for argument in arguments:
        if argument["device_bytes"] is None:  # a module dump has types alone
            del argument["device_bytes"]
    return {"schema": "ttmem.inputs/1", "name": profile.name, "arguments": arguments}


def _attributes(item: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


def _forms(forms: OperationForms) -> dict[str, Any]:
    """Distinct operations: names and types as numbers into their dictionaries, SSA names as ``results=operands``."""
    locations: dict[str, int] = {}
    location = [locations.setdefault(text, len(locations)) for text in _slices(forms.location_pool, forms.location_end)]
    return {
        "names": list(forms.names),
        "name": forms.name.tolist(),
        "locations": list(locations),
        "location": location,
        "values": _slices(forms.ssa_pool, forms.ssa_end),
        "signatures": [{"operands": operands, "results": results} for operands, results in forms.signatures],
        "signature": forms.signature.tolist(),
    }


def _slices(pool: bytes, ends: Int64) -> list[str]:
    """The texts of a pool; one decoding for all of them where every character is one byte."""
    bounds = [0, *ends.tolist()]
    if pool.isascii():
        text = pool.decode("ascii")
        return [text[start:end] for start, end in pairwise(bounds)]
    return [pool[start:end].decode("utf-8", "replace") for start, end in pairwise(bounds)]
