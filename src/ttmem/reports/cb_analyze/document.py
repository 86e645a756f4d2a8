# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem cb analyze --json`` says: the documents of its parts and what they say of each other."""

from collections import Counter

from ttmem.circular_buffers.analyze import Analysis, cross_checks
from ttmem.circular_buffers.scan import Scan
from ttmem.circular_buffers.simulate import critical_points
from ttmem.reports.cb_profile import document as cb_profile
from ttmem.reports.cb_scan import document as cb_scan
from ttmem.reports.cb_simulate import document as cb_simulate
from ttmem.reports.kit.documents import Document


class ScannedSource(Document, frozen=True):
    """One file or folder of C++ code."""

    name: str
    strategies: dict[str, int]
    known_bytes: int
    open_sizes: int
    scan: cb_scan.CbScan


class CbAnalysis(Document, frozen=True, tag_field="schema", tag="ttmem.cb-analysis/1"):
    """Prediction, source code and evidence beside each other."""

    cross_checks: tuple[str, ...]
    simulation: cb_simulate.CbSimulation | None
    sources: tuple[ScannedSource, ...]
    evidence: tuple[cb_profile.CbProfile, ...]


def document(analysis: Analysis, *, multi: bool) -> CbAnalysis:
    """All parts that there are."""
    simulation = None
    if multi:
        simulation = cb_simulate.multi(analysis.simulations, critical_points(analysis.simulations))
    elif analysis.simulations:
        simulation = cb_simulate.single(analysis.simulations[0], analysis.curves)
    return CbAnalysis.of(
        analysis,
        cross_checks=cross_checks(analysis),
        simulation=simulation,
        sources=[scanned(found) for found in analysis.sources],
        evidence=[cb_profile.document(evidence) for evidence in analysis.evidence],
    )


def scanned(found: Scan) -> ScannedSource:
    """What a scan found; sizes that are borrowed take no memory of their own and are not summed."""
    scan = cb_scan.document(found)
    own = [one.total_bytes for one in scan.declarations if not one.borrowed]
    return ScannedSource(
        name=found.path,
        strategies=Counter(one.strategy for one in scan.declarations),
        known_bytes=sum(size for size in own if size is not None),
        open_sizes=own.count(None),
        scan=scan,
    )
