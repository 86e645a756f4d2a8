# SPDX-License-Identifier: Apache-2.0
"""Plays a script on the twin and yields the messages that a recorder of the real library would send."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from ttmem.base.errors import TtmemError
from ttmem.engines.engine import EngineSettings, Message, ScriptEntry, Step
from ttmem.engines.twin import NoRecordError, TwinEngine
from ttmem.engines.worker.device_monitor import build_state
from ttmem.engines.worker.ledger import GIVE, TAKE, AllocationLedger, CallEffect, Move
from ttmem.engines.worker.library import BankView, MemoryRegion
from ttmem.engines.worker.player import UPLOAD, substitute_steps
from ttmem.engines.worker.recorder import encode_end, encode_state
from ttmem.twin.device import Buffer, WatchedDevice
from ttmem.twin.errors import DeviceFailureError, OutOfMemoryError, StaticBuffersError
from ttmem.twin.operations import BOUNDED, UNKNOWN
from ttmem.twin.placement import Placement
from ttmem.twin.replay import read_spec
from ttmem.twin.tensor_spec import TensorSpec


class _RecordedDevice(WatchedDevice):
    """Logs allocations and frees."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.moves: list[Move] = []

    def allocate_placed(self, placement: Placement) -> Buffer:
        buffer = super().allocate_placed(placement)
        if taken := placement.taken_bytes_per_bank:
            memory = placement.spec.memory.name
            self.moves.append(Move(TAKE, memory, buffer.address, taken, placement.total_bytes))
        return buffer

    def free(self, buffer: Buffer) -> bool:
        is_freed = super().free(buffer)
        if is_freed and buffer.placement.taken_bytes_per_bank:
            self.moves.append(Move(GIVE, buffer.placement.spec.memory.name, buffer.address))
        return is_freed


class _PlayedTwin(TwinEngine):
    """Tracks its own memory with the recorder's ledger."""

    device_type = _RecordedDevice

    def __init__(self, settings: EngineSettings) -> None:
        super().__init__(settings)
        device = self._open()
        assert isinstance(device, _RecordedDevice)
        self._recorded = device
        self.memory_map = device.memory_map
        pools = {p.memory.name: MemoryRegion(p.banks, p.base_address, p.bytes_per_bank) for p in self.memory_map.pools}
        self.ledger = AllocationLedger(pools, self.memory_map.quantum_bytes)
        self.operations = 0

    def do(self, step: Step) -> Message:
        return self._do(step)

    def take_effect(self) -> CallEffect:
        moves, self._recorded.moves = self._recorded.moves, []
        return self.ledger.apply(moves)

    def read_state(self) -> Message:
        effect = self.take_effect()
        views = [
            BankView(
                view.banks,
                view.total_bytes_per_bank,
                view.allocated_bytes_per_bank,
                view.free_bytes_per_bank,
                view.largest_free_bytes_per_bank,
            )
            for view in self._recorded.views()
        ]
        return encode_state(build_state(views, effect))

    def find_number(self, name: str) -> int | None:
        """Return the number of a tensor's buffer; None on the host, and without memory."""
        if name not in self._tensors.named:
            return None
        buffer, spec = self._tensors.named[name]
        found = self.ledger.live[spec.memory.name].get(buffer.address)
        return None if found is None else found.number

    def has_tensor(self, name: str) -> bool:
        return name in self._tensors.named or name in self._tensors.on_host

    def describe(self, name: str) -> Message:
        buffer, spec = self._tensors.named[name]
        described = self._describe_buffer(Buffer(buffer.address, self._recorded.place(spec)))
        shard = getattr(spec, "shard", None)
        return {**described, "placement": f"{shard.kind}_sharded" if shard is not None else "interleaved"}

    def run_operation(self, entry: ScriptEntry) -> Iterator[Message]:
        """Yield ``start`` and ``end``, then raise the step's error."""
        step, index = entry["step"], self.operations
        self.operations += 1
        uses = [name for name in _find_tensor_names(step) if self.find_number(name) is not None]
        yield {
            "start": index,
            "name": entry["name"],
            "file": entry.get("place", ""),
            "line": 0,
            **self.read_state(),
            "uses": [self.find_number(name) for name in uses],
            "tensors": [[self.find_number(name), self.describe(name)] for name in uses],
        }
        self._forget_doubts()
        error: TtmemError | None = None
        try:
            self._do_or_bound(step, may_guess="otherwise" not in entry)
        except TtmemError as raised:
            error = raised
        known = 0 if self._confidence == UNKNOWN else 1
        tensors = max(self._l1[0], self._recorded.peaks["L1"] if not known else 0)
        message = encode_end(index, self.take_effect(), [tensors, *self._l1[1:], 0, known], [sum(self._l1[1:])])
        message |= {"confidence": self._confidence, "doubt": "; ".join(self._doubts)}
        if error is not None:
            is_memory = isinstance(error, (OutOfMemoryError, StaticBuffersError))
            yield {**message, "error" if is_memory or "otherwise" not in entry else "refused": error.message}
            raise error
        made = [name for name in _list_result_names(step) if self.find_number(name) is not None]
        label = entry.get("label")
        yield {
            **message,
            "tensors": [[self.find_number(name), self.describe(name)] for name in made],
            "names": [[self.find_number(name), label] for name in made] if label else [],
        }

    def _do_or_bound(self, step: Step, *, may_guess: bool) -> None:
        """Run a step; without a rule it makes at least its results. A call that declares its results fully in ``makes``
        makes just those."""
        declared = step.get("makes")
        if isinstance(declared, list) and all(isinstance(one, dict) for one in declared):
            self._do_declared(step, [read_spec(one) for one in declared])
            return
        makes, names = step.get("makes"), _list_result_names(step)
        try:
            self._do(step)
            for name, shape in zip(names, makes if isinstance(makes, list) else (), strict=False):
                if not self.has_tensor(name):  # a rule without an answer makes only what is certain
                    self._keep(name, TensorSpec(tuple(shape)))
        except NoRecordError as error:
            known, why = list[TensorSpec](), error.message
            if isinstance(makes, list):
                known = [TensorSpec(tuple(shape)) for shape in makes]
            elif may_guess and len(names) == 1:  # a missing rule is no failure of the model
                given = [
                    self._tensors.named[name][1] for name in _find_tensor_names(step) if name in self._tensors.named
                ]
                known, why = given[:1], f"{why}: its result is taken to be like its first input"
            if not known:
                raise
            self._doubt(UNKNOWN, why)
            for name, spec in zip(names, known, strict=False):
                self._keep(name, spec)

    def _keep(self, name: str, spec: TensorSpec) -> None:
        self._tensors.keep(name, self._recorded.allocate(spec), spec, self._recorded)

    def _do_declared(self, step: Step, specs: list[TensorSpec]) -> None:
        """Run a call by its rule where that makes the declared results; else allocate these alone."""
        try:
            plan = self.plan(step)
            if len(plan.results) == len(specs):
                made = [spec for _, spec in plan.results]
                if all(_has_same_storage(one, other) for one, other in zip(made, specs, strict=True)):
                    self._do(step)
                    return
                why = f"{step['call']} would make {made[0]} by the twin's rule, the program says {specs[0]}"
            elif plan.confidence != UNKNOWN and (not plan.results or not specs):
                self._do(step)  # the rule ends in a failure, or the call writes into what is there
                return
            else:
                why = plan.note or f"{step['call']} gives {len(plan.results)} tensors by the twin's rule"
        except DeviceFailureError:
            raise
        except TtmemError as error:
            why = error.message
        self._doubt(BOUNDED, why)
        for name, spec in zip(_list_result_names(step), specs, strict=False):
            self._keep(name, spec)


def _has_same_storage(one: TensorSpec, other: TensorSpec) -> bool:
    """Return whether two specs take the same memory; how the elements are counted may differ."""
    kinds = ((spec.dtype, spec.layout, spec.memory, spec.shard, spec.elements) for spec in (one, other))
    return next(kinds) == next(kinds)


def _list_result_names(step: Step) -> list[str]:
    out = step.get("out", step.get("alloc"))
    return [name for name in ([out] if isinstance(out, str) else out or ()) if name]


def _find_tensor_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("tensor"), str):
            yield value["tensor"]
            return
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _find_tensor_names(item)


def play(settings: EngineSettings, script: Iterable[ScriptEntry]) -> Iterator[Message]:
    """Play a script to its end, or to the first entry that fails."""
    twin = _PlayedTwin(settings)
    yield {"hello": 1, "ttnn": twin.memory_map.release.name}
    yield {"device": _describe_device(twin)}
    kept: list[tuple[str, str, str]] = []
    left = deque(dict(entry) for entry in script)
    while left:
        entry = left.popleft()
        try:
            if "moment" in entry:
                yield from _describe_moment(twin, kept)
            elif "name" in entry:
                yield from twin.run_operation(entry)
            elif "free" not in entry["step"] or twin.has_tensor(entry["step"]["free"]):
                twin.do(entry["step"])
        except TtmemError as error:
            if "otherwise" in entry and not isinstance(error, (OutOfMemoryError, StaticBuffersError)):
                substitute_steps(entry, left)
                continue
            if "name" not in entry and "alloc" in entry["step"]:
                yield from _replay_failed_upload(twin, entry, kept)
            elif "name" not in entry:
                yield {"exit": 1, "error": error.message}
            break
        if "path" in entry:
            kept.append((_list_result_names(entry["step"])[0], entry["path"], entry["role"]))
    yield {"closed": True, **twin.read_state()}
    yield {"played": True, "signal": 0, "timed_out": False}


def _replay_failed_upload(twin: _PlayedTwin, entry: ScriptEntry, kept: list[tuple[str, str, str]]) -> Iterator[Message]:
    """Repeat a failed upload as an operation: it fails again, and has a location then."""
    yield from _describe_moment(twin, kept)
    try:
        yield from twin.run_operation({**entry, "name": UPLOAD, "place": entry.get("path", "")})
    except TtmemError:
        return


def _describe_moment(twin: _PlayedTwin, kept: list[tuple[str, str, str]]) -> Iterator[Message]:
    yield {"moment": True, **twin.read_state()}
    known = [(twin.find_number(name), name, path, role) for name, path, role in kept]
    there = [one for one in known if one[0] is not None]
    kept.clear()
    yield {
        "paths": [[number, path, True, role] for number, _, path, role in there],
        "tensors": [[number, twin.describe(name)] for number, name, _, _ in there],
    }


def _describe_device(twin: _PlayedTwin) -> Message:
    known = twin.memory_map
    return {
        "arch": known.architecture.ttnn_name,
        "grid": [known.grid.columns, known.grid.rows],
        "chips": 1,
        "mesh": [1, 1],
        "rank": 0,
        "parent": None,
        "chip_ids": [0],
        "pools": {pool.memory.name: [pool.banks, pool.base_address, pool.bytes_per_bank] for pool in known.pools},
    }
