# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem cb simulate --json`` says: a contract, keys may be added."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ttmem.circular_buffers.assumptions import SEEDS, VARIATIONS, Assumptions
from ttmem.circular_buffers.depths import TOLERANCE_PERCENT, Curve, Recommendation
from ttmem.circular_buffers.l1_use import L1Use
from ttmem.circular_buffers.pressure import score_band
from ttmem.circular_buffers.simulate import CRITICAL_LOSS_PERCENT, Critical, Simulation, StrategyResult
from ttmem.circular_buffers.workload import Workload

SCHEMA = "ttmem.cb-simulate/1"

COMPUTED, SIMULATED, HEURISTIC, MEASURED = "computed", "simulated", "heuristic", "measured"

ORIGINS = {
    "tiles": COMPUTED,
    "bytes": COMPUTED,
    "l1": COMPUTED,
    "miss_rate_percent": HEURISTIC,
    "risk": HEURISTIC,
    "utilisation_percent": HEURISTIC,
    "stall_percent": SIMULATED,
    "depth_loss_percent": SIMULATED,
    "pressure_score": SIMULATED,
    "cycles_per_pair": SIMULATED,
    "memory_efficiency_percent": SIMULATED,
}
"""How each figure came to be; nothing of a simulation is measured on a card except the latencies it is fed with."""


def single(simulation: Simulation, curves: Sequence[Curve] = ()) -> dict[str, Any]:
    """One workload."""
    found = {"schema": SCHEMA, **_workload(simulation), "assumptions": assumptions(simulation.assumptions)}
    return {**found, "origins": ORIGINS, "throughput_over_depth": [_curve(curve) for curve in curves]}


def multi(simulations: Sequence[Simulation], critical: Mapping[str, Critical]) -> dict[str, Any]:
    """The scaling table."""
    return {
        "schema": SCHEMA,
        "workloads": [_workload(simulation) for simulation in simulations],
        "critical": {
            name: {
                "by_guide": _place(point.by_guide),
                "by_simulation": _place(point.by_simulation),
                "loss_percent": CRITICAL_LOSS_PERCENT,
            }
            for name, point in critical.items()
        },
        "assumptions": assumptions(simulations[0].assumptions) if simulations else {},
        "origins": ORIGINS,
    }


def assumptions(machine: Assumptions) -> dict[str, Any]:
    """Everything that the simulated figures rest on."""
    return {
        "board": machine.memory_map.board_name,
        "architecture": machine.architecture.name,
        "release": str(machine.memory_map.source),
        "dtype": machine.data_type.name,
        "tile_bytes": machine.tile_bytes,
        "tiles_per_barrier": machine.tiles_per_barrier,
        "cores": machine.cores,
        "compute_cycles_per_pair": list(machine.compute_cycles),
        "sync_cycles": machine.sync_cycles,
        "variation_of_transfer_times": list(VARIATIONS),
        "seeds": list(SEEDS),
        "read_cycles": round(machine.transfer_cycles("read", machine.tiles_per_barrier), 1),
        "write_cycles": round(machine.transfer_cycles("write", 1), 1),
        "origin": {
            "read_cycles": "measured on one core and on all (tt-metal noc_latencies.yaml), interpolated",
            "compute_cycles_per_pair": "assumed",
            "sync_cycles": "assumed",
            "variation_of_transfer_times": "assumed",
        },
    }


def _workload(simulation: Simulation) -> dict[str, Any]:
    workload = simulation.workload
    return {
        "workload": {**_tiles(workload), "class": workload.class_name},
        "strategies": {name: _strategy(result) for name, result in simulation.results.items()},
        "recommendation": _recommendation(simulation.best),
        "choices": [_recommendation(choice) for choice in simulation.recommendations],
    }


def _strategy(result: StrategyResult) -> dict[str, Any]:
    stall, guess = result.stall, result.heuristic
    return {
        "tiles": dict(result.tiles),
        "bytes": result.total_bytes,
        "miss_rate_percent": round(guess.miss_rate_percent, 2),
        "pressure_score": stall.pressure_score,
        "pressure_band": score_band(stall.pressure_score),
        "risk": guess.risk,
        "utilisation_percent": round(guess.utilisation_percent, 2),
        "stall_percent": _range(stall.stall_percent),
        "depth_loss_percent": _range(stall.depth_loss_percent),
        "cause": stall.cause,
        "cycles_per_pair": None if math.isinf(stall.cycles_per_pair[1]) else _range(stall.cycles_per_pair),
        "wait_front_percent": round(stall.wait_front_percent, 2),
        "reserve_back_percent": round(stall.reserve_back_percent, 2),
        "occupancy": {
            name: {"mean_tiles": round(held.mean_tiles, 2), "highest_tiles": held.highest_tiles}
            for name, held in stall.occupancy.items()
        },
        "memory_efficiency_percent": _rounded(result.memory_efficiency_percent),
        "deadlock": list(stall.deadlock),
        "broken_rules": list(result.broken_rules),
        "simulated": _tiles(stall.simulated),
        "l1": _l1(result.l1),
    }


def _l1(use: L1Use) -> dict[str, Any]:
    return {
        "base_address": use.base_address,
        "region_end_address": use.region_end_address,
        "free_bytes_before": use.free_bytes_before,
        "used_percent": round(use.used_percent, 2),
        "fits": use.failure is None,
        "failure": use.failure,
        "kernel_config": {
            "ring_bytes": use.kernel_config_bytes,
            "buffer_config_bytes": use.buffer_config_bytes,
            "kernel_bytes": use.kernel_bytes,
            "used_percent": round(use.kernel_config_percent, 2),
            "fits": use.kernels_fit,
        },
        "index_gaps": len(use.gap_indices),
    }


def _recommendation(choice: Recommendation) -> dict[str, Any]:
    return {
        "tiles_per_barrier": choice.tiles_per_barrier,
        "tiles": dict(choice.tiles),
        "bytes": choice.total_bytes,
        "cycles_per_pair": _range(choice.cycles_per_pair),
        "loss_percent": round(choice.loss_percent, 2),
        "within_percent": TOLERANCE_PERCENT,
        "reaches_bound": choice.reaches_bound,
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "tiles_per_barrier": curve.tiles_per_barrier,
        "depth_tiles": [point.depth_tiles for point in curve.points],
        "tiles_per_kilocycle": [_range(point.tiles_per_kilocycle, 3) for point in curve.points],
    }


def _tiles(workload: Workload) -> dict[str, int]:
    return {"tiles_per_shard": workload.tiles_per_shard, "r_tiles": workload.r_tiles}


def _place(workload: Workload | None) -> dict[str, int] | None:
    return None if workload is None else _tiles(workload)


def _range(bounds: tuple[float, float], decimals: int = 2) -> list[float]:
    return [round(bounds[0], decimals), round(bounds[1], decimals)]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
