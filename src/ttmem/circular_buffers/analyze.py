# SPDX-License-Identifier: Apache-2.0
"""``analyze``: prediction, source code and evidence side by side, and whether they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttmem.circular_buffers.facts import Evidence
from ttmem.circular_buffers.kernels import ThroughputCurve
from ttmem.circular_buffers.simulate import CRITICAL_LOSS_PERCENT, Simulation, critical_points
from ttmem.circular_buffers.strategies import choose
from ttmem.circular_buffers.workload import Workload
from ttmem.profile import source_facts
from ttmem.profile.source_facts import LogFacts

if TYPE_CHECKING:
    from ttmem.circular_buffers.scan.scanning import Scan


@dataclass(frozen=True, slots=True)
class Analysis:
    """The parts of an analysis; each may be empty."""

    simulations: tuple[Simulation, ...] = ()
    curves: tuple[ThroughputCurve, ...] = ()
    sources: tuple[Scan, ...] = ()
    evidence: tuple[Evidence, ...] = ()


def cross_checks(analysis: Analysis) -> list[str]:
    """Return sentences on how the parts confirm or contradict each other."""
    lines: list[str] = []
    for evidence in analysis.evidence:
        lines += _compare_stalls(evidence, analysis.simulations)
        if evidence.log is not None:
            lines += _tiles_against_strategies(evidence.log)
            lines += _base_against_map(evidence.log, analysis.simulations)
            lines += _wrong_results(evidence.log)
    if len(analysis.simulations) > 1:
        lines += _critical(analysis.simulations)
    return lines


def _compare_stalls(evidence: Evidence, simulations: Sequence[Simulation]) -> list[str]:
    measured = evidence.profiler.stall_percent if evidence.profiler else None
    if measured is None:
        return []
    lines = []
    for simulation in simulations:
        for name, result in simulation.results.items():
            low, high = result.stall.stall_percent
            verdict = "inside" if low <= measured <= high else "outside"
            lines.append(
                f"measured stall {measured:.1f} % of {evidence.name} is {verdict} the range predicted for {name} at "
                f"{simulation.workload} ({low:.1f}-{high:.1f} %), which says something only if that ran there"
            )
    return lines


def _tiles_against_strategies(log: LogFacts) -> list[str]:
    """Find the rule that explains the tiles that a program printed for its workload."""
    workloads = log.get_facts(source_facts.WORKLOAD)
    lines = []
    for fact in log.get_facts(source_facts.PROGRAM_BUFFERS)[:1] if workloads else ():
        tiles = {name: int(fact.values[name]) for name in ("cb0", "cb1")}
        shard = max(1, int(workloads[0].values["tiles_per_shard"]))
        every = max(1, int(workloads[0].values["num_tiles"]))
        matching = [
            f"{strategy.name} with {r_tiles} B tiles"
            for r_tiles in dict.fromkeys((shard, every))
            for strategy in choose("all")
            if {name: strategy.tiles_for(Workload(shard, r_tiles), 4096)[name] for name in tiles} == tiles
        ]
        stated = f"line {fact.line} says cb0={tiles['cb0']} cb1={tiles['cb1']} for {shard} tiles per shard"
        lines.append(
            f"{stated}: as {' or '.join(matching)}" if matching else f"{stated}: none of the built-in strategies"
        )
    return lines


def _base_against_map(log: LogFacts, simulations: Sequence[Simulation]) -> list[str]:
    lines = []
    for fact in log.get_facts(source_facts.L1_MAP)[:1] if simulations else ():
        printed, assumed = int(fact.values["l1_base_address"]), simulations[0].assumptions.memory_map
        relation = "as" if printed == assumed.l1_base_address else "not"
        lines.append(
            f"line {fact.line}: the L1 base is {printed:,}, {relation} assumed for {assumed.board_name} with "
            f"{assumed.source} ({assumed.l1_base_address:,})"
        )
    return lines


def _wrong_results(log: LogFacts) -> list[str]:
    """Wrong numbers are no sign of pressure: a full buffer blocks its producer, it loses nothing."""
    advice = (
        "Shallow buffers slow a program down, they do not change its numbers; look for pushes before the barrier "
        "(R12), steps that do not divide the capacity (R2) and wrong tile counts in the kernels' arguments"
    )
    return [
        f"line {fact.line}: {int(fact.values['checked']) - int(fact.values['passed']):,} wrong results. {advice}"
        for fact in log.get_facts(source_facts.VERIFICATION)
        if int(fact.values["passed"]) < int(fact.values["checked"])
    ]


def _critical(simulations: Sequence[Simulation]) -> list[str]:
    never = [name for name, point in critical_points(simulations).items() if point.by_guide and not point.by_simulation]
    if not never:
        return []
    line = (
        f"{', '.join(never)}: the guide calls the risk HIGH, but at no workload of the table would deeper buffers save "
        f"more than {CRITICAL_LOSS_PERCENT:g} % of the time (simulated)"
    )
    return [line]
