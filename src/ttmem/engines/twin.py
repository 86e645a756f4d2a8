# SPDX-License-Identifier: Apache-2.0
"""The twin as an engine: it plays the steps of the real library, in this process and in microseconds.

with TwinEngine(board="n150") as engine:
    outcome = engine.ask([{"alloc": "a", "shape": [64, 64], "dtype": "bfloat16", "layout": "tile"}])

Steps, answers and outcomes are those of ``engines.ttnn``. An outcome is as certain as its least certain step. A call
may declare what it ``makes`` (``"elementwise"``, or a list of shapes): the twin allocates it where it has no record of
the operation; the real library ignores it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ttmem.base.errors import BadInputError, TtmemError
from ttmem.engines.engine import Engine, EngineSettings, Message, ScriptEntry, Step, Steps
from ttmem.failures.classify import classify
from ttmem.failures.failure import classify_oom
from ttmem.failures.outcome import CLASH, INVALID, NOT_JUDGED, OOM, OVERFLOW, PASS, UNSUPPORTED, Outcome
from ttmem.hardware import DEFAULT_RELEASE, HOST, L1, MEMORIES, OpenSettings, open_board
from ttmem.profile.model import L1_PARTS
from ttmem.twin.device import Buffer, Checkpoint, Device, WatchedDevice
from ttmem.twin.errors import BufferClashError, OutOfMemoryError, StaticBuffersError
from ttmem.twin.operations import (
    BOUNDED,
    EXACT,
    RECORDS,
    UNKNOWN,
    ParsedCall,
    Plan,
    ProgramCache,
    build_call,
    no_plan,
    parse_call,
    plan_on_device,
    run_call,
)
from ttmem.twin.operations.elementwise import broadcast_shape
from ttmem.twin.operations.run import RefusedError
from ttmem.twin.programs import DeviceProgram, StaticBuffer
from ttmem.twin.replay import Placements, read_spec
from ttmem.twin.tensor_spec import CoreRange, InvalidSpecError, Shard, TensorSpec

Answer = dict[str, Any]

_LEVELS = (EXACT, BOUNDED, UNKNOWN)
_OUTCOME_FIELDS = ("status", "failure_class", "memory", "message", "needed_bytes", "bytes_per_bank")
_NOTHING = TensorSpec((0,))


class NamedTensors:
    """Tensors by name. A buffer is freed with its last name: a view keeps it."""

    def __init__(self, other: NamedTensors | None = None) -> None:
        self.named: dict[str, tuple[Buffer, TensorSpec]] = dict(other.named) if other else {}
        self._uses: dict[int, int] = dict(other._uses) if other else {}
        """Number of names of a buffer, by identity; a buffer freed by force has none."""
        self.on_host: dict[str, TensorSpec] = dict(other.on_host) if other else {}
        self.further: dict[str, list[str]] = dict(other.further) if other else {}
        """Names of a call's other results, where its ``out`` is one name for all of them."""

    def keep(self, name: str, buffer: Buffer, spec: TensorSpec, device: Device) -> None:
        self._uses[id(buffer)] = self._uses.get(id(buffer), 0) + 1
        if name in self.named:
            self.drop(name, device)
        self.named[name] = buffer, spec

    def drop(self, name: str, device: Device, *, by_force: bool = False) -> None:
        if self.on_host.pop(name, None) is not None:
            return
        buffer, _ = self.find(name)
        del self.named[name]
        left = self._uses.get(id(buffer), 0) - 1
        if left > 0 and not by_force:
            self._uses[id(buffer)] = left
        elif self._uses.pop(id(buffer), 0):
            device.free(buffer)

    def free(self, buffer: Buffer, device: Device) -> None:
        if self._uses.pop(id(buffer), 0):
            device.free(buffer)

    def find(self, name: str) -> tuple[Buffer, TensorSpec]:
        try:
            return self.named[name]
        except KeyError:
            raise BadInputError(f"there is no tensor '{name}'") from None


class NoRecordError(TtmemError):
    """The result of an operation is unknown: it has no record, and its step declares none."""

    exit_code = 1


class TwinEngine(Engine):
    device_type: type[WatchedDevice] = WatchedDevice

    def __init__(self, settings: EngineSettings | None = None, **changes: Any) -> None:
        super().__init__(settings, **changes)
        self.warnings: list[str] = []
        """Problems that the library would not notice."""
        self._device: WatchedDevice | None = None
        self._tensors, self._cache = NamedTensors(), ProgramCache()
        self._kept: tuple[Checkpoint, NamedTensors, ProgramCache] | None = None
        """State of the device after asking without isolation."""
        self._forget_doubts()
        self._descriptions: dict[int, Answer] = {}
        """By the identity of placements, which the device keeps."""

    @property
    def device(self) -> Device:
        """The board as the steps have left it."""
        return self._open()

    def plan(self, step: Step) -> Plan:
        """Return the plan of a call step on the current board."""
        written = parse_call(step)
        record = RECORDS.get(written.function)
        if record is None:
            return no_plan(_explain_missing_record(written))
        device = self._open()
        inputs = [spec for _, spec in map(self._find_input, written.tensors)]
        target = self._tensors.find(written.target)[1] if written.target is not None else None
        return plan_on_device(device, build_call(record, written, inputs, target), self._cache)

    def ask_all(
        self, cases: Sequence[Steps], *, timeout: float | None = None, isolated: bool = True, stop: bool = False
    ) -> Iterator[Outcome]:
        """Yield one outcome per case, in order; nothing here takes long enough to time out."""
        return (self._ask(steps, isolated, stop) for steps in cases)

    def play(self, script: Sequence[ScriptEntry], *, timeout: float | None = None) -> Iterator[Message]:
        """Play a script in this process, on a board of its own."""
        from ttmem.engines.twin_player import play

        return play(self.settings, script)

    def _ask(self, steps: Steps, isolated: bool, stop: bool) -> Outcome:
        started = time.perf_counter()
        device = self._open()
        if self._kept is not None:
            checkpoint, tensors, cache = self._kept
            device.restore(checkpoint)
            self._tensors, self._cache = NamedTensors(tensors), ProgramCache(cache)
        self._forget_doubts()
        device.peaks = {memory.name: device.get_allocated_bytes_per_bank(memory) for memory in MEMORIES}
        answers: list[Answer] = []
        failure: TtmemError | None = None
        for step in steps:
            try:
                answers.append({"ok": True, **self._do(step)})
            except TtmemError as error:
                failure = failure or error
                answers.append({"ok": False, "error": error.message, "kind": type(error).__name__})
                if stop:
                    break
        outcome = Outcome(
            **self._judge(failure),
            answers=tuple(answers),
            peak_bytes_per_bank=self._sure_peaks or self._open().peaks,
            l1_parts=dict(zip(L1_PARTS, (*self._l1, 0), strict=True)),
            seconds=time.perf_counter() - started,
            confidence=self._confidence,
            doubt="; ".join(self._doubts),
        )
        if not isolated:
            self._kept = self._open().checkpoint(), self._tensors, self._cache
        return outcome

    def _judge(self, failure: TtmemError | None) -> dict[str, Any]:
        """Return status, class and figures of the first step that failed."""
        if failure is None and self._confidence == EXACT:
            return {"status": PASS}
        if failure is None or isinstance(failure, NoRecordError):
            why = failure.message if failure else self._doubts[0]
            return {"status": UNSUPPORTED, "message": f"{NOT_JUDGED}{why}; ask --engine mock"}
        if isinstance(failure, OutOfMemoryError):
            figures = (
                failure.bytes_per_bank,
                failure.bank_bytes,
                failure.allocated_bytes_per_bank,
                failure.free_bytes_per_bank,
                failure.largest_free_bytes_per_bank,
            )
            return {
                "status": OOM,
                "failure_class": classify_oom(*figures, failure.memory.name),
                "memory": failure.memory.name,
                "message": failure.message,
                "needed_bytes": failure.total_bytes,
                "bytes_per_bank": failure.bytes_per_bank,
            }
        if isinstance(failure, StaticBuffersError):
            status = CLASH if isinstance(failure, BufferClashError) else OVERFLOW
            return {
                "status": status,
                "failure_class": f"buffers/{status}",
                "memory": L1.name,
                "message": failure.message,
            }
        known = classify(failure.message, exception="RuntimeError") if isinstance(failure, InvalidSpecError) else None
        if known is not None and (isinstance(failure, RefusedError) or known.status == INVALID):
            return {name: getattr(known, name) for name in _OUTCOME_FIELDS}
        return {"status": INVALID, "message": failure.message}

    def _forget_doubts(self) -> None:
        self._confidence, self._doubts, self._l1 = EXACT, list[str](), (0, 0, 0)
        self._sure_peaks: dict[str, int] = {}
        """Peaks before the first call without a rule: later ones are uncertain."""

    def _doubt(self, level: str, why: str) -> None:
        if _LEVELS.index(level) > _LEVELS.index(self._confidence):
            self._confidence = level
            if level == UNKNOWN:
                self._sure_peaks = dict(self._open().peaks)
        if why and why not in self._doubts:
            self._doubts.append(why)

    def _open(self) -> WatchedDevice:
        if self._device is None:
            known = self.settings
            opened = OpenSettings(known.l1_small_bytes, known.trace_region_bytes, known.worker_l1_bytes or 0)
            return self._start(replace(opened, mesh=known.mesh or (1, 1)))
        return self._device

    def _start(self, opened: OpenSettings) -> WatchedDevice:
        release = self.settings.release or DEFAULT_RELEASE
        self._device = self.device_type(open_board(self.settings.board, opened, release=release))
        self._tensors, self._cache = NamedTensors(), ProgramCache()
        self._kept = self._device.checkpoint(), self._tensors, self._cache
        self._placements = Placements(self._device)
        self._descriptions.clear()
        return self._device

    def _do(self, step: Step) -> Answer:
        """Run a step by its first key, like the worker."""
        kind = next(iter(step), "")
        action: Callable[[Step], Answer] | None = getattr(self, f"_do_{kind}", None)
        if action is None:
            raise BadInputError(f"unknown step '{kind}'")
        return action(step)

    def _do_open(self, step: Step) -> Answer:
        wanted = step["open"]
        names = ("l1_small_size", "trace_region_size", "worker_l1_size")
        small, trace, worker = (int(wanted.get(name) or 0) for name in names)
        rows, columns = wanted.get("mesh") or (1, 1)
        opened = OpenSettings(small, trace, worker, wanted.get("dispatch"), (int(rows), int(columns)))
        memory_map = self._start(opened).memory_map
        return {
            "arch": memory_map.architecture.ttnn_name,
            "grid": [memory_map.grid.columns, memory_map.grid.rows],
            "pools": {p.memory.name: [p.banks, p.base_address, p.bytes_per_bank] for p in memory_map.pools},
            "dram_alignment": memory_map.architecture.dram_alignment_bytes,
            "l1_alignment": memory_map.architecture.l1_alignment_bytes,
        }

    def _do_alloc(self, step: Step) -> Answer:
        device = self._open()
        buffer = device.allocate_placed(self._placements.find(step))
        self._tensors.keep(step["alloc"], buffer, buffer.placement.spec, device)
        return self._describe_buffer(buffer)

    def _do_host(self, step: Step) -> Answer:
        known = {key: value for key, value in step.items() if key not in ("host", "fill")}
        self._tensors.on_host[step["host"]] = replace(read_spec(known), memory=HOST)
        return {}

    def _do_free(self, step: Step) -> Answer:
        device, name, by_force = self._open(), step["free"], step.get("force", True)
        self._tensors.drop(name, device, by_force=by_force)
        for more in self._tensors.further.pop(name, ()):
            if more in self._tensors.named:
                self._tensors.drop(more, device, by_force=by_force)
        return {}

    def _do_view(self, step: Step) -> Answer:
        memory, device = MEMORIES.find(step["view"]), self._open()
        view = device.view(memory)
        answer: Answer = {
            "allocated": view.allocated_bytes_per_bank,
            "free": view.free_bytes_per_bank,
            "largest_free": view.largest_free_bytes_per_bank,
        }
        if step.get("blocks"):
            base = device.memory_map.pool(memory).base_address
            answer["blocks"] = [[address - base, size, taken] for address, size, taken in device.blocks(memory)]
        return answer

    def _do_program(self, step: Step) -> Answer:
        buffers = [
            StaticBuffer(one["bytes"], tuple(CoreRange(*r) for r in one["ranges"]), one["page_bytes"], (one["index"],))
            for one in step["program"]
        ]
        layout = self._open().launch(DeviceProgram(tuple(buffers)))
        self.warnings += layout.warnings
        return {"addresses": list(layout.addresses)}

    def _do_clear(self, step: Step) -> Answer:
        device = self._open()
        self._tensors.on_host.clear()
        for name in list(self._tensors.named):
            self._tensors.drop(name, device)
        if step["clear"] == "cache":
            self._cache.clear(device)
        return {}

    def _do_call(self, step: Step) -> Answer:
        written, device = parse_call(step), self._open()
        record = RECORDS.get(written.function)
        if record is None or not (
            record.takes_host_tensors or self._tensors.on_host.keys().isdisjoint(written.tensors)
        ):
            return self._allocate_declared(written, step)
        held = [self._find_input(name) for name in written.tensors]
        target, into = self._tensors.find(written.target) if written.target is not None else (None, None)
        call = build_call(record, written, [spec for _, spec in held], into)
        plan = plan_on_device(device, call, self._cache)
        self._doubt(plan.confidence, plan.note)  # first: a bounded operation that fails is not certain either
        buffers = [buffer for buffer, _ in held]
        result = run_call(device, call, buffers, self._cache, target, plan, partial(self._tensors.free, device=device))
        self._l1 = max(self._l1, result.l1_parts, key=sum)
        if not result.made:
            raise NoRecordError(result.plan.note)
        return self._keep_results(step, result.made)

    def _find_input(self, name: str) -> tuple[Buffer, TensorSpec]:
        """Return a tensor that a call names; one on the host takes no memory."""
        spec = self._tensors.on_host.get(name)
        return self._tensors.find(name) if spec is None else (self._open().allocate(_NOTHING), spec)

    def _allocate_declared(self, written: ParsedCall, step: Step) -> Answer:
        """Allocate the declared or elementwise result of a call without a record, next to its inputs."""
        makes, why = step.get("makes"), _explain_missing_record(written)
        specs = [self._tensors.named[name][1] for name in written.tensors if name in self._tensors.named]
        if not specs or not makes:
            self._doubt(UNKNOWN, why)
            raise NoRecordError(why)
        if makes == "elementwise":
            shape: tuple[int, ...] = ()
            for spec in specs:
                shape = broadcast_shape(shape, spec.shape)
            self._doubt(BOUNDED, f"{why}: taken to need its inputs and a result like them")
            if written.target is not None:
                return self._keep_results(step, [self._tensors.find(written.target)])
        else:
            shape = tuple(makes[0])
            self._doubt(UNKNOWN, f"{why}: inputs and the recorded results alone")
        result = TensorSpec(shape, specs[0].dtype, specs[0].layout, written.memory or specs[0].memory)
        try:
            return self._keep_results(step, [(self._open().allocate(result), result)])
        except (OutOfMemoryError, InvalidSpecError):
            if self._confidence == UNKNOWN:  # it may be another type, in another layout, or no tensor at all
                raise NoRecordError(why) from None
            raise

    def _keep_results(self, step: Step, made: Sequence[tuple[Buffer, TensorSpec]]) -> Answer:
        """Keep the named results; the others are freed at once, as in the library."""
        device, out = self._open(), step.get("out")
        # One name for several results is a name for all of them.
        names = [out, *(f"{out} {more}" for more in range(1, len(made)))] if isinstance(out, str) else list(out or ())
        if isinstance(out, str) and len(made) > 1:
            self._tensors.further[out] = names[1:]
        described = []
        for number, (buffer, spec) in enumerate(made):
            name = names[number] if number < len(names) else ""
            self._tensors.keep(name or f" {number}", buffer, spec, device)
            described.append(self._describe_buffer(Buffer(buffer.address, device.place(spec))))
        for number in range(len(made)):
            if number >= len(names) or not names[number]:
                self._tensors.drop(f" {number}", device)
        return {"results": described}

    def _describe_buffer(self, buffer: Buffer) -> Answer:
        """Describe a tensor like the worker."""
        placement = buffer.placement
        described = self._descriptions.get(id(placement))
        if described is None:
            spec, paging = placement.spec, placement.paging
            described = self._descriptions[id(placement)] = {
                "shape": list(spec.shape),
                "padded": list(paging.padded_shape),
                "dtype": spec.dtype.name,
                "layout": spec.layout.name,
                "memory": spec.memory.name,
                "page_bytes": paging.page_bytes,
                "pages": paging.pages,
                "aligned_page_bytes": placement.aligned_page_bytes,
            }
            if isinstance(cut := spec.shard, Shard):
                described["shard"], described["shard_cores"] = [cut.height, cut.width], cut.cores
        return {**described, "address": buffer.address}


def _explain_missing_record(written: ParsedCall) -> str:
    return f"the twin has no rule for ttnn.{written.function}"
