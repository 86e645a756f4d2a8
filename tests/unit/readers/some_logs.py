# SPDX-License-Identifier: Apache-2.0
"""A few logs that together hold every kind of line, small enough to be read hundreds of times."""

from __future__ import annotations

from functools import cache
from io import BytesIO

from loggen import Options, generate
from support.log_lines import DEVICE, TWO_MB, WORMHOLE, Log, view
from unit.readers.test_module_dumps import THREE, module
from unit.readers.test_programs import ADD, OUT_OF_MEMORY, const_eval_miss, trace_call, traced_body
from unit.readers.test_states import small_run


def hand_made(*, prefix: str = "", colours: bool = False, line_end: str = "\n") -> bytes:
    """Dumps, nested programs, caches, a trace, glued and torn lines, two failures, a snapshot."""
    log = Log(prefix=prefix, colours=colours, line_end=line_end)
    log.lines(module(*THREE))
    log.record("Always", "DEBUG", "Device grid size = { 8, 8 }")
    log.block("before submit", 1.0)
    log.start()
    const_eval_miss(log)
    log.op(ADD, 2.0)
    log.free("%1", TWO_MB, 4.0)
    log.retained()
    log.finish()
    log.block("after submit", 2.0)
    log.line("\r 10%|#         | 1/10 [00:00<00:01]\r" + log.text_of("RuntimeTTNN", "DEBUG", "Starting execution "))
    log.start()
    log.op(DEVICE, 2.0)
    trace_call(log, 2.0)
    log.start("run_and_capture_trace_0_main")
    traced_body(log, 4.0)
    log.finish("run_and_capture_trace_0_main")
    log.line(log.text_of("RuntimeTTNN", "DEBUG", f"Executing operation: {ADD}") * 2)
    log.record("RuntimeTTNN", "DEBUG", f"Executing operation: {ADD[:150]}")
    log.record("RuntimeTTNN", "DEBUG", f"Executing operation: {ADD[:150]}")
    log.line(OUT_OF_MEMORY)
    log.lines(module(*THREE, second=4))
    log.start()
    log.op(ADD, 2.0)
    log.line("TT_FATAL @ /x/bank_manager.cpp:462: false")
    log.line("info:")
    log.line(OUT_OF_MEMORY.partition("TT_FATAL: ")[2])
    log.line(view("DRAM", 7.0, WORMHOLE))
    log.raw(b"caf\xe9 \x00\xff\n")
    return log.bytes()


def two_ranks() -> bytes:
    """The lines of two processes and of their launcher, mixed."""
    first = hand_made(prefix="[1,0]<stdout>:").splitlines(keepends=True)
    second = small_run(Log(prefix="[1,1]<stdout>:", colours=True)).bytes().splitlines(keepends=True)
    mixed = [line for pair in zip(first, second * 4, strict=False) for line in pair]
    return b"".join([b"launching\n", *mixed, b"[1,1]<stderr>:", OUT_OF_MEMORY.encode(), b"\n"])


def ci_log() -> bytes:
    """A time in front of every line but the first ones."""
    lines = hand_made().splitlines(keepends=True)
    return b"".join(lines[:3]) + b"".join(b"2026-05-14T01:00:31.%07dZ %s" % (i, line) for i, line in enumerate(lines))


def wrapped_log(width: int = 80) -> bytes:
    """As a terminal of this width shows it."""
    lines = hand_made().split(b"\n")
    return b"\n".join(line[at : at + width] for line in lines for at in range(0, max(1, len(line)), width))


@cache
def some_logs() -> dict[str, bytes]:
    """Name -> content."""
    stream = BytesIO()
    options = Options(seed=7, layers=1, runs=2, noise=0.2, interleave=0.2, submit=True, modules="ttnn", oom="v3")
    generate(options, stream)
    return {
        "hand-made": hand_made(),
        "coloured": hand_made(colours=True),
        "dos": hand_made(line_end="\r\n"),
        "ranks": two_ranks(),
        "ci": ci_log(),
        "wrapped": wrapped_log(),
        "generated": stream.getvalue(),
    }
