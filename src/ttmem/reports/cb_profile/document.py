# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem cb profile --json`` says: a contract, keys may be added."""

from __future__ import annotations

from typing import Any

from ttmem.capture_nodes.programs import CapturedProgram
from ttmem.circular_buffers.evidence import INSTEAD, Evidence
from ttmem.evidence.profiler_csv import ProfilerFacts
from ttmem.evidence.watcher import WatcherFacts
from ttmem.reports.cb_simulate.document import COMPUTED, MEASURED

SCHEMA = "ttmem.cb-profile/1"


def document(evidence: Evidence) -> dict[str, Any]:
    """One source; a part that it cannot have is null."""
    log = evidence.log
    return {
        "schema": SCHEMA,
        "source": {
            "name": evidence.name,
            "kind": evidence.kind,
            "lines": log.lines if log else None,
            "debug_lines": log.debug_lines if log else None,
        },
        "verdict": evidence.verdict,
        "has_events": evidence.has_events,
        "has_facts": evidence.has_facts,
        "facts": {kind: [{"line": fact.line, **fact.values} for fact in facts] for kind, facts in log.facts.items()}
        if log
        else {},
        "fact_counts": dict(log.counts) if log else {},
        "events": {
            f"cb{index}": {
                "pages": seen.pages,
                "highest_held_pages": seen.highest_held,
                "left_pages": seen.left_pages,
                "cycles": [seen.first_cycle or 0, seen.last_cycle],
            }
            for index, seen in sorted(log.events.items())
        }
        if log
        else {},
        "failures": [
            {"class": one.failure_class, "message": one.message, "numbers": dict(one.numbers), "line": one.line}
            for one in evidence.failures
        ],
        "watcher": _watcher(evidence.watcher) if evidence.watcher else None,
        "measured_stall": _stall(evidence.profiler) if evidence.profiler else None,
        "programs": [_program(program) for program in evidence.programs],
        "peak_bytes_per_core": max((program.bytes_per_core for program in evidence.programs), default=None),
        "profile_peak": {
            "operation": evidence.peak.operation,
            "parts": dict(evidence.peak.parts),
            "unmeasured_operations": evidence.peak.unmeasured_operations,
        }
        if evidence.peak
        else None,
        "capture_instead": [] if evidence.has_events else list(INSTEAD),
    }


def _watcher(found: WatcherFacts) -> dict[str, Any]:
    return {
        "dumps": found.dumps,
        "cores": len(found.cores),
        "stuck": [
            {
                "device": core.device,
                "core": [core.x, core.y],
                "line": core.line,
                "processors": dict(core.stuck),
                "held_pages": {f"cb{held.index}": held.pages for held in core.held},
                "story": found.story(core),
            }
            for core in found.stuck_cores
        ],
        "overflow_lines": list(found.overflow_lines),
    }


def _stall(found: ProfilerFacts) -> dict[str, Any]:
    overall = found.stall_percent
    return {
        "origin": MEASURED,
        "rows": found.rows,
        "has_columns": found.has_columns,
        "stall_percent": None if overall is None else round(overall, 2),
        "operations": [
            {
                "name": row.name,
                "line": row.line,
                "duration_ns": row.duration_ns,
                "wait_front_ns": row.wait_front_ns,
                "reserve_back_ns": row.reserve_back_ns,
                "cores": row.cores,
                "stall_percent": None if row.stall_percent is None else round(row.stall_percent, 2),
            }
            for row in found.measured
        ],
    }


def _program(program: CapturedProgram) -> dict[str, Any]:
    return {
        "operation": program.operation,
        "origin": COMPUTED,
        "bytes_per_core": program.bytes_per_core,
        "end_address": program.end_address,
        "margin_bytes": program.margin_bytes,
        "buffers": [
            {
                "kind": buffer.kind,
                "bytes": buffer.bytes_per_core,
                "borrowed": buffer.borrowed,
                "address": buffer.address or None,
                "cores": sum(one.cores for one in buffer.ranges),
            }
            for buffer in program.buffers
        ],
    }
