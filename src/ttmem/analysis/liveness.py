# SPDX-License-Identifier: Apache-2.0
"""Liveness from a log: its operations are followed over SSA names: creation, sharing, freeing.

The layouts say what a tensor needs, the memory states say what really happened; where both are known and disagree
(a reshape that is a view, a convolution that frees its input), the states win. Names are looked up per program,
because every program numbers its values from %0.
"""

from dataclasses import dataclass

import numpy as np

from ttmem.analysis.architecture import guess_architecture
from ttmem.analysis.persistent_tensors import argument_number, resident_arguments, resident_names
from ttmem.analysis.states import bank_size
from ttmem.profile.model import MEMORIES, VIEW_ALLOCATED, Profile, Timeline
from ttmem.profile.operation_forms import OperationForm
from ttmem.profile.tensor_type import TensorType
from ttmem.twin.placement import compute_taken_bytes_per_bank

LOAD_CACHED = ("ttcore.load_cached", "tt.load_cached")
"""Today's name and the one before 2025-06."""
CAPTURE_TRACE = "ttnn.capture_or_execute_trace"
_CALLS = (*LOAD_CACHED, "func.call", CAPTURE_TRACE)
_MESH_SHARD = "ttnn.mesh_shard"
_VIEWS = ("ttnn.reshape", "ttnn.view", _MESH_SHARD, "ttnn.squeeze", "ttnn.unsqueeze")
"""Operations whose result is the operand under another name when nothing says otherwise."""
_UNKNOWN = -(1 << 62)
_BLOCK = 1 << 15
"""Operations that are prepared together: enough for numpy, little enough for memory."""


@dataclass(slots=True)
class TrackedTensor:
    """A tensor while operations are followed."""

    name: str
    type: TensorType
    producer: int
    """-1: it was there before the run."""
    program: int
    first: int
    bytes_per_bank: int
    weight: bool = False
    stays: bool = False
    """It lives as long as the process: a const-eval result, a parameter, a cache that the graph updates."""
    last: int = -1
    """The operation that freed it, -1 while it is alive."""
    last_use: int = -1
    names: int = 1
    """How many SSA names refer to it: a view keeps its base alive."""


class Liveness:
    """The state while operations are followed in order; ``tensors`` lists every one there ever was."""

    def __init__(self, profile: Profile, timeline: Timeline) -> None:
        self.profile = profile
        self.timeline = timeline
        self.tensors: list[TrackedTensor] = []
        self._values: dict[int, dict[str, TrackedTensor]] = {}
        self._cache: dict[str, list[TrackedTensor | None]] = {}
        """Const-eval results by the hash of the function that made them; None for one on the host."""
        self._needs: dict[int, int] = {}
        self._architecture = guess_architecture(profile)
        self._banks = {memory: bank_size(profile, timeline, memory)[0] for memory in MEMORIES}
        self._lookups = {lookup.operation: lookup for lookup in timeline.lookups}
        self._children: dict[int, list[int]] = {}
        self._ends: dict[int, list[int]] = {}
        for number, program in enumerate(timeline.programs):
            if program.caller >= 0:
                self._children.setdefault(program.caller, []).append(number)
            if program.parent >= 0:
                self._ends.setdefault(program.end_operation, []).append(number)
        self._names = resident_names(profile)
        self._residents: dict[tuple[str, int], TrackedTensor] = {}
        """Arguments that earlier runs left on the device, by name and type."""
        self._followed = (0, 0)
        self._growth_of = _OperationGrowth(profile, timeline)
        self._growth: tuple[list[int], ...] | None = None
        """Of the operations ``_followed``, once one of them asks: few do."""

    def run(self, first: int, end: int, *, at: int | None = None) -> None:
        """Follow the operations [first, end); with ``at``, tensors freed before that operation are forgotten."""
        first, end = max(first, self.timeline.first_index), min(end, self.timeline.end_index)
        for start in range(first, end, _BLOCK):
            self._run_state(start, min(start + _BLOCK, end))
            if at is not None:
                self.tensors = [held for held in self.tensors if held.last < 0 or held.last >= at]
        if first < end:
            self._end_programs(end)

    def _run_state(self, first: int, end: int) -> None:
        timeline = self.timeline
        window = slice(first - timeline.first_index, end - timeline.first_index)
        self._followed, self._growth = (first, end), None
        if end - first == 1:  # thousands of these are followed for what earlier runs left
            forms, places = [self.profile.forms[int(timeline.form[window.start])]], [0]
        else:
            distinct, which = np.unique(timeline.form[window], return_inverse=True)
            forms, places = self.profile.forms.decode(distinct), which.tolist()
        ends = self._ends
        rows = zip(range(first, end), places, timeline.program[window].tolist(), strict=True)
        for index, number, program in rows:
            if index in ends:
                self._end_programs(index)
            form = forms[number]
            if form.name == "ttnn.deallocate":
                self._release(program, form, index)
            else:
                self._step(index, program, form)

    def leave_runs(self, end: int) -> None:
        """Before another run: of the arguments of the runs before operation ``end``, those that stay are known by
        their name; the others have other names now, or are gone."""
        cached = {id(held) for results in self._cache.values() for held in filter(None, results)}
        self.tensors = [held for held in self.tensors if held.producer >= 0 or id(held) in cached]
        self._values.clear()
        if self._names:
            for known, type_number, last_use in resident_arguments(self.profile, self.timeline, self._names, end):
                held = self._hold("", known.name, type_number, -1, -1, self.timeline.first_index)
                if held:
                    held.weight, held.stays, held.last_use = known.weight, True, last_use
                    self._residents[known.name, type_number] = held

    # --- what an operation does ---------------------------------------------------------------------------------

    def _step(self, index: int, program: int, form: OperationForm) -> None:
        values = self._values.get(program)
        if values is None:
            values = self._values[program] = {}
        operands = []
        for position, name in enumerate(form.operands):
            operand = values.get(name) or (self._argument(program, name, form, position) if name[1] == "a" else None)
            if operand:
                operand.last_use = index
                operands.append(operand)
        if form.name in _CALLS and self._call(index, program, form):
            return
        freed_bytes = 0
        if form.frees_input and operands and self._frees_input(index, operands[0], form):
            operands[0].last = index
            freed_bytes = operands[0].bytes_per_bank
        for name, type_number in zip(form.results, form.result_types, strict=False):
            if type_number < 0:
                continue
            base = self._base_of_view(index, form, type_number, operands, freed_bytes) if operands else None
            if base:
                base.names += 1
                values[name] = base
                if form.name == _MESH_SHARD and (part := self._bytes_per_bank(type_number)) < base.bytes_per_bank:
                    # An argument that came sharded has the type of the whole; on this chip is one part of it.
                    base.type, base.bytes_per_bank = self.profile.tensor_types[type_number], part
            else:
                self._hold(name, name, type_number, index, program, index)

    def _call(self, index: int, program: int, form: OperationForm) -> bool:
        """A nested program makes the results, or the cache has them; False when neither is known."""
        children = self._children.get(index)
        if children:  # its results are bound when it ends; its arguments are our operands
            values = self._values.get(program, {})
            for child in children:
                arguments = self._values.setdefault(child, {})
                for position, name in enumerate(form.operands):
                    if operand := values.get(name):
                        arguments[f"%arg{position}"] = operand
                        operand.names += 1
            return True
        if form.name not in LOAD_CACHED:
            return False
        lookup = self._lookups.get(index)
        key = lookup.key if lookup else form.callee
        cached = self._cache.get(key)
        if cached is None:
            if lookup and not lookup.hit:
                return False
            # Made before this source began: resident all along.
            start = self.timeline.first_index
            cached = self._cache[key] = [
                self._hold("", self._weight_name(form) or name, type_number, -1, program, start)
                for name, type_number in zip(form.results, form.result_types, strict=False)
            ]
            for resident in filter(None, cached):
                resident.weight = resident.stays = True
        values = self._values.setdefault(program, {})
        for name, held in zip(form.results, cached, strict=False):
            if held:
                values[name] = held
                held.names += 1
        return True

    def _end_programs(self, index: int) -> None:
        """Nested programs that end before this operation, innermost first."""
        for number in reversed(self._ends.pop(index, [])):
            self._end_program(number)

    def _end_program(self, number: int) -> None:
        """Keep what the caller's results need; the rest is freed with the program's executor."""
        timeline = self.timeline
        program = timeline.programs[number]
        values = self._values.pop(number, {}).values()
        left = [held for held in values if held.program == number and held.last < 0]
        for held in values:
            held.names -= 1
        position = program.caller - timeline.first_index
        form = self.profile.forms[int(timeline.form[position])] if 0 <= position < len(timeline) else None
        if form:
            results = self._bind_results(form, int(timeline.program[position]), left)
            if form.name in LOAD_CACHED:
                self._keep(form, program.caller, results)
        if not form or form.name != CAPTURE_TRACE:  # a trace's slots are kept
            for held in left:
                held.last = program.end_operation - 1

    def _bind_results(self, form: OperationForm, owner: int, left: list[TrackedTensor]) -> list[TrackedTensor | None]:
        """The nested program's tensors that became the caller's results, taken out of ``left``."""
        values = self._values.setdefault(owner, {})
        results: list[TrackedTensor | None] = []
        for name, type_number in zip(form.results, form.result_types, strict=False):
            wanted = self.profile.tensor_types[type_number] if type_number >= 0 else None
            match = next((held for held in reversed(left) if held.type is wanted), None)
            if match:
                left.remove(match)
                values[name] = match
                match.names += 1
                match.program = owner
                match.name = name
            results.append(match)
        return results

    def _keep(self, form: OperationForm, caller: int, results: list[TrackedTensor | None]) -> None:
        """Const-eval results live as long as the process."""
        weight_name = self._weight_name(form)
        for held in filter(None, results):
            held.weight = held.stays = True
            held.names += 1
            if weight_name and len(results) == 1:
                held.name = weight_name
        lookup = self._lookups.get(caller)
        key = lookup.key if lookup else form.callee
        if lookup and lookup.key != lookup.function:  # by hash: folded again, because its inputs changed
            for replaced in filter(None, self._cache.get(key, ())):
                replaced.last = max(replaced.first, caller)
        self._cache[key] = results

    # --- values -------------------------------------------------------------------------------------------------

    def _argument(self, program: int, name: str, form: OperationForm, position: int) -> TrackedTensor | None:
        """A run's own argument: on the device since before the run. Nested programs get theirs from their caller."""
        if program >= 0 and self.timeline.programs[program].parent >= 0:
            return None
        type_number = form.operand_types[position] if position < len(form.operand_types) else -1
        if type_number < 0:
            return None
        known = self._names.get((argument_number(name), self.profile.tensor_types[type_number].shape))
        if known and (resident := self._residents.get((known.name, type_number))):
            resident.names += 1
            resident.program = program
            self._values.setdefault(program, {})[name] = resident
            return resident
        first = self.timeline.programs[program].first_operation if program >= 0 else self.timeline.first_index
        held = self._hold(name, known.name if known else name, type_number, -1, program, first)
        if held and known:
            held.weight, held.stays = known.weight, True
        return held

    def _hold(
        self, ssa: str, name: str, type_number: int, producer: int, program: int, first: int
    ) -> TrackedTensor | None:
        if type_number < 0 or not (type_ := self.profile.tensor_types[type_number]).on_device:
            return None
        held = TrackedTensor(name, type_, producer, program, first, self._bytes_per_bank(type_number))
        self.tensors.append(held)
        if ssa:
            values = self._values.setdefault(program, {})
            if program < 0 and (earlier := values.get(ssa)) and earlier.last < 0:
                # No program lines, so only a name that comes back tells that another run has begun.
                earlier.last = max(earlier.first, producer - 1)
            values[ssa] = held
        return held

    def _release(self, program: int, form: OperationForm, index: int) -> None:
        for position, name in enumerate(form.operands):
            held = self._values.get(program, {}).get(name)
            if held is None and name.startswith("%arg"):  # freed before any other operation used it
                held = self._argument(program, name, form, position)
            if held is None:
                continue
            held.last_use = index
            if index in self.timeline.retained:
                continue
            del self._values[program][name]
            held.names -= 1
            if held.names <= 0 and held.last < 0:
                held.last = index

    def _bytes_per_bank(self, number: int) -> int:
        """Return the allocated bytes of a type: pages aligned, then rounded up to the chip's quantum."""
        known = self._needs.get(number)
        if known is None:
            type_ = self.profile.tensor_types[number]
            alignment = self._architecture.page_alignment_bytes(in_dram=type_.memory in ("DRAM", "TRACE"))
            stored = type_.bytes_per_bank(self._banks.get(type_.memory, 0), alignment)
            quantum = self._architecture.quantum_bytes
            known = self._needs[number] = compute_taken_bytes_per_bank(stored, quantum_bytes=quantum) if stored else 0
        return known

    def _weight_name(self, form: OperationForm) -> str:
        """The parameter that a const-eval result was made from, when there is exactly one."""
        types = self.profile.tensor_types
        names = {
            known.name
            if (known := self._names.get((argument_number(name), types[number].shape))) and known.weight
            else ""
            for name, number in zip(form.operands, form.operand_types, strict=False)
            if number >= 0 and argument_number(name) >= 0
        }
        return names.pop() if len(names) == 1 else ""

    # --- what the states say ------------------------------------------------------------------------------------

    def _base_of_view(
        self, index: int, form: OperationForm, number: int, operands: list[TrackedTensor], freed_bytes: int
    ) -> TrackedTensor | None:
        """The operand that the result shares its buffer with, None when the result has one of its own."""
        type_ = self.profile.tensor_types[number]
        memory = type_.memory
        candidates = [held for held in operands if held.last < 0 and held.type.memory == memory]
        if not candidates or memory not in MEMORIES:
            return None
        needed = self._bytes_per_bank(number)
        base = candidates[0]
        if len(candidates) > 1:
            base = min(candidates, key=lambda held: abs(held.bytes_per_bank - needed))
        grown = self._growth_by_operation(memory, index)
        if grown != _UNKNOWN and needed > 4 * self.profile.source.state_error_bytes:  # a change that can be seen
            return base if grown + freed_bytes < needed // 2 and base.bytes_per_bank >= needed // 2 else None
        is_same = base.type.padded_bytes == type_.padded_bytes or form.name == _MESH_SHARD
        return base if form.name in _VIEWS and is_same else None

    def _frees_input(self, index: int, operand: TrackedTensor, form: OperationForm) -> bool:
        """Return True if an operation that may free its input did so."""
        memory = operand.type.memory
        if memory not in MEMORIES:
            return False
        grown = self._growth_by_operation(memory, index)
        types = self.profile.tensor_types
        made = sum(self._bytes_per_bank(n) for n in form.result_types if n >= 0 and types[n].memory == memory)
        return grown != _UNKNOWN and grown < made - operand.bytes_per_bank // 2

    def _growth_by_operation(self, memory: str, index: int) -> int:
        """Return the growth of a memory by an operation of the current run."""
        first, end = self._followed
        if self._growth is None:
            self._growth = self._growth_of(first, end)
        return self._growth[MEMORIES.index(memory)][index - first]


class _OperationGrowth:
    """Growth of each memory by each operation; known where both states around it are.

    Prepared once: of a run's past only single operations are asked for, thousands of times.
    """

    def __init__(self, profile: Profile, timeline: Timeline) -> None:
        owned = np.flatnonzero(timeline.state_operation[:-1] >= 0)
        # Where the next state is the operation's after-state.
        owned = owned[timeline.state_cause[owned + 1] == timeline.state_operation[owned]]
        owned = owned[np.argsort(timeline.state_operation[owned], kind="stable")]
        self._operation = timeline.state_operation[owned]
        self._before, self._after = timeline.state_view[owned], timeline.state_view[owned + 1]
        self._allocated = profile.views[:, VIEW_ALLOCATED]
        # A program's temporaries die with it, between its last operation and the next state.
        self._last = np.sort(np.array([program.end_operation - 1 for program in timeline.programs], np.int64))

    def __call__(self, first: int, end: int) -> tuple[list[int], ...]:
        """Return the growth by the operations [first, end), per memory."""
        asked = slice(*np.searchsorted(self._operation, (first, end)))
        ended = self._last[slice(*np.searchsorted(self._last, (first, end)))] - first
        operation = self._operation[asked] - first
        columns = []
        for memory in range(len(MEMORIES)):
            grown = np.full(end - first, _UNKNOWN, np.int64)
            before, after = self._before[asked, memory], self._after[asked, memory]
            both = (before >= 0) & (after >= 0)
            grown[operation[both]] = self._allocated[after[both]] - self._allocated[before[both]]
            grown[ended] = _UNKNOWN
            columns.append(grown.tolist())
        return tuple(columns)
