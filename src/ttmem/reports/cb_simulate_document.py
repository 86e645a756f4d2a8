# SPDX-License-Identifier: Apache-2.0
"""The JSON document of ``ttmem cb simulate``."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from ttmem.circular_buffers import kernels, simulate
from ttmem.circular_buffers import workload as assumed
from ttmem.circular_buffers.l1_use import L1Use, score_band
from ttmem.circular_buffers.stall_time import Occupancy
from ttmem.circular_buffers.workload import Workload
from ttmem.reports.kit.documents import UNSET, Document, UnsetType, round_floats

COMPUTED, SIMULATED, HEURISTIC, MEASURED = "computed", "simulated", "heuristic", "measured"

_SIMULATED = ("stall_percent", "depth_loss_percent", "pressure_score", "cycles_per_pair", "memory_efficiency_percent")
ORIGINS = {
    **dict.fromkeys(("tiles", "bytes", "l1"), COMPUTED),
    **dict.fromkeys(("miss_rate_percent", "risk", "utilisation_percent"), HEURISTIC),
    **dict.fromkeys(_SIMULATED, SIMULATED),
}
"""The origin of each figure. Only the latencies of a simulation's input are measured on a card."""

_ORIGINS_OF_ASSUMPTIONS = {
    "read_cycles": "measured on one core and on all (tt-metal noc_latencies.yaml), interpolated",
    "compute_cycles_per_pair": "assumed",
    "sync_cycles": "assumed",
    "variation_of_transfer_times": "assumed",
}

Range = tuple[float, float]


class ClassedWorkload(Document, frozen=True):
    """A job and the guide's class for it."""

    tiles_per_shard: int
    r_tiles: int
    class_name: str = msgspec.field(name="class")


class KernelConfig(Document, frozen=True):
    """The ring that holds kernel binaries and buffer configurations."""

    kernel_config_bytes: int = msgspec.field(name="ring_bytes")
    buffer_config_bytes: int
    kernel_bytes: int | None
    kernel_config_percent: float = msgspec.field(name="used_percent")
    kernels_fit: bool | None = msgspec.field(name="fits")
    """null: the size of the binaries is not known."""


class L1(Document, frozen=True):
    """The location of the buffers in L1."""

    base_address: int
    region_end_address: int
    free_bytes_before: int
    used_percent: float
    fits: bool
    failure: str | None
    """In the library's words."""
    kernel_config: KernelConfig
    index_gaps: int


class StrategyRow(Document, frozen=True):
    """The result of one strategy; a pair is a range over the assumptions."""

    tiles: Mapping[str, int]
    total_bytes: int = msgspec.field(name="bytes")
    miss_rate_percent: float
    pressure_score: int
    pressure_band: str
    risk: str
    utilisation_percent: float
    stall_percent: Range
    """Share of its time that the compute kernel waits."""
    depth_loss_percent: Range
    """Share of the time that unlimited depth would save."""
    cause: str
    cycles_per_pair: Range | None
    """null: it hangs."""
    wait_front_percent: float
    reserve_back_percent: float
    occupancy: Mapping[str, Occupancy]
    memory_efficiency_percent: float | None
    deadlock: Sequence[str]
    broken_rules: Sequence[str]
    simulated: Workload
    l1: L1


class DepthChoice(Document, frozen=True):
    """Depths worth their L1."""

    tiles_per_barrier: int
    tiles: Mapping[str, int]
    total_bytes: int = msgspec.field(name="bytes")
    cycles_per_pair: Range
    loss_percent: float
    within_percent: float
    reaches_bound: bool


class SimulatedWorkload(Document, frozen=True):
    """A workload with its strategies and choices."""

    workload: ClassedWorkload
    strategies: Mapping[str, StrategyRow]
    recommendation: DepthChoice
    choices: Sequence[DepthChoice]


class CriticalRow(Document, frozen=True):
    """The first workload at which a strategy is under high pressure."""

    by_guide: Workload | None
    by_simulation: Workload | None
    loss_percent: float


class AssumptionsDocument(Document, frozen=True):
    """The assumptions of the simulated figures."""

    board: str
    architecture: str
    release: str
    dtype: str
    tile_bytes: int
    tiles_per_barrier: int
    cores: int
    compute_cycles: Range = msgspec.field(name="compute_cycles_per_pair")
    sync_cycles: float
    variation_of_transfer_times: Sequence[float]
    seeds: Sequence[int]
    read_cycles: float
    write_cycles: float
    origin: Mapping[str, str]


class CbSimulation(Document, frozen=True, kw_only=True, tag_field="schema", tag="ttmem.cb-simulate/1"):
    """A workload, or with ``--multi`` several under ``workloads``."""

    workload: ClassedWorkload | UnsetType = UNSET
    strategies: Mapping[str, StrategyRow] | UnsetType = UNSET
    recommendation: DepthChoice | UnsetType = UNSET
    choices: Sequence[DepthChoice] | UnsetType = UNSET
    workloads: Sequence[SimulatedWorkload] | UnsetType = UNSET
    critical: Mapping[str, CriticalRow] | UnsetType = UNSET
    assumptions: AssumptionsDocument
    origins: Mapping[str, str]
    """The origin of each figure: computed, simulated or heuristic."""
    throughput_over_depth: Sequence[kernels.ThroughputCurve] | UnsetType = UNSET


def build_single(simulation: simulate.Simulation, curves: Sequence[kernels.ThroughputCurve] = ()) -> CbSimulation:
    """Build the document of one workload."""
    return CbSimulation(
        workload=_describe_workload(simulation).workload,
        strategies=_describe_workload(simulation).strategies,
        recommendation=_describe_workload(simulation).recommendation,
        choices=_describe_workload(simulation).choices,
        assumptions=_describe_assumptions(simulation.assumptions),
        origins=ORIGINS,
        throughput_over_depth=[
            replace(curve, tiles_per_kilocycle=tuple(round_floats(rates, 3) for rates in curve.tiles_per_kilocycle))
            for curve in curves
        ],
    )


def build_multi(simulations: Sequence[simulate.Simulation], critical: Mapping[str, simulate.Critical]) -> CbSimulation:
    """Build the document of several workloads, at least one."""
    return CbSimulation(
        workloads=[_describe_workload(simulation) for simulation in simulations],
        critical={
            name: CriticalRow(
                by_guide=point.by_guide, by_simulation=point.by_simulation, loss_percent=simulate.CRITICAL_LOSS_PERCENT
            )
            for name, point in critical.items()
        },
        assumptions=_describe_assumptions(simulations[0].assumptions),
        origins=ORIGINS,
    )


def _describe_assumptions(given: assumed.Assumptions) -> AssumptionsDocument:
    return AssumptionsDocument(
        board=given.memory_map.board_name,
        architecture=given.architecture.name,
        release=str(given.memory_map.source),
        dtype=given.data_type.name,
        tile_bytes=given.tile_bytes,
        tiles_per_barrier=given.tiles_per_barrier,
        cores=given.cores,
        compute_cycles=given.compute_cycles,
        sync_cycles=given.sync_cycles,
        variation_of_transfer_times=assumed.VARIATIONS,
        seeds=assumed.SEEDS,
        read_cycles=round(given.transfer_cycles("read", given.tiles_per_barrier), 1),
        write_cycles=round(given.transfer_cycles("write", 1), 1),
        origin=_ORIGINS_OF_ASSUMPTIONS,
    )


def _describe_workload(simulation: simulate.Simulation) -> SimulatedWorkload:
    return SimulatedWorkload(
        workload=ClassedWorkload(
            tiles_per_shard=simulation.workload.tiles_per_shard,
            r_tiles=simulation.workload.r_tiles,
            class_name=simulation.workload.class_name,
        ),
        strategies={name: _describe_strategy(result) for name, result in simulation.results.items()},
        recommendation=_describe_choice(simulation.best),
        choices=[_describe_choice(choice) for choice in simulation.recommendations],
    )


def _describe_strategy(result: simulate.StrategyResult) -> StrategyRow:
    stall = result.stall
    return StrategyRow(
        tiles=result.tiles,
        total_bytes=result.total_bytes,
        miss_rate_percent=round(result.heuristic.miss_rate_percent, 2),
        pressure_score=stall.pressure_score,
        pressure_band=score_band(stall.pressure_score),
        risk=result.heuristic.risk,
        utilisation_percent=round(result.heuristic.utilisation_percent, 2),
        stall_percent=round_floats(stall.stall_percent, 2),
        depth_loss_percent=round_floats(stall.depth_loss_percent, 2),
        cause=stall.cause,
        cycles_per_pair=None if math.isinf(stall.cycles_per_pair[1]) else round_floats(stall.cycles_per_pair),
        wait_front_percent=round(stall.wait_front_percent, 2),
        reserve_back_percent=round(stall.reserve_back_percent, 2),
        occupancy={
            name: Occupancy(round(held.mean_tiles, 2), held.highest_tiles) for name, held in stall.occupancy.items()
        },
        memory_efficiency_percent=round_floats(result.memory_efficiency_percent, 2),
        deadlock=stall.deadlock,
        broken_rules=result.broken_rules,
        simulated=stall.simulated,
        l1=_describe_l1(result.l1),
    )


def _describe_l1(use: L1Use) -> L1:
    return L1(
        base_address=use.base_address,
        region_end_address=use.region_end_address,
        free_bytes_before=use.free_bytes_before,
        used_percent=round(use.used_percent, 2),
        fits=use.failure is None,
        failure=use.failure,
        kernel_config=KernelConfig(
            kernel_config_bytes=use.kernel_config_bytes,
            buffer_config_bytes=use.buffer_config_bytes,
            kernel_bytes=use.kernel_bytes,
            kernel_config_percent=round(use.kernel_config_percent, 2),
            kernels_fit=use.kernels_fit,
        ),
        index_gaps=len(use.gap_indices),
    )


def _describe_choice(choice: kernels.Recommendation) -> DepthChoice:
    return DepthChoice(
        tiles_per_barrier=choice.tiles_per_barrier,
        tiles=choice.tiles,
        total_bytes=choice.total_bytes,
        cycles_per_pair=round_floats(choice.cycles_per_pair, 2),
        loss_percent=round(choice.loss_percent, 2),
        within_percent=kernels.TOLERANCE_PERCENT,
        reaches_bound=choice.reaches_bound,
    )
