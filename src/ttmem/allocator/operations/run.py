# SPDX-License-Identifier: Apache-2.0
"""Carries a plan out on a device: the same order of allocations, checks and frees as the library's."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ttmem.allocator.device import Buffer, Device
from ttmem.allocator.failures import DeviceFailureError
from ttmem.allocator.operations.plan import Allocate, Call, Free, Launch, Plan
from ttmem.allocator.operations.table import plan_call
from ttmem.hardware import L1
from ttmem.tensors import InvalidSpecError, round_up


@dataclass(frozen=True, slots=True)
class Result:
    """What an operation left behind, and how high it reached meanwhile."""

    plan: Plan
    buffer: Buffer | None
    """None: the operation has no rule."""
    shares_input: bool
    """The result is a view: freeing it frees the input."""
    peak_l1_bytes_per_bank: int
    """Tensors in L1 at the worst moment of the operation, without static buffers."""
    static_bytes_per_core: int
    """Largest static part of its programs; at least this much when the plan is bounded."""


class ProgramCache:
    """Buffers that cached programs keep on the device until the cache is cleared."""

    def __init__(self) -> None:
        self._buffers: dict[Hashable, Buffer] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._buffers

    def keep(self, key: Hashable, buffer: Buffer) -> None:
        self._buffers[key] = buffer

    def drop(self, key: Hashable, device: Device) -> None:
        device.free(self._buffers.pop(key))

    def clear(self, device: Device) -> None:
        for buffer in self._buffers.values():
            device.free(buffer)
        self._buffers.clear()


def run_call(device: Device, call: Call, inputs: Sequence[Buffer], cache: ProgramCache) -> Result:
    """Run an operation; on failure everything it allocated is given back and the failure is raised."""
    plan = plan_call(call, device.memory_map)
    if plan.result is None or plan.result_spec is None:
        return Result(plan, None, False, 0, 0)
    slots: dict[int, Buffer] = {}
    cached: list[Hashable] = []
    static = 0
    peak = device.view(L1).allocated_bytes_per_bank
    try:
        for step in plan.steps:
            if isinstance(step, Allocate):
                if step.cache_key is None:
                    slots[step.slot] = device.allocate(step.spec)
                elif step.cache_key not in cache:
                    cache.keep(step.cache_key, device.allocate(step.spec))
                    cached.append(step.cache_key)
                peak = max(peak, device.view(L1).allocated_bytes_per_bank)
            elif isinstance(step, Free):
                device.free(slots.pop(step.slot))
            else:
                static = max(static, _launch(device, step))
                cached.clear()
    except (DeviceFailureError, InvalidSpecError):
        for buffer in slots.values():
            device.free(buffer)
        for key in cached:  # a program that was never launched is not cached
            cache.drop(key, device)
        raise
    shares = plan.result < 0
    buffer = inputs[-plan.result - 1] if shares else slots[plan.result]
    return Result(plan, buffer, shares, peak, static)


def _launch(device: Device, launch: Launch) -> int:
    base = device.memory_map.l1_base_address
    end = base
    for size in launch.buffer_bytes:
        end = round_up(end, device.memory_map.quantum_bytes) + size
    if launch.buffer_bytes:
        device.check_region(end, launch.family)
    return end - base
