# SPDX-License-Identifier: Apache-2.0
"""Compute what programs need in L1 for changed inputs, from the twin's records of operations.

A capture does not keep a call's plain arguments. So a record is believed where it gives, for the tensors that were
there, exactly the static buffers and temporaries that were captured; then it is asked again with those of the draft.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

from ttmem.base.errors import TtmemError
from ttmem.hardware import L1 as L1_RECORD
from ttmem.hardware import MEMORIES as MEMORY_RECORDS
from ttmem.hardware import Memory, MemoryMap
from ttmem.profile.model import GIVEN, MEMORIES
from ttmem.profile.tensor_type import TensorType
from ttmem.tuning.captured_run import CapturedRun, remember
from ttmem.tuning.chunking import find_temporaries
from ttmem.tuning.edited_run import Change, EditedBuffer, EditedRun, list_captured_buffers, read_spec, start_edits
from ttmem.tuning.replay import L1AtLaunch, replay
from ttmem.twin.operations import EXACT, RECORDS, Allocate, Call, Launch, Plan, plan_call
from ttmem.twin.operations.plan import Step
from ttmem.twin.placement import place
from ttmem.twin.programs import compute_stack_end
from ttmem.twin.tensor_spec import TensorSpec

_MAKERS = frozenset({"from_torch", "as_tensor", "to_device", "allocate_tensor_on_device", "deallocate", "to_torch"})
_DATA_TYPES = ("bfloat16", "float32", "bfloat8_b")
_MEMORIES = ("DRAM", "L1")
"""What is tried for a result that is not known."""


def update_programs(draft: EditedRun) -> tuple[EditedRun, str]:
    """Update what programs need; return the run and why that is uncertain (empty if it is not)."""
    run = draft.history
    touched = _find_touched(draft)
    doubt = _describe_unfinished_doubt(run)
    if not touched:
        return draft, doubt
    if draft.memory_map is None or draft.memory_map.board_name != run.memory_map.board_name:
        return draft, "what programs need on another board is taken as it was"
    before = replay(start_edits(run)).l1_at_launch
    after = replay(draft).l1_at_launch
    static: dict[int, tuple[int, ...]] = {}
    change: dict[int, EditedBuffer] = {}
    for index in sorted(touched):
        captured = _index_static_bytes(run).get(index)
        if not captured:
            continue
        is_same = not touched[index]
        if is_same and (before.get(index) == after.get(index) or not _is_sized_by_space(run, index)):
            continue
        found = _recompute(draft, index, captured, before.get(index), after.get(index))
        if found is None:
            name = run.operations[index].name
            doubt = doubt or f"what {name} (operation {index}) needs in L1 is taken as it was"
            continue
        static[index], temporaries = found
        change |= temporaries
    changed = replace(draft, static_bytes={**draft.static_bytes, **static})
    return changed.add_change(change) if change else changed, doubt


def _describe_unfinished_doubt(run: CapturedRun) -> str:
    """Return a doubt if a run failed: the programs of its last call may be unknown."""
    last = run.unfinished
    if last is None or last.are_programs_known:
        return ""
    return f"what {run.operations[last.operation].name} (operation {last.operation}) needs in L1 is not known"


def _find_touched(draft: EditedRun) -> dict[int, bool]:
    """Find operations on changed tensors (True), and those that depend on the free space in L1 (False)."""
    run, before = draft.history, list_captured_buffers(draft.history)
    found: dict[int, bool] = {}
    moves_l1 = False
    for number, piece in draft.changed.items():
        if number >= len(run.lives):
            continue
        life, was = run.lives[number], before[number]
        moves_l1 |= "L1" in (MEMORIES[piece.memory], MEMORIES[was.memory])
        is_other = piece.is_there and (piece.memory, piece.type) != (was.memory, was.type)
        if is_other:
            found |= dict.fromkeys((*life.uses, life.producer), True)
    found.pop(-1, None)
    if run.unfinished is not None and _is_sized_by_space(run, run.unfinished.operation):
        found.setdefault(run.unfinished.operation, False)  # it has space now
    if moves_l1:
        for operation in run.operations:
            if _is_sized_by_space(run, operation.index):
                found.setdefault(operation.index, False)
    return found


def _is_sized_by_space(run: CapturedRun, index: int) -> bool:
    """Return whether the size of its programs depends on the free space in L1."""
    operation, draft = run.operations[index], start_edits(run)
    results = [life.type for life in run.results(index) if life.type is not None]
    types = tuple(draft.buffer(number).type for number in operation.inputs)
    known: dict[object, bool] = run.cache.setdefault("sized by space", {})
    key = (operation.name, operation.given, types, *results)
    if key not in known:
        calls = list_possible_calls(draft, index, results[0]) if len(results) == 1 else ()
        known[key] = any(_asks_for_space(call, run.memory_map) for call in calls)
    return known[key]


def _asks_for_space(call: Call, memory_map: MemoryMap) -> bool:
    asked = []

    def lowest(_: Sequence[Step]) -> int | None:
        asked.append(call)
        return None

    with suppress(TtmemError):
        plan_call(call, memory_map, lowest, 0)
    return bool(asked)


@remember
def _index_static_bytes(run: CapturedRun) -> dict[int, tuple[int, ...]]:
    """Index the static bytes of programs by the operation that launched them."""
    found: dict[int, tuple[int, ...]] = {}
    for launch in run.launches:
        found[launch.operation] = (*found.get(launch.operation, ()), launch.static_bytes_per_core)
    return found


_ProgramNeeds = tuple[tuple[int, ...], Change]


def _recompute(
    draft: EditedRun, index: int, captured: tuple[int, ...], before: L1AtLaunch | None, after: L1AtLaunch | None
) -> _ProgramNeeds | None:
    """Return static bytes of each program and the temporaries, if a record gives them."""
    run = draft.history
    name = run.operations[index].name.removeprefix("ttnn.")
    if name in _MAKERS or name not in RECORDS:
        return None
    was = start_edits(run)
    results = [life for life in run.results(index) if life.type is not None]
    if len(results) != 1:
        return None
    temporaries = find_temporaries(run, index)
    for call in list_possible_calls(was, index, results[0].type):
        plan = plan_exactly(call, run.memory_map, before)
        if plan is None or list_static_bytes(plan, run.memory_map) != captured:
            continue
        if plan.results and plan.results[0][1].shape != (results[0].type.shape if results[0].type is not None else ()):
            continue
        if _list_temporary_sizes(plan, run.memory_map) != [life.bytes_per_bank for life in temporaries]:
            continue
        other = _rebuild_call(call, draft, index, results[0].number)
        plan = plan_exactly(other, run.memory_map, after) if other is not None else None
        if plan is None or draft.memory_map is None:
            return None
        sizes = _list_temporary_sizes(plan, draft.memory_map)
        needs = list_static_bytes(plan, draft.memory_map)
        if len(sizes) != len(temporaries) or len(needs) != len(captured):
            return None
        changed = {
            life.number: draft.buffer(life.number)._replace(bytes_per_bank=size)
            for life, size in zip(temporaries, sizes, strict=True)
            if size != life.bytes_per_bank
        }
        return needs, changed
    return None


def _read_specs(draft: EditedRun, index: int) -> tuple[TensorSpec, ...] | None:
    types: list[TensorType | None] = [draft.buffer(number).type for number in draft.history.operations[index].inputs]
    specs = [read_spec(type_) for type_ in types if type_ is not None and not type_.shard_bytes]
    known = tuple(spec for spec in specs if spec is not None)
    return known if known and len(known) == len(types) else None


def list_possible_calls(draft: EditedRun, index: int, result: TensorType | None) -> Iterator[Call]:
    """Yield possible calls: a capture keeps only the tensors. ``result`` is None for a failed call."""
    operation = draft.history.operations[index]
    name = operation.name.removeprefix("ttnn.")
    specs = _read_specs(draft, index)
    if name not in RECORDS or specs is None or (result is not None and result.shard_bytes):
        return
    record = RECORDS.find(name)
    names = {argument.name for argument in record.arguments}
    in_place = bool(operation.given & GIVEN["output_tensor"])
    types: list[dict[str, Any]] = [{}]
    if operation.given & GIVEN["dtype"] and "dtype" in names:
        types = [{"dtype": dtype} for dtype in ([result.dtype] if result is not None else _DATA_TYPES)]
    memories: list[Memory | None] = [None]
    if operation.given & GIVEN["memory_config"]:
        memories = [MEMORY_RECORDS.find(one) for one in ([result.memory] if result is not None else _MEMORIES)]
    rank = len(specs[0].shape)
    tried: list[dict[str, Any]] = [{}]
    if "dim" in names:
        tried += [{"dim": -1 - place} for place in range(rank)]
        if "keepdim" in names:
            tried += [{"dim": -1 - place, "keepdim": True} for place in range(rank)]
    given = [specs, (*specs, *specs)] if len(specs) == 1 and record.family == "binary" else [specs]
    for inputs, arguments, plain, memory in product(given, tried, types, memories):
        for keywords in ((), ("bias",)) if len(inputs) == 3 else ((),):
            yield Call(record.name, inputs, {**plain, **arguments}, memory, in_place, (), keywords)


def _rebuild_call(call: Call, draft: EditedRun, index: int, result: int) -> Call | None:
    """Return the same call with the tensors of an edited run."""
    specs, type_ = _read_specs(draft, index), draft.buffer(result).type
    if specs is None or type_ is None or type_.shard_bytes:
        return None
    specs *= len(call.inputs) // len(specs)  # ``add(x, x)`` reads one tensor
    arguments = {**call.arguments, "dtype": type_.dtype} if "dtype" in call.arguments else call.arguments
    own, was = MEMORY_RECORDS.find(type_.memory), draft.history.lives[result].type
    is_moved = was is not None and was.memory != own.name
    if call.memory is None and (not is_moved or specs[0].memory is own):
        return replace(call, inputs=specs, arguments=arguments)  # it follows its first input
    return replace(call, inputs=specs, arguments=arguments, memory=own)


def plan_exactly(call: Call, memory_map: MemoryMap, room: L1AtLaunch | None) -> Plan | None:
    """Plan a call, if its effect is known exactly."""

    def lowest(steps: Sequence[Step]) -> int | None:
        if room is None:
            return None
        has_result = any(isinstance(step, Allocate) and step.spec.memory is L1_RECORD for step in steps)
        return room.lowest_address if has_result else room.lowest_before

    try:
        plan = plan_call(call, memory_map, lowest, room.allocated_before if room is not None else 0)
    except TtmemError:
        return None
    return plan if plan.confidence == EXACT and plan.results else None


def list_static_bytes(plan: Plan, memory_map: MemoryMap) -> tuple[int, ...]:
    """List the bytes in L1 of each program of a plan."""
    base = memory_map.l1_base_address
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    return tuple(
        compute_stack_end(step.buffer_bytes, memory_map) - base if step.buffer_bytes else 0 for step in launches
    )


def _list_temporary_sizes(plan: Plan, memory_map: MemoryMap) -> list[int]:
    """Return the sizes of the temporaries in order, without tables that programs keep."""
    kept = {slot for slot, _ in plan.results}
    steps = [step for step in plan.steps if isinstance(step, Allocate) and step.slot not in kept]
    return [place(step.spec, memory_map).taken_bytes_per_bank for step in steps if step.cache_key is None]
