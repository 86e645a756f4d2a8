# SPDX-License-Identifier: Apache-2.0
"""Executes programs on the account and yields what the runtime would print, in its order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from loggen.account import Account, BlockPrinter, Buffer
from loggen.failures import FailureText, ProgramFailed
from loggen.lines import MARK, OUT, runtime_prefix
from loggen.noise import Noise, Segment
from loggen.options import Options
from loggen.program import (
    CALL,
    CAPTURE,
    COMPUTE,
    DEALLOCATE,
    END_CAPTURE,
    FAIL,
    LOAD_CACHED,
    RETURN,
    VIEW,
    Instruction,
    Program,
    Value,
    inline_type,
)
from loggen.tensors import TensorType
from loggen.truth import NOT_COMPUTE, Moment, Recorder, Run

Output = tuple[int, Any]
Frame = dict[Value, Buffer]

_TRACE_BYTES_PER_BANK = 24_576


class Executor:
    """One process with one device. State outlives runs: caches, resident arguments, trace slots."""

    def __init__(
        self, options: Options, account: Account, noise: Noise, failing: Callable[[Instruction], FailureText]
    ) -> None:
        ansi = options.ansi
        self._options = options
        self._account = account
        self._noise = noise
        self._failing = failing
        self.recorder = Recorder(account)
        self._debug = runtime_prefix("RuntimeTTNN", "DEBUG", ansi=ansi)
        self._always = runtime_prefix("Always", "DEBUG", ansi=ansi)
        self._op_prefix = self._debug + b"Executing operation: "
        level = "DEBUG" if options.debug_blocks else "INFO"
        self._printer = BlockPrinter(account, runtime_prefix("Always", level, ansi=ansi))
        self._op_types: dict[str, bytes] = {}
        self._lines_on = not options.ops_off
        self._blocks_on = not options.blocks_off
        self._keep_lines = not options.unique_ops
        self._cache: dict[str, list[Buffer]] = {}
        self._resident: dict[str, Buffer] = {}
        self._traces: dict[str, list[Buffer]] = {}
        self._held_outputs: list[Buffer] = []
        self._executed = 0
        self._compute_executed = 0
        self._blocks_printed = 0
        self._misses = 0
        self._previous: tuple[int, Instruction] | None = None
        self._run: Run | None = None
        self.fail_const_eval: int | None = None
        """Ordinal of the const-eval miss whose second op throws (`--exception-then-run`)."""

    @property
    def executed(self) -> int:
        return self._executed

    @property
    def last(self) -> tuple[int, Instruction] | None:
        """The op executed last: the one that failed, if something just did."""
        return self._previous

    def upload(self, program: Program) -> None:
        """PJRT moves resident arguments to the device when a graph is first used: no line is printed."""
        for argument in program.arguments:
            type_ = argument.value.type
            if argument.resident and argument.name not in self._resident and isinstance(type_, TensorType):
                buffer = self._account.allocate(type_, None, "argument")
                buffer.owners, buffer.retained = 1, True
                self._resident[argument.name] = buffer

    def leak(self, bytes_per_bank: int) -> None:
        """Memory that somebody keeps and no line explains."""
        self._account.allocate_raw("DRAM", bytes_per_bank).owners = 1

    def submit(self, program: Program, run: Run) -> Iterator[Output]:
        """One run: a top-level execution with everything nested in it."""
        self._run = run
        self.recorder.runs.append(run)
        yield MARK, lambda offset: setattr(run, "byte_start", offset)
        if self._options.submit and self._blocks_on:
            yield OUT, self._submit_block("before")
        arguments = [self._resident.get(a.name) if a.resident else None for a in program.arguments]
        frame = self._bind(program, arguments)
        retained_hosts = {a.value for a in program.arguments if a.argument_type in ("parameter", "constant")}
        try:
            results = yield from self._execute(program, frame, retained_hosts)
            run.finished = True
            self._held_outputs = [buffer for buffer in results if buffer is not None]
            if self._options.submit and self._blocks_on:
                yield OUT, self._submit_block("after")
        finally:
            run.dram_bytes_after = self._account.dram.allocated
            if self._lines_on and self._executed > run.first_index:
                run.last_index = self._executed - 1

    def release_outputs(self) -> None:
        """PJRT lets go of the previous run's outputs, with no line."""
        for buffer in self._held_outputs:
            self._account.disown(buffer)
        self._held_outputs = []

    def _bind(self, program: Program, buffers: list[Buffer | None]) -> Frame:
        frame: Frame = {}
        for argument, buffer in zip(program.arguments, buffers, strict=True):
            if buffer is not None:
                buffer.owners += 1
                frame[argument.value] = buffer
        return frame

    def _execute(
        self, program: Program, frame: Frame, retained_hosts: frozenset[Value] | set[Value] = frozenset()
    ) -> Generator[Output, None, list[Buffer | None]]:
        """Runs one program; returns its results (owned once more) to whoever called it."""
        recorder, account, noise = self.recorder, self._account, self._noise
        in_const_eval = program.role == "const_eval"
        if self._lines_on:
            recorder.programs[program.name] += 1
            yield OUT, self._debug + f"Starting execution of program: {program.name}\n".encode()
        results: list[Buffer | None] = []
        try:
            for op in program:
                kind = op.kind
                if kind == RETURN:
                    results = [frame.get(v) for v in op.operands]
                    for buffer in results:
                        if buffer is not None:
                            buffer.owners += 1
                    break
                index = self._executed
                self._executed = index + 1
                block = b""
                if self._blocks_on:
                    block = self._block(op, program, index)
                line = b""
                if self._lines_on:
                    line = op.line or self._render(op)
                    recorder.histogram[op.op] += 1
                    if in_const_eval:
                        recorder.const_eval_ops += 1
                if noise.active:
                    yield from noise.between()
                if line and recorder.wants_sample(index):
                    yield MARK, _set_offset(recorder.sample(index, op, program))
                if noise.active:
                    yield from noise.disturb(line, block)
                elif line or block:
                    yield OUT, line + block
                self._previous = (index, op)
                if kind == COMPUTE:
                    for value in op.results:
                        type_ = value.type
                        if type_.pool is not None:
                            buffer = account.allocate(type_, (index, op.op, op.loc.display))
                            buffer.owners = 1
                            frame[value] = buffer
                    for value in op.frees:
                        account.disown(frame.pop(value))
                    if op.mark:
                        self._note_regressed(op, index)
                elif kind == DEALLOCATE:
                    yield from self._deallocate(op.operands[0], frame, retained_hosts)
                elif kind == LOAD_CACHED:
                    yield from self._load_cached(op, frame)
                elif kind == VIEW:
                    shared = frame[op.operands[0]]
                    shared.owners += 1
                    frame[op.results[0]] = shared
                elif kind == CALL:
                    inner = self._bind(op.callees[0], [frame.get(v) for v in op.operands])
                    self._take_results(op, frame, (yield from self._execute(op.callees[0], inner)))
                elif kind == CAPTURE:
                    yield from self._capture(op, frame)
                elif kind == END_CAPTURE:
                    account.allocate_raw("TRACE", _TRACE_BYTES_PER_BANK, "op").owners = 1
                elif kind == FAIL:
                    raise ProgramFailed(self._failing(op))
                if in_const_eval and self.fail_const_eval == self._misses and op.op == "ttnn.to_device":
                    self.fail_const_eval = None
                    raise ProgramFailed(self._failing(op))
                for value in op.drops:
                    dropped = frame.pop(value, None)
                    if dropped is not None:
                        account.disown(dropped)
        finally:
            for buffer in frame.values():
                account.disown(buffer)
        if self._lines_on:
            yield OUT, self._debug + f"Finished execution of program: {program.name}\n".encode()
        return results

    def _render(self, op: Instruction) -> bytes:
        line = self._op_prefix + op.text(inline_type, op.loc.text).encode() + b"\n"
        if self._keep_lines:
            op.line = line
        return line

    def _block(self, op: Instruction, program: Program, index: int) -> bytes:
        recorder, account, run = self.recorder, self._account, self._run
        dram, l1 = account.dram.allocated, account.l1.allocated
        recorder.blocks["before operation"] += 1
        block_number = self._blocks_printed
        self._blocks_printed += 1
        assert run is not None
        if dram > run.dram_peak_bytes:
            run.dram_peak_bytes = dram
        shown_index = index if self._lines_on else None
        previous = self._previous if self._lines_on else None
        if dram > recorder.dram.seen_bytes or l1 > recorder.l1.seen_bytes:
            moment = Moment(shown_index, op, program.name, "before operation")
            if dram > recorder.dram.seen_bytes:
                recorder.dram.observe(moment, previous, run.number, block_number)
            if l1 > recorder.l1.seen_bytes:
                recorder.l1.observe(moment, previous, run.number, block_number)
        if op.op not in NOT_COMPUTE:
            if dram > recorder.dram_compute.seen_bytes or l1 > recorder.l1_compute.seen_bytes:
                moment = Moment(shown_index, op, program.name, "before operation")
                for watch, value in ((recorder.dram_compute, dram), (recorder.l1_compute, l1)):
                    if value > watch.seen_bytes:
                        watch.observe(moment, previous, run.number, block_number)
                        assert watch.record is not None
                        watch.record.setdefault("nondealloc_index", self._compute_executed)
            self._compute_executed += 1
        op_type = self._op_types.get(op.op_type)
        if op_type is None:
            op_type = self._op_types[op.op_type] = op.op_type.encode()
        return self._printer.before_operation(op_type)

    def _submit_block(self, when: str) -> bytes:
        recorder, account, run = self.recorder, self._account, self._run
        assert run is not None
        where = f"{when} submit"
        recorder.blocks[where] += 1
        moment = Moment(None, None, run.program, where)
        for watch, pool in ((recorder.dram, account.dram), (recorder.l1, account.l1)):
            if pool.allocated > watch.seen_bytes:
                watch.observe(moment, self._previous if self._lines_on else None, run.number, self._blocks_printed)
        run.dram_peak_bytes = max(run.dram_peak_bytes, account.dram.allocated)
        self._blocks_printed += 1
        return self._printer.around_submit(when)

    def _deallocate(
        self, value: Value, frame: Frame, retained_hosts: frozenset[Value] | set[Value]
    ) -> Iterator[Segment]:
        buffer = frame.get(value)
        if value in retained_hosts if buffer is None else buffer.retained:
            if self._lines_on:
                self.recorder.retained_deallocations += 1
                message = b"Tensor is retained thus not deallocating. To deallocate, set retain to false first\n"
                yield OUT, self._always + message
        elif buffer is not None:
            del frame[value]
            self._account.disown(buffer)

    def _load_cached(self, op: Instruction, frame: Frame) -> Iterator[Output]:
        callee = op.callees[0]
        name = callee.name
        if self._lines_on and self._options.grammar != "tt":
            yield OUT, self._always + f"Running LoadCachedOp for function {name} with hash: {callee.digest}\n".encode()
        cached = self._cache.get(callee.digest)
        if cached is not None:
            if self._lines_on:
                self.recorder.const_eval_hits += 1
                yield OUT, self._always + f"Cache hit for function: {name}\n".encode()
        else:
            self._misses += 1
            if self._lines_on:
                self.recorder.const_eval_misses += 1
                yield OUT, self._always + f"Cache miss or invalid cache for function: {name}\n".encode()
            inner = self._bind(callee, [frame.get(v) for v in op.operands])
            results = yield from self._execute(callee, inner)
            cached = [buffer for buffer in results if buffer is not None]
            for buffer in cached:
                buffer.retained = True
            self._cache[callee.digest] = cached
            if self._lines_on:
                yield OUT, self._always + f"executed sub-func: {name}\n".encode()
        for value, buffer in zip(op.results, cached, strict=True):
            buffer.owners += 1
            frame[value] = buffer

    def _capture(self, op: Instruction, frame: Frame) -> Iterator[Output]:
        """First run: slots, a warm-up, the capture. Later: one op line, whatever the trace contains."""
        slots, capture, execute = op.callees
        kept = self._traces.get(capture.name)
        if kept is None:
            if self._lines_on:
                self.recorder.trace_captures += 1
                yield OUT, self._always + b"Trace cache miss, allocating slots and capturing trace\n"
            made = yield from self._execute(slots, {})
            operands = [frame.get(v) for v in op.operands[1:]]
            results = yield from self._execute(capture, self._bind(capture, [*made, *operands]))
            kept = [buffer for buffer in [*results, *made] if buffer is not None]
            for buffer in kept:
                buffer.retained = True
            self._traces[capture.name] = kept
        else:
            if self._lines_on:
                self.recorder.trace_replays += 1
                yield OUT, self._always + b"Trace cache hit, executing trace directly\n"
            yield from self._execute(execute, {})
        for value, buffer in zip(op.results, kept, strict=False):
            buffer.owners += 1
            frame[value] = buffer

    @staticmethod
    def _take_results(op: Instruction, frame: Frame, results: list[Buffer | None]) -> None:
        """The caller's names take over the ownership the callee's return added."""
        for value, buffer in zip(op.results, results, strict=True):
            if buffer is not None:
                frame[value] = buffer

    def _note_regressed(self, op: Instruction, index: int) -> None:
        if self.recorder.regressed is None:
            type_ = op.results[0].type
            assert isinstance(type_, TensorType)
            self.recorder.regressed = {
                "index": index if self._lines_on else None,
                "op": op.op,
                "loc": op.loc.display,
                "loc_text": op.loc.text,
                "shape": list(type_.shape),
                "dtype": type_.element,
                "tensor_bytes_per_bank": self._account.dram.taken(type_.bytes_per_bank),
                "dram_bytes_after_op": 0,
            }
        after = self.recorder.regressed
        after["dram_bytes_after_op"] = max(after["dram_bytes_after_op"], self._account.dram.allocated)


def _set_offset(entry: dict[str, Any]) -> Callable[[int], None]:
    def set_offset(offset: int) -> None:
        entry["byte_offset"] = offset

    return set_offset
