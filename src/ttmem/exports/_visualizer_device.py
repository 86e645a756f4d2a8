# SPDX-License-Identifier: Apache-2.0
"""The device of a profile as ttnn-visualizer describes devices."""

from __future__ import annotations

from ttmem.analysis.architecture import architecture_of
from ttmem.analysis.states import bank_size
from ttmem.hardware import BOARDS, Architecture, Grid
from ttmem.profile import Profile, Timeline


def device_row(profile: Profile, timeline: Timeline) -> dict[str, int]:
    """The columns of the table ``devices``; 0 where the profile does not know.

    Totals are those that the library itself computes: all compute cores, no storage cores.
    """
    chip = architecture_of(profile)
    banks, l1_bank = bank_size(profile, timeline, "L1")
    _, small = bank_size(profile, timeline, "L1_SMALL")
    grid = _grid(chip, banks)
    cores = grid.cores if grid else banks
    whole = chip.l1_bytes_per_core
    base = max(0, whole - l1_bank - small) if l1_bank else 0
    return {
        "device_id": 0,
        "num_y_cores": grid.rows if grid else 0,
        "num_x_cores": grid.columns if grid else 0,
        "num_y_compute_cores": grid.rows if grid else 0,
        "num_x_compute_cores": grid.columns if grid else 0,
        "worker_l1_size": whole,
        "l1_num_banks": banks,
        "l1_bank_size": l1_bank,
        "address_at_first_l1_bank": 0,
        "address_at_first_l1_cb_buffer": base,
        "num_banks_per_storage_core": 1 if l1_bank else 0,
        "num_compute_cores": cores,
        "num_storage_cores": 0,
        "total_l1_memory": cores * whole,
        "total_l1_for_tensors": 0,
        "total_l1_for_interleaved_buffers": cores * l1_bank,
        "total_l1_for_sharded_buffers": cores * l1_bank,
        "cb_limit": whole - base,
    }


def grid_of_timeline(profile: Profile, timeline: Timeline) -> Grid | None:
    """The compute cores of the machine, if its banks tell."""
    return _grid(architecture_of(profile), bank_size(profile, timeline, "L1")[0])


def _grid(chip: Architecture, cores: int) -> Grid | None:
    """The grid of the first board of that chip with so many cores; boards with as many have the same grid."""
    grids = (grid for board in BOARDS if board.architecture is chip for _, grid in board.grids)
    return next((grid for grid in grids if grid.cores == cores), None)
