# SPDX-License-Identifier: Apache-2.0
"""The three data files kept with every report: memory states, operations, inputs.

Columns with dictionaries, not one object per operation: half a million operations stay small and load at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec

from ttmem.profile import (
    BLOCK_NAMES,
    MEMORIES,
    VIEW_ALLOCATED,
    VIEW_BANKS,
    VIEW_FREE,
    VIEW_LARGEST_FREE,
    VIEW_TOTAL,
    OperationForms,
    Profile,
)
from ttmem.profile.operation_forms import Int64

_VIEW_COLUMNS = (
    ("banks", VIEW_BANKS),
    ("total_bytes_per_bank", VIEW_TOTAL),
    ("allocated_bytes_per_bank", VIEW_ALLOCATED),
    ("free_bytes_per_bank", VIEW_FREE),
    ("largest_free_bytes_per_bank", VIEW_LARGEST_FREE),
)


def files(profile: Profile) -> Iterator[tuple[str, bytes]]:
    """(file name after ``<name>_``, content)."""
    encoder = msgspec.json.Encoder()
    yield "memory.json", encoder.encode(memory_document(profile))
    yield "operations.json", encoder.encode(operations_document(profile))
    yield "inputs_registry.json", encoder.encode(inputs_document(profile))


def memory_document(profile: Profile) -> dict[str, Any]:
    """Per process, one column per fact about a memory state; each memory's column points into ``views`` (-1: none)."""
    return {
        "schema": "ttmem.memory/1",
        "name": profile.name,
        "states": list(BLOCK_NAMES),
        "state_error_bytes": profile.source.state_error_bytes,
        "views": {name: profile.views[:, column].tolist() for name, column in _VIEW_COLUMNS},
        "processes": [
            {
                "rank": timeline.rank,
                "state": timeline.block_kind.tolist(),
                "operation": timeline.block_operation.tolist(),
                "caused_by": timeline.block_cause.tolist(),
                "line": timeline.block_line.tolist(),
                **{memory: timeline.block_view[:, column].tolist() for column, memory in enumerate(MEMORIES)},
            }
            for timeline in profile.timelines
        ],
    }


def operations_document(profile: Profile) -> dict[str, Any]:
    """Per process, one column per fact about an operation; ``form`` points into the distinct operation texts."""
    return {
        "schema": "ttmem.operations/1",
        "name": profile.name,
        "tensor_types": [
            {
                "shape": list(item.shape),
                "dtype": item.dtype,
                "layout": item.layout,
                "memory": item.memory,
                "placement": item.placement,
                "logical_bytes": item.logical_bytes,
                "padded_bytes": item.padded_bytes,
            }
            for item in profile.tensor_types
        ],
        "forms": _forms(profile.forms),
        "processes": [
            {
                "rank": timeline.rank,
                "first_index": timeline.first_index,
                "form": timeline.form.tolist(),
                "line": timeline.line.tolist(),
                "program": timeline.program.tolist(),
                "retained": sorted(timeline.retained),
                "programs": [
                    {
                        "name": program.name,
                        "parent": program.parent,
                        "run": program.run,
                        "caller": program.caller,
                        "first_operation": program.first_operation,
                        "end_operation": program.end_operation,
                        "finished": program.finished,
                        "line": program.line,
                    }
                    for program in timeline.programs
                ],
            }
            for timeline in profile.timelines
        ],
    }


def inputs_document(profile: Profile) -> dict[str, Any]:
    """Every argument of every graph, as the module dumps name them."""
    return {
        "schema": "ttmem.inputs/1",
        "name": profile.name,
        "arguments": [
            {
                "graph": argument.graph,
                "position": argument.position,
                "name": argument.name,
                "shape": list(argument.shape),
                "dtype": argument.dtype,
                "kind": argument.kind,
                "bytes": argument.bytes,
                "on_device": argument.on_device,
                "kv_cache": argument.kv_cache,
            }
            for argument in profile.arguments
        ],
    }


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
        "signatures": [
            {"operands": list(operands), "results": list(results)} for operands, results in forms.signatures
        ],
        "signature": forms.signature.tolist(),
    }


def _slices(pool: bytes, ends: Int64) -> list[str]:
    """The texts of a pool; one decoding for all of them where every character is one byte."""
    bounds = [0, *ends.tolist()]
    if pool.isascii():
        text = pool.decode("ascii")
        return [text[start:end] for start, end in pairwise(bounds)]
    return [pool[start:end].decode("utf-8", "replace") for start, end in pairwise(bounds)]
