# SPDX-License-Identifier: Apache-2.0
"""The twin as an engine of sweeps: it plays the steps that the real library would be given, in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator import Buffer, BufferClashError, BufferOverflowError, Device, OutOfMemoryError
from ttmem.allocator.operations import BOUNDED, EXACT, UNKNOWN, Launch, ProgramCache, plan_call, rule_for, run_call
from ttmem.allocator.operations.elementwise import broadcast_shape
from ttmem.explain import classify_oom
from ttmem.hardware import DATA_TYPES, MEMORIES, OpenSettings, open_board
from ttmem.operators import CannotRunError, Recipe, recipe_of
from ttmem.results import PASS, Outcome, Result
from ttmem.sweep.plan import Point, Settings
from ttmem.sweep.twin_calls import TwinCall, Written, take_apart, twin_call
from ttmem.tensors import LAYOUTS, TILE, InvalidSpecError, Placement, TensorSpec, round_up

_LEVELS = (EXACT, BOUNDED, UNKNOWN)
_ELEMENTWISE = ("unary", "binary")
_NO_ROWS_IN_PLACE = "Optional output tensor with Row Major input is not supported right now for Elementwise operations"


class WatchedDevice(Device):
    """A device that remembers how full each memory was."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.peaks: dict[str, int] = {}

    def allocate_placed(self, placement: Placement) -> Buffer:
        buffer = super().allocate_placed(placement)
        memory = placement.spec.memory
        held = self.view(memory).allocated_bytes_per_bank
        if held > self.peaks.get(memory.name, 0):
            self.peaks[memory.name] = held
        return buffer


class TwinEngine:
    """One board after another; every case finds an empty device."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._devices: dict[str, tuple[WatchedDevice, Any]] = {}

    def ask(self, points: Sequence[Point]) -> Iterator[Result]:
        """One row per point, in order."""
        for point in points:
            yield self._row(point)

    def close(self) -> None:
        """Nothing to end."""

    def device(self, board: str) -> WatchedDevice:
        """The empty device of a board."""
        if board not in self._devices:
            opened = OpenSettings(self._settings.l1_small_bytes, self._settings.trace_region_bytes)
            device = WatchedDevice(open_board(board, opened))
            self._devices[board] = device, device.checkpoint()
        device, empty = self._devices[board]
        device.restore(empty)
        device.peaks = {}
        return device

    def _row(self, point: Point) -> Result:
        started = time.perf_counter()
        engine = self._settings.engine
        try:
            recipe = recipe_of(
                point.case, memory=point.memory, layout=point.layout, float_dtype=self._settings.float_dtype
            )
        except CannotRunError as reason:
            return point.result(engine, Outcome("unsupported", message=str(reason), confidence=EXACT))
        device = self.device(point.board)
        run = _Run(device, recipe)
        outcome = Outcome(
            **run.play(),
            peak_bytes_per_bank={point.memory: device.peaks.get(point.memory, 0)},
            confidence=run.confidence,
            doubt="; ".join(run.doubts),
            seconds=time.perf_counter() - started,
        )
        return point.result(engine, outcome, recipe)


class _Run:
    """One recipe on one device."""

    def __init__(self, device: WatchedDevice, recipe: Recipe) -> None:
        self._device = device
        self._recipe = recipe
        self._cache = ProgramCache()
        self._held: dict[str, tuple[Buffer, TensorSpec]] = {}
        self._on_host: set[str] = set()
        self.confidence = EXACT
        self.doubts: list[str] = []

    def play(self) -> dict[str, Any]:
        """Status, message and figures of the first step that fails, or ``pass``."""
        try:
            for step in self._recipe.steps:
                self._step(step)
        except OutOfMemoryError as failure:
            return {
                "status": "oom",
                "message": failure.message,
                "needed_bytes": failure.total_bytes,
                "bytes_per_bank": failure.bytes_per_bank,
                "memory": failure.memory.name,
                "failure_class": classify_oom(
                    failure.bytes_per_bank,
                    failure.bank_bytes,
                    failure.allocated_bytes_per_bank,
                    failure.free_bytes_per_bank,
                    failure.largest_free_bytes_per_bank,
                    failure.memory.name,
                ),
            }
        except BufferClashError as failure:
            return _static("clash", "buffers/clash", failure.message)
        except BufferOverflowError as failure:
            return _static("overflow", "buffers/overflow", failure.message)
        except _NoRuleError as reason:
            self.doubt(UNKNOWN, str(reason))
            return {"status": "unsupported", "message": f"not judged: {reason}; ask --engine mock"}
        except (InvalidSpecError, BadInputError) as refusal:
            return {"status": "invalid", "message": refusal.message}
        return {"status": PASS}

    def doubt(self, level: str, why: str) -> None:
        """The whole row is as certain as its least certain step."""
        if _LEVELS.index(level) > _LEVELS.index(self.confidence):
            self.confidence = level
        if why and why not in self.doubts:
            self.doubts.append(why)

    def _step(self, step: Mapping[str, Any]) -> None:
        if "alloc" in step:
            spec = _spec(step)
            self._held[step["alloc"]] = self._device.allocate(spec), spec
        elif "host" in step:
            self._on_host.add(step["host"])
        elif "free" in step:
            self._drop(step["free"])
        else:
            self._call(take_apart(step), str(step["out"]))

    def _drop(self, name: str) -> None:
        """A buffer goes with its last name: a view of it keeps it."""
        buffer, _ = self._held.pop(name)
        if all(other is not buffer for other, _ in self._held.values()):
            self._device.free(buffer)

    def _call(self, written: Written, out: str) -> None:
        if rule_for(written.function) is None or any(name in self._on_host for name in written.tensors):
            self._without_rule(written, out)
            return
        inputs = [self._held[name] for name in written.tensors]
        asked = twin_call(written, [spec for _, spec in inputs])
        for why in asked.doubts:
            self.doubt(BOUNDED, why)
        if asked.in_place:
            assert written.target is not None
            if len(inputs) > 1 and any(spec.layout is not TILE for _, spec in inputs):
                raise InvalidSpecError(_NO_ROWS_IN_PLACE)
            self._in_place(asked)
            self._held[out] = self._held[written.target]
            return
        result = run_call(self._device, asked.call, [buffer for buffer, _ in inputs], self._cache)
        self.doubt(result.plan.confidence, result.plan.note)
        if result.buffer is None or result.plan.result_spec is None:
            raise _NoRuleError(result.plan.note)
        self._held[out] = result.buffer, result.plan.result_spec

    def _in_place(self, asked: TwinCall) -> None:
        """The program runs as ever; the buffer for the result is the one that is there."""
        plan = plan_call(asked.call, self._device.memory_map)
        self.doubt(plan.confidence, plan.note)
        for step in plan.steps:
            if isinstance(step, Launch) and step.buffer_bytes:
                end = self._device.memory_map.l1_base_address
                for size in step.buffer_bytes:
                    end = round_up(end, self._device.memory_map.quantum_bytes) + size
                self._device.check_region(end, step.family)

    def _without_rule(self, written: Written, out: str) -> None:
        """What can be said all the same: where the result's shape is known it must fit beside the inputs."""
        recipe = self._recipe
        specs = [self._held[name][1] for name in written.tensors if name in self._held]
        memory = written.memory or (specs[0].memory if specs else MEMORIES.find("DRAM"))
        why = f"the twin has no rule for ttnn.{written.function}"
        if recipe.operator.kind in _ELEMENTWISE and specs:
            shape: tuple[int, ...] = ()
            for spec in specs:
                shape = broadcast_shape(shape, spec.shape)
            self.doubt(BOUNDED, f"{why}: taken to need its inputs and a result like them")
            if written.target is not None:
                self._held[out] = self._held[written.target]
                return
            result = TensorSpec(shape, specs[0].dtype, specs[0].layout, memory)
            self._held[out] = self._device.allocate(result), result
            return
        is_last = written_is_last(recipe, out)
        if not (is_last and recipe.case.outputs and specs):
            raise _NoRuleError(why)
        self.doubt(UNKNOWN, f"{why}: inputs and the recorded results alone")
        for index, output in enumerate(recipe.case.outputs[:1]):
            result = TensorSpec(output.shape, specs[0].dtype, specs[0].layout, memory)
            self._held[f"{out}#{index}"] = self._device.allocate(result), result


def written_is_last(recipe: Recipe, out: str) -> bool:
    """Whether a call's result is what the case is about."""
    return out == "result" or out.startswith("result.")


class _NoRuleError(Exception):
    """Neither a rule nor the source says what the operation makes."""


def _static(status: str, failure_class: str, message: str) -> dict[str, Any]:
    return {"status": status, "failure_class": failure_class, "message": message, "memory": "L1"}


def _spec(step: Mapping[str, Any]) -> TensorSpec:
    return TensorSpec(
        tuple(step["shape"]),
        DATA_TYPES.find(step["dtype"]),
        LAYOUTS.find(step["layout"]),
        MEMORIES.find(step["memory"]),
    )
