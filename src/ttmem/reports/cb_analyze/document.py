# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem cb analyze --json`` says: the documents of its parts and what they say of each other."""

from __future__ import annotations

from typing import Any

from ttmem.circular_buffers.analyze import Analysis, cross_checks
from ttmem.circular_buffers.simulate import critical_points
from ttmem.reports.cb_profile import document as cb_profile_document
from ttmem.reports.cb_simulate import document as cb_document

SCHEMA = "ttmem.cb-analysis/1"


def document(analysis: Analysis, *, multi: bool) -> dict[str, Any]:
    """``simulation`` is a document of ``cb simulate``, ``sources`` of ``cb scan``, ``evidence`` of ``cb profile``."""
    simulation: dict[str, Any] | None = None
    if multi:
        simulation = cb_document.multi(analysis.simulations, critical_points(analysis.simulations))
    elif analysis.simulations:
        simulation = cb_document.single(analysis.simulations[0], analysis.curves)
    return {
        "schema": SCHEMA,
        "cross_checks": cross_checks(analysis),
        "simulation": simulation,
        "sources": [
            {
                "name": source.name,
                "strategies": dict(source.by_strategy),
                "known_bytes": source.known_bytes,
                "open_sizes": source.open_sizes,
                "scan": source.document,
            }
            for source in analysis.sources
        ],
        "evidence": [cb_profile_document.document(evidence) for evidence in analysis.evidence],
    }
