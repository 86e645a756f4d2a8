# SPDX-License-Identifier: Apache-2.0
"""Carries a plan out on a device: the same order of allocations, checks and frees as the library's."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ttmem.allocator.device import Buffer, Device
from ttmem.allocator.failures import DeviceFailureError
from ttmem.allocator.operations.plan import Call, Free, Launch, Plan
from ttmem.allocator.operations.registry import plan_call
from ttmem.allocator.programs import CIRCULAR, end_of_stack
from ttmem.hardware import L1
from ttmem.tensors import InvalidSpecError


@dataclass(frozen=True, slots=True)
class Result:
    """What an operation left behind, and how high it reached meanwhile."""

    plan: Plan
    buffer: Buffer | None
    """None: the operation has no rule."""
    peak_l1_bytes_per_bank: int
    """Tensors in L1 at the worst moment of the operation, without static buffers."""
    static_bytes_per_core: int
    """Largest static part of its programs; at least this much when the plan is bounded."""
    l1_parts: tuple[int, int, int]
    """Bytes per core at the worst moment: tensors, circular buffers, dataflow buffers."""


class ProgramCache:
    """Buffers that cached programs keep on the device until the cache is cleared."""

    def __init__(self, other: ProgramCache | None = None) -> None:
        """Empty, or with what the other one holds."""
        self._buffers: dict[Hashable, Buffer] = dict(other._buffers) if other else {}

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


def run_call(
    device: Device, call: Call, inputs: Sequence[Buffer], cache: ProgramCache, target: Buffer | None = None
) -> Result:
    """Run an operation; on failure everything it allocated is given back and the failure is raised.

    ``target`` takes the result in place of a new buffer.
    """
    plan = plan_call(call, device.memory_map)
    if plan.result is None or plan.result_spec is None:
        return Result(plan, None, 0, 0, (0, 0, 0))
    slots: dict[int, Buffer] = {}
    cached: list[Hashable] = []
    base, static = device.memory_map.l1_base_address, 0
    tensors = peak = device.allocated_bytes_per_bank(L1)
    worst = (peak, 0, 0)
    try:
        for step in plan.steps:
            if isinstance(step, Launch):
                if step.buffer_bytes:
                    end = end_of_stack(step.buffer_bytes, device.memory_map)
                    device.check_region(end, step.family)
                    static = max(static, end - base)
                    if tensors + end - base > sum(worst):
                        worst = (tensors, end - base, 0) if step.family == CIRCULAR else (tensors, 0, end - base)
                cached.clear()
                continue
            if isinstance(step, Free):
                device.free(slots.pop(step.slot))
            elif step.cache_key is not None:
                if step.cache_key not in cache:
                    cache.keep(step.cache_key, device.allocate(step.spec))
                    cached.append(step.cache_key)
            elif target is None or step.slot != plan.result:
                slots[step.slot] = device.allocate(step.spec)
            tensors = device.allocated_bytes_per_bank(L1)
            peak = max(peak, tensors)
    except (DeviceFailureError, InvalidSpecError):
        for buffer in slots.values():
            device.free(buffer)
        for key in cached:  # a program that was never launched is not cached
            cache.drop(key, device)
        raise
    if peak > sum(worst):
        worst = (peak, 0, 0)
    # A view: freeing the result frees the input.
    result = target or (inputs[-plan.result - 1] if plan.result < 0 else slots[plan.result])
    return Result(plan, result, peak, static, worst)
