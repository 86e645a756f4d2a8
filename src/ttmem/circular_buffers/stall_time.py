# SPDX-License-Identifier: Apache-2.0
"""Stall time of the compute kernel: its share, the cause, and the gain of deeper buffers."""

from collections.abc import Mapping
from dataclasses import dataclass

from ttmem.circular_buffers.kernels import COMPUTE, limit_workload, pairs, run_kernels, unlimited_depths
from ttmem.circular_buffers.pipeline import RESERVE, WAIT, PipelineRun
from ttmem.circular_buffers.workload import Assumptions, Scenario, Workload

DEADLOCK, SERIALISED, START_UP = "deadlock", "serialised", "start-up"
READER_BOUND, WRITER_BOUND, COMPUTE_BOUND = "reader-bound", "writer-bound", "compute-bound"

_LITTLE_PERCENT = 5.0
_WITHIN_PERCENT = 2.0


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Fill level of a buffer, in tiles."""

    mean_tiles: float
    highest_tiles: int


@dataclass(frozen=True, slots=True)
class Stall:
    """A prediction: ranges run over everything that is assumed and not known (``Assumptions.scenarios``)."""

    stall_percent: tuple[float, float]
    """Compute's waiting, of the whole time. 100 when the program hangs."""
    depth_loss_percent: tuple[float, float]
    """What unlimited depth would save of the time: the part of the stall that buffers can do anything about."""
    cycles_per_pair: tuple[float, float]
    cause: str
    wait_front_percent: float
    reserve_back_percent: float
    """Compute waiting for data and for room, in the middle of the range and without variation."""
    occupancy: Mapping[str, Occupancy]
    deadlock: tuple[str, ...]
    """Who waits for whom, when the program hangs."""
    simulated: Workload
    """The part of the workload that was simulated."""

    @property
    def pressure_score(self) -> int:
        """0 to 100: the middle of the predicted stall. The guide names such a score but no formula."""
        return round(sum(self.stall_percent) / 2)


class StallPredictor:
    """Predictions for one workload under one set of assumptions; what does not depend on the depths is run once."""

    def __init__(self, workload: Workload, assumptions: Assumptions) -> None:
        self._assumptions = assumptions
        self.part = limit_workload(workload)
        self._scenarios = tuple(assumptions.scenarios())
        self._nominal = Scenario(assumptions.nominal_compute_cycles)
        self._kernels = {one: pairs(self.part, assumptions, one) for one in (*self._scenarios, self._nominal)}
        deepest = unlimited_depths(self.part)
        self._bounds = {one: self._run(deepest, one).makespan_cycles for one in self._kernels}

    def _run(self, tiles: Mapping[str, int], scenario: Scenario) -> PipelineRun:
        return run_kernels(self._kernels[scenario], tiles, self._assumptions)

    def predict(self, tiles: Mapping[str, int]) -> Stall:
        """The stall with these depths."""
        nominal = self._run(tiles, self._nominal)
        stalls, losses, spans = [100.0], [100.0], [float("inf")]
        if not nominal.deadlock:
            runs = [(self._run(tiles, scenario), self._bounds[scenario]) for scenario in self._scenarios]
            stalls = [100 * one.kernels[COMPUTE].stalled_cycles / one.makespan_cycles for one, _ in runs]
            losses = [max(0.0, 100 * (one.makespan_cycles - bound) / one.makespan_cycles) for one, bound in runs]
            spans = [one.makespan_cycles / (self.part.tiles_per_shard * self.part.r_tiles) for one, _ in runs]
        return Stall(
            stall_percent=(min(stalls), max(stalls)),
            depth_loss_percent=(min(losses), max(losses)),
            cycles_per_pair=(min(spans), max(spans)),
            cause=DEADLOCK if nominal.deadlock else self._cause(nominal, tiles),
            wait_front_percent=_share(nominal, WAIT),
            reserve_back_percent=_share(nominal, RESERVE),
            occupancy={
                name: Occupancy(*trace.occupancy(nominal.makespan_cycles)) for name, trace in nominal.buffers.items()
            },
            deadlock=tuple(map(str, nominal.deadlock)),
            simulated=self.part,
        )

    def _cause(self, nominal: PipelineRun, tiles: Mapping[str, int]) -> str:
        compute = nominal.kernels[COMPUTE]
        span = nominal.makespan_cycles
        if 100 * compute.stalled_cycles / span < _LITTLE_PERCENT:
            return COMPUTE_BOUND
        if compute.first_wait_cycles > compute.stalled_cycles / 2:
            return START_UP
        loss_percent = 100 * (span - self._bounds[self._nominal]) / span
        if tiles["cb1"] < 2 * self._assumptions.tiles_per_barrier and loss_percent > _WITHIN_PERCENT:
            return SERIALISED
        return READER_BOUND if _share(nominal, WAIT) >= _share(nominal, RESERVE) else WRITER_BOUND


def _share(run: PipelineRun, kind: str) -> float:
    waits = run.kernels[COMPUTE].waits
    waited = sum(cycles for (what, _), cycles in waits.items() if what == kind)
    return 100 * waited / run.makespan_cycles if run.makespan_cycles else 0.0
