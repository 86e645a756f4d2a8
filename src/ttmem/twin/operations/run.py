# SPDX-License-Identifier: Apache-2.0
"""Runs plans on a device, in the library's order of allocations, checks and frees."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ttmem.hardware import L1
from ttmem.twin.device import Buffer, Device
from ttmem.twin.errors import DeviceFailureError
from ttmem.twin.operations.plan import UNKNOWN, Allocate, Call, Free, KeptSizes, Launch, Plan, Refuse, Step
from ttmem.twin.operations.registry import plan_call
from ttmem.twin.programs import CIRCULAR, compute_stack_end
from ttmem.twin.tensor_spec import InvalidSpecError, TensorSpec


class RefusedError(InvalidSpecError):
    """A refusal of the library in the middle of an operation, with its message."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """The results of an operation and its peak."""

    plan: Plan
    made: tuple[tuple[Buffer, TensorSpec], ...]
    """The results; empty if the operation has no rule."""
    peak_l1_bytes_per_bank: int
    """Tensors in L1 at the peak of the operation, without static buffers."""
    static_bytes_per_core: int
    """Largest static part of its programs; at least this much when the plan is bounded."""
    l1_parts: tuple[int, int, int]
    """Bytes per core at the worst moment: tensors, circular buffers, dataflow buffers."""

    @property
    def buffer(self) -> Buffer | None:
        """The buffer of the first result."""
        return self.made[0][0] if self.made else None


class ProgramCache:
    """Buffers and static sizes that cached programs keep until the cache is cleared."""

    def __init__(self, other: ProgramCache | None = None) -> None:
        """Create an empty cache or a copy of another."""
        self._buffers: dict[Hashable, Buffer] = dict(other._buffers) if other else {}
        self.static_bytes: dict[Hashable, KeptSizes] = dict(other.static_bytes) if other else {}
        """The `Launch.kept` sizes by program."""

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
        self.static_bytes.clear()


def run_call(
    device: Device,
    call: Call,
    inputs: Sequence[Buffer],
    cache: ProgramCache,
    target: Buffer | None = None,
    plan: Plan | None = None,
    release: Callable[[Buffer], None] | None = None,
) -> CallResult:
    """Run an operation; on failure free everything that it allocated and raise the failure.

    ``target`` receives the result instead of a new buffer; ``plan`` is the call's plan on this device; ``release``
    frees an input that the operation consumes, for callers that track them.
    """
    plan = plan or plan_on_device(device, call, cache)
    if plan.confidence == UNKNOWN:
        return CallResult(plan, (), 0, 0, (0, 0, 0))
    slots: dict[int, Buffer] = {}
    cached: list[Hashable] = []
    result_slot = plan.results[0][0] if plan.results else None
    base, static = device.memory_map.l1_base_address, 0
    tensors = peak = device.get_allocated_bytes_per_bank(L1)
    worst = (peak, 0, 0)
    try:
        for step in plan.steps:
            if isinstance(step, Launch):
                if step.buffer_bytes:
                    for group in step.groups:
                        device.check_region(compute_stack_end(group, device.memory_map), step.family)
                    end = compute_stack_end(step.buffer_bytes, device.memory_map)
                    device.check_region(end, step.family)
                    static = max(static, end - base)
                    if tensors + end - base > sum(worst):
                        worst = (tensors, end - base, 0) if step.family == CIRCULAR else (tensors, 0, end - base)
                if step.kept is not None:
                    program, groups = step.kept
                    cache.static_bytes[program] = groups
                cached.clear()
                continue
            if isinstance(step, Refuse):
                raise RefusedError(step.message)
            if isinstance(step, Free) and step.slot < 0:
                (release or device.free)(inputs[-step.slot - 1])
            elif isinstance(step, Free):
                device.free(slots.pop(step.slot))
            elif step.cache_key is not None:
                if step.cache_key not in cache:
                    cache.keep(step.cache_key, device.allocate(step.spec))
                    cached.append(step.cache_key)
            elif target is None or step.slot != result_slot:
                slots[step.slot] = device.allocate(step.spec)
            tensors = device.get_allocated_bytes_per_bank(L1)
            peak = max(peak, tensors)
    except (DeviceFailureError, InvalidSpecError):
        for buffer in slots.values():
            device.free(buffer)
        for key in cached:  # a program that was never launched is not cached
            cache.drop(key, device)
        raise
    if peak >= sum(worst):
        worst = (peak, 0, 0)
    made = tuple(
        # A tensor that is written in place keeps its spec, whatever the operation would have created.
        (target, replace(target.placement.spec, shape=spec.shape))
        if target and slot == result_slot
        # A negative slot is a view: freeing the result frees the input.
        else (inputs[-slot - 1] if slot < 0 else slots[slot], spec)
        for slot, spec in plan.results
    )
    return CallResult(plan, made, peak, static, worst)


def plan_on_device(device: Device, call: Call, cache: ProgramCache) -> Plan:
    """Return the plan of a call on the device in its current state."""
    lowest = partial(_lowest_l1_address, device, cache)
    return plan_call(call, device.memory_map, lowest, device.get_allocated_bytes_per_bank(L1), cache.static_bytes)


def _lowest_l1_address(device: Device, cache: ProgramCache, steps: Sequence[Step]) -> int | None:
    """Return the address of the lowest L1 tensor after these steps; the device does not change."""
    if not any(isinstance(step, Allocate) and step.spec.memory is L1 for step in steps):
        return device.lowest_l1_address
    with device.preserve_state():
        slots: dict[int, Buffer] = {}
        made: set[Hashable] = set()
        for step in steps:
            if isinstance(step, Free):
                if step.slot > 0:
                    device.free(slots.pop(step.slot))
            elif isinstance(step, Allocate) and (
                step.cache_key is None or not (step.cache_key in cache or step.cache_key in made)
            ):
                made.add(step.cache_key)
                # Not the device's own method, which may record allocations.
                slots[step.slot] = Device.allocate_placed(device, device.place(step.spec))
        return device.lowest_l1_address
