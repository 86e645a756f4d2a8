# SPDX-License-Identifier: Apache-2.0
"""Which tensors lived when: a run's operations replayed over their SSA names.

The layouts say what a tensor needs, the memory states say what really happened; where both are known and disagree
(a reshape that is a view, a convolution that frees its input), the states win. Names are looked up per program,
because every program numbers its values from %0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ttmem.analysis.machine import architecture_of
from ttmem.analysis.peaks import operation_location, operation_name
from ttmem.profile import MEMORIES, VIEW_ALLOCATED, VIEW_BANKS, OperationForm, Profile, TensorType, Timeline
from ttmem.tensors import taken_bytes_per_bank

_VIEWS = ("ttnn.reshape", "ttnn.view", "ttnn.mesh_shard", "ttnn.squeeze", "ttnn.unsqueeze")
"""Operations whose result is the operand under another name when nothing says otherwise."""
_CALLS = ("ttcore.load_cached", "func.call", "ttnn.capture_or_execute_trace")

_KEPT = ("ttcore.load_cached", "ttnn.capture_or_execute_trace")
"""Operations whose nested program makes tensors that outlive the run."""


@dataclass(frozen=True, slots=True)
class TensorLife:
    """One tensor on the device, from its producer to the operation that freed it."""

    name: str
    """A weight's own name, else the SSA name inside its program."""
    type: TensorType
    producer_index: int | None
    """None: it was there before the run, uploaded outside any program."""
    producer_name: str
    location: str
    program: str
    first_index: int
    last_index: int
    """The last operation before which it was still allocated."""
    last_use_index: int | None
    weight: bool
    bytes_per_bank: int


@dataclass(slots=True)
class _Held:
    """A tensor while the replay runs."""

    name: str
    type: TensorType
    producer: int | None
    program: int
    first: int
    bytes_per_bank: int
    weight: bool = False
    last: int | None = None
    last_use: int | None = None
    names: int = 1
    """How many SSA names refer to it: a view keeps its base alive."""


class _Replay:
    """The state while operations are replayed in order."""

    def __init__(self, profile: Profile, timeline: Timeline) -> None:
        self.profile = profile
        self.timeline = timeline
        self.architecture = architecture_of(profile)
        self.held: list[_Held] = []
        self.values: dict[int, dict[str, _Held]] = {}
        """Per program, because every program numbers its values from %0."""
        self.cache: dict[str, list[_Held]] = {}
        self.banks: dict[str, int] = {}
        owned = np.flatnonzero(timeline.block_operation >= 0)
        self.own_block = dict(zip(timeline.block_operation[owned].tolist(), owned.tolist(), strict=True))
        for column, memory in enumerate(MEMORIES):
            views = timeline.block_view[:, column]
            views = views[views >= 0]
            if len(views):
                self.banks[memory] = int(self.profile.views[views[0], VIEW_BANKS])
        self.lookups = {lookup.operation: lookup for lookup in timeline.lookups}
        self.children: dict[int, list[int]] = {}
        for number, program in enumerate(timeline.programs):
            if program.caller >= 0:
                self.children.setdefault(program.caller, []).append(number)
        self.argument_names = _argument_names(self.profile)

    # --- what an operation does ---------------------------------------------------------------------------------

    def step(self, index: int) -> None:
        timeline = self.timeline
        position = index - timeline.first_index
        form = self.profile.forms[int(timeline.form[position])]
        program = int(timeline.program[position])
        operands = [self.value(program, name, form, i) for i, name in enumerate(form.operands)]
        for operand in operands:
            if operand:
                operand.last_use = index
        if form.name == "ttnn.deallocate":
            if index not in timeline.retained:
                for name in form.operands:
                    self.release(program, name, index)
            return
        if form.name.startswith(_CALLS) and self.call(index, program, form, operands):
            return
        self.produce(index, program, form, operands)

    def call(self, index: int, program: int, form: OperationForm, operands: list[_Held | None]) -> bool:
        """A nested program makes the results, or the cache has them; False when neither is known."""
        children = self.children.get(index, [])
        if children:  # its results are bound when it ends; its arguments are our operands
            for child in children:
                for position, operand in enumerate(operands):
                    if operand:
                        self.values.setdefault(child, {})[f"%arg{position}"] = operand
                        operand.names += 1
            return True
        if form.name != "ttcore.load_cached":
            return False
        lookup = self.lookups.get(index)
        cached = self.cache.get(lookup.key if lookup else form.callee)
        if cached is None:
            if lookup and not lookup.hit:
                return False
            cached = self._resident(index, program, form)
        for name, held in zip(form.results, cached, strict=False):
            self.values.setdefault(program, {})[name] = held
            held.names += 1
        return True

    def _resident(self, index: int, program: int, form: OperationForm) -> list[_Held]:
        """Cached results whose making is not in this source: they were there before it began."""
        lookup = self.lookups.get(index)
        made = [
            self.hold(
                self.weight_name(form) or name, type_number, None, program, self.timeline.first_index, weight=True
            )
            for name, type_number in zip(form.results, form.result_types, strict=False)
        ]
        cached = [held for held in made if held]
        self.cache[lookup.key if lookup else form.callee] = cached
        return cached

    def end_program(self, number: int) -> None:
        """A nested program ended: what the caller's results need stays, the rest dies with its executor."""
        timeline = self.timeline
        program = timeline.programs[number]
        values = self.values.pop(number, {}).values()
        left = [held for held in values if held.program == number]
        for held in values:
            held.names -= 1
        left = [held for held in left if held.last is None]
        position = program.caller - timeline.first_index
        if program.caller < 0 or not 0 <= position < len(timeline):
            self._drop(left, program.end_operation)
            return
        form = self.profile.forms[int(timeline.form[position])]
        owner = int(timeline.program[position])
        results: list[_Held] = []
        for name, type_number in zip(form.results, form.result_types, strict=False):
            match = next((held for held in reversed(left) if held.type is self.type_of(type_number)), None)
            if match:
                left.remove(match)
                self.values.setdefault(owner, {})[name] = match
                match.names += 1
                match.program = owner
                results.append(match)
        if form.name == "ttcore.load_cached":
            weight_name = self.weight_name(form)
            for held in results:  # const-eval results are kept for the life of the process
                held.weight = True
                held.names += 1
                if weight_name and len(results) == 1:
                    held.name = weight_name
            lookup = self.lookups.get(program.caller)
            self.cache[lookup.key if lookup else form.callee] = results
        if form.name != "ttnn.capture_or_execute_trace":  # trace slots are retained
            self._drop(left, program.end_operation)

    def _drop(self, left: list[_Held], index: int) -> None:
        for held in left:
            held.last = index - 1

    # --- values -------------------------------------------------------------------------------------------------

    def value(self, program: int, name: str, form: OperationForm, position: int) -> _Held | None:
        """The tensor behind an SSA name; a run's own arguments are on the device before it starts."""
        known = self.values.get(program, {}).get(name)
        if known or not name.startswith("%arg"):
            return known
        if program >= 0 and self.timeline.programs[program].parent >= 0:
            return None
        type_number = form.operand_types[position] if position < len(form.operand_types) else -1
        first = self.timeline.programs[program].first_operation if program >= 0 else self.timeline.first_index
        number = int(name[4:]) if name[4:].isdigit() else -1
        weight_name = self.argument_names.get((number, self._shape(type_number)), "")
        held = self.hold(weight_name or name, type_number, None, program, first, weight=bool(weight_name))
        if held:
            self.values.setdefault(program, {})[name] = held
        return held

    def produce(self, index: int, program: int, form: OperationForm, operands: list[_Held | None]) -> None:
        if form.frees_input and operands and operands[0] and self._shrank(index, operands[0], form):
            operands[0].last = index
        for name, type_number in zip(form.results, form.result_types, strict=False):
            type_ = self.type_of(type_number)
            if type_ is None or not type_.on_device:
                continue
            base = self._base_of_view(index, form, type_, operands)
            if base:
                base.names += 1
                self.values.setdefault(program, {})[name] = base
                continue
            held = self.hold(name, type_number, index, program, index)
            if held:
                self.values.setdefault(program, {})[name] = held

    def release(self, program: int, name: str, index: int) -> None:
        held = self.values.get(program, {}).pop(name, None)
        if held is None:
            return
        held.names -= 1
        if held.names <= 0 and held.last is None:
            held.last = index

    def hold(
        self, name: str, type_number: int, producer: int | None, program: int, first: int, *, weight: bool = False
    ) -> _Held | None:
        type_ = self.type_of(type_number)
        if type_ is None or not type_.on_device:
            return None
        held = _Held(name, type_, producer, program, first, self.bytes_per_bank(type_), weight)
        self.held.append(held)
        return held

    def type_of(self, number: int) -> TensorType | None:
        return self.profile.tensor_types[number] if number >= 0 else None

    def _shape(self, number: int) -> tuple[int, ...]:
        type_ = self.type_of(number)
        return type_.shape if type_ else ()

    def bytes_per_bank(self, type_: TensorType) -> int:
        """What the allocator takes for it: pages aligned, then rounded up to the chip's quantum."""
        banks = self.banks.get(type_.memory, 0)
        alignment = self.architecture.page_alignment_bytes(in_dram=type_.memory in ("DRAM", "TRACE"))
        stored = type_.bytes_per_bank(banks, alignment)
        return taken_bytes_per_bank(stored, quantum_bytes=self.architecture.quantum_bytes) if stored else 0

    def weight_name(self, form: OperationForm) -> str:
        """The parameter that a const-eval result was made from, when there is exactly one."""
        names = {
            self.argument_names.get((int(name[4:]), self._shape(type_number)), "")
            for name, type_number in zip(form.operands, form.operand_types, strict=False)
            if name.startswith("%arg") and name[4:].isdigit()
        }
        return names.pop() if len(names) == 1 else ""

    # --- what the states say ------------------------------------------------------------------------------------

    def growth(self, index: int, memory: str) -> int | None:
        """How much a memory grew over an operation, where the state before and after it are both there."""
        block = self.own_block.get(index)
        timeline = self.timeline
        if block is None or block + 1 >= len(timeline.block_cause) or timeline.block_cause[block + 1] != index:
            return None
        column = MEMORIES.index(memory)
        before, after = timeline.block_view[block, column], timeline.block_view[block + 1, column]
        if before < 0 or after < 0:
            return None
        views = self.profile.views
        return int(views[after, VIEW_ALLOCATED] - views[before, VIEW_ALLOCATED])

    def _base_of_view(
        self, index: int, form: OperationForm, type_: TensorType, operands: list[_Held | None]
    ) -> _Held | None:
        """The operand that the result shares its buffer with, None when the result has one of its own."""
        needed = self.bytes_per_bank(type_)
        candidates = [held for held in operands if held and held.type.memory == type_.memory and held.last is None]
        if not candidates:
            return None
        base = min(candidates, key=lambda held: abs(held.bytes_per_bank - needed))
        grown = self.growth(index, type_.memory)
        visible = needed > 4 * self.profile.source.state_error_bytes
        if grown is not None and visible:
            return base if grown < needed // 2 and base.bytes_per_bank >= needed // 2 else None
        return base if form.name in _VIEWS and base.type.padded_bytes == type_.padded_bytes else None

    def _shrank(self, index: int, operand: _Held, form: OperationForm) -> bool:
        """Whether an operation that may free its input did so by itself."""
        grown = self.growth(index, operand.type.memory)
        if grown is None:
            return False
        made = sum(
            self.bytes_per_bank(type_)
            for number in form.result_types
            if (type_ := self.type_of(number)) and type_.memory == operand.type.memory
        )
        return grown < made - operand.bytes_per_bank // 2


def lifetimes(profile: Profile, timeline: Timeline, run: int | None) -> list[TensorLife]:
    """The tensors of one run (None: of everything), with the const-eval results that earlier runs left behind."""
    replay = _Replay(profile, timeline)
    ends: dict[int, list[int]] = {}
    for number, program in enumerate(timeline.programs):
        if program.parent >= 0:
            ends.setdefault(program.end_operation, []).append(number)
    for index in _indices(profile, timeline, run):
        for number in reversed(ends.pop(index, [])):
            replay.end_program(number)
        replay.step(index)
        for number in reversed(ends.pop(index + 1, [])):
            replay.end_program(number)
    end = _end_of(timeline, run)
    return [_finish(replay, held, end) for held in replay.held]


def _indices(profile: Profile, timeline: Timeline, run: int | None) -> Iterator[int]:
    """The operations to replay: a finished run leaves nothing behind but const-eval results and trace slots."""
    if run is None or not timeline.programs:
        yield from range(timeline.first_index, timeline.end_index)
        return
    top = next(p for p in timeline.programs if p.run == run and p.parent < 0)
    for program in timeline.programs:
        position = program.caller - timeline.first_index
        if program.run < run and 0 <= position < len(timeline):
            if profile.forms.name_of(int(timeline.form[position])) in _KEPT:
                yield program.caller
                yield from range(program.first_operation, program.end_operation)
    yield from range(max(top.first_operation, timeline.first_index), min(top.end_operation, timeline.end_index))


def _end_of(timeline: Timeline, run: int | None) -> int:
    if run is None or not timeline.programs:
        return timeline.end_index - 1
    return next(p for p in timeline.programs if p.run == run and p.parent < 0).end_operation - 1


def _finish(replay: _Replay, held: _Held, end: int) -> TensorLife:
    timeline = replay.timeline
    return TensorLife(
        name=held.name,
        type=held.type,
        producer_index=held.producer,
        producer_name=operation_name(replay.profile, timeline, held.producer) if held.producer is not None else "",
        location=operation_location(replay.profile, timeline, held.producer) if held.producer is not None else "",
        program=timeline.programs[held.program].name if held.program >= 0 else "",
        first_index=held.first,
        last_index=end if held.last is None else held.last,
        last_use_index=held.last_use,
        weight=held.weight,
        bytes_per_bank=held.bytes_per_bank,
    )


def _argument_names(profile: Profile) -> dict[tuple[int, tuple[int, ...]], str]:
    """(position, shape) -> name of the weights, where all graphs agree."""
    names: dict[tuple[int, tuple[int, ...]], str] = {}
    for argument in profile.arguments:
        if argument.kind in ("parameter", "constant"):
            key = (argument.position, argument.shape)
            if names.setdefault(key, argument.name) != argument.name:
                names[key] = ""
    return names
