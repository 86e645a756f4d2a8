# SPDX-License-Identifier: Apache-2.0
"""Failure texts of every generation, each printed as often as the real stack prints it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from loggen.lines import ERR, OUT, PY, Clock, metal_line, plugin_line, runtime_prefix
from loggen.noise import Segment

_ROOT = "/build/third_party/tt-metal"


@dataclass(frozen=True, slots=True)
class FailureText:
    """One failure: its class, its core message, where the exception says it comes from, and the printed numbers."""

    kind: str
    failure_class: str
    message: str
    thrower: str
    """`TT_FATAL` or `TT_THROW`."""
    site: str
    condition: str
    numbers: dict[str, int] = field(default_factory=dict)
    memory: str | None = None
    core_range: str | None = None
    named_in_log_line: bool = True
    """Since 2026 the tt-metal line repeats the thrower before the message."""


class ProgramFailed(Exception):  # noqa: N818  (control flow: it unwinds the simulated programs)
    """Raised where the simulated runtime throws; every open program ends without its Finished line."""

    def __init__(self, failure: FailureText) -> None:
        super().__init__(failure.message)
        self.failure = failure


def out_of_memory(
    kind: str, *, memory: str, requested: int, banks: int, per_bank: int, bank_size: int, allocated: int, largest: int
) -> FailureText:
    free = bank_size - allocated
    state = f"bank size is {bank_size} B (allocated: {allocated} B, free: {free} B, largest free block: {largest} B)"
    start = f"Out of Memory: Not enough space to allocate {requested} B {memory} buffer across {banks} banks, "
    start += f"where each bank needs to store {per_bank} B"
    numbers = {"requested_bytes": requested, "banks": banks, "bytes_per_bank": per_bank}
    full = numbers | {"bank_bytes": bank_size, "allocated": allocated, "free": free, "largest_free": largest}
    cause = "oom/too-big" if per_bank > bank_size else "oom/capacity" if free < per_bank else "oom/fragmented"
    site = f"{_ROOT}/tt_metal/impl/allocator/bank_manager.cpp"
    if kind == "v1":
        return FailureText(
            kind,
            "oom/unknown",
            start,
            "TT_THROW",
            f"{site}:141",
            "tt::exception",
            numbers,
            memory,
            named_in_log_line=False,
        )
    if kind == "v2":
        message = f"{start}, but bank size is only {bank_size} B"
        numbers["bank_bytes"] = bank_size
        known = "oom/too-big" if per_bank > bank_size else "oom/unknown"
        return FailureText(
            kind,
            known,
            message,
            "TT_FATAL",
            f"{site}:433",
            "address.has_value()",
            numbers,
            memory,
            named_in_log_line=False,
        )
    if kind == "dep":
        message = (
            f"Out of Memory: Not enough space after considering dependencies to allocate {requested} B {memory} "
            f"across {banks} banks ({per_bank} B per bank), {state}"
        )
        return FailureText(kind, cause, message, "TT_FATAL", f"{site}:498", "false", full, memory)
    return FailureText(kind, cause, f"{start}, but {state}", "TT_FATAL", f"{site}:462", "false", full, memory)


def buffer_clash(
    kind: str, *, l1_address: int, region_end: int, columns: int, rows: int, old_spelling: bool
) -> FailureText:
    family = "dataflow" if kind == "clash-df" else "circular"
    core_range = _core_range(columns, rows, old_spelling=old_spelling)
    message = (
        f"Statically allocated {family} buffers in program 453 clash with L1 buffers on core range {core_range}. "
        f"L1 buffer allocated at {l1_address} and static {family} buffer region ends at {region_end}"
    )
    numbers = {"program": 453, "l1_buffer_address": l1_address, "region_end": region_end}
    site = f"{_ROOT}/tt_metal/impl/program/program.cpp:1021"
    return FailureText(kind, "buffers/clash", message, "TT_THROW", site, "tt::exception", numbers, "L1", core_range)


def buffer_overflow(*, region_end: int, l1_bytes: int, columns: int, rows: int, old_spelling: bool) -> FailureText:
    core_range = _core_range(columns, rows, old_spelling=old_spelling)
    message = (
        f"Statically allocated circular buffers on core range {core_range} grow to {region_end} B "
        f"which is beyond max L1 size of {l1_bytes} B"
    )
    numbers = {"region_end": region_end, "l1_bytes": l1_bytes}
    site = f"{_ROOT}/tt_metal/impl/program/program.cpp:998"
    return FailureText(
        "overflow", "buffers/overflow", message, "TT_THROW", site, "tt::exception", numbers, "L1", core_range
    )


def runtime_assert() -> FailureText:
    site = "/build/runtime/lib/ttnn/operations/pool/upsample.cpp:28"
    return FailureText(
        "fatal", "none", "Upsample scale must be one integer or two", "LOG_ASSERT", site, "scales.size() <= 2"
    )


def ordinary_exception() -> FailureText:
    """A failure that has nothing to do with memory."""
    site = f"{_ROOT}/ttnn/core/tensor/tensor_ops.cpp:77"
    message = "Layout conversion from host layout 3 is not implemented"
    return FailureText("exception", "none", message, "TT_FATAL", site, "is_supported(layout)")


def _core_range(columns: int, rows: int, *, old_spelling: bool) -> str:
    if old_spelling:
        return f"[(x=0,y=0) - (x={columns - 1},y={rows - 1})]"
    return f"[0-0 - {columns - 1}-{rows - 1}]"


def exception_text(failure: FailureText) -> str:
    frames = "".join(
        f" --- {frame}\n"
        for frame in (
            "/opt/venv/lib/python3.12/site-packages/pjrt_plugin_tt/lib64/libtt_metal.so(+0x92fc11) [0x7f6a28d86c11]",
            "tt::tt_metal::BankManager::allocate_buffer(unsigned long, unsigned long, bool, CoreRangeSet const&)",
            "tt::tt_metal::Buffer::allocate_impl()",
            "tt::runtime::ttnn::ProgramExecutor::execute()",
        )
    )
    return f"{failure.thrower} @ {failure.site}: {failure.condition}\ninfo:\n{failure.message}\nbacktrace:\n{frames}"


def report(failure: FailureText, clock: Clock, *, ansi: bool, with_traceback: bool) -> Iterator[Segment]:
    """The same failure up to three times: by the library, by the plug-in that catches it, by Python."""
    if failure.kind == "fatal":
        prefix = runtime_prefix("Always", "FATAL", ansi=ansi)
        bold, normal = ("\x1b[1m", "\x1b[0m") if ansi else ("", "")
        tail = (
            f"{failure.message}\n{bold}{failure.thrower} @ {failure.site}: {failure.condition}\nbacktrace:\n"
            f" --- tt::runtime::ttnn::operations::pool::run(tt::target::ttnn::UpsampleOp const*)\n{normal}"
        )
        yield OUT, prefix + tail.encode() + (b"\n" if normal else b"")
        yield ERR, plugin_line(clock, "utils.h", 62, "ERR", "Exception:") + b"{Fatal error}\n"
    else:
        source = "assert.hpp:104" if failure.named_in_log_line else "assert.hpp:103"
        named = f"{failure.thrower}: " if failure.named_in_log_line else ""
        yield OUT, metal_line(clock, "critical", "Always", named + failure.message, source)
        yield ERR, plugin_line(clock, "utils.h", 62, "ERR", "Exception:") + f"{{{exception_text(failure)}}}\n".encode()
    if with_traceback:
        yield PY, traceback_text(failure).encode()


def traceback_text(failure: FailureText) -> str:
    """Early stacks showed the whole exception in Python; later ones only an error code."""
    start = 'Traceback (most recent call last):\n  File "model.py", line 42, in <module>\n    out = step(ids)\n'
    if failure.kind in ("v1", "v2"):
        return f"{start}RuntimeError: {exception_text(failure)}"
    return f"{start}RuntimeError: Bad StatusOr access: INTERNAL: Error code: 13\n"
