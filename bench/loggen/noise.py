# SPDX-License-Identifier: Apache-2.0
"""Lines that are none of the runtime's business: other loggers, progress bars, warnings, text that looks alike."""

from __future__ import annotations

from random import Random

from loggen.lines import ERR, OUT, PY, Clock, metal_line, plugin_line, python_line, runtime_prefix
from loggen.options import Options

Segment = tuple[int, bytes]


class Noise:
    """Draws foreign lines. Its generator is its own, so noise never changes what the model does."""

    def __init__(self, options: Options, rng: Random, clock: Clock) -> None:
        self._rng = rng
        self._clock = clock
        self._bad_utf8 = options.bad_utf8
        self._runtime_debug = runtime_prefix("Always", "DEBUG", ansi=options.ansi)
        self._runtime_warning = runtime_prefix("Always", "WARNING", ansi=options.ansi)
        self._between = options.noise
        self._inside = options.interleave
        # A bar (stderr) can share a line with a log line (stdout) only where both streams go to one terminal or file.
        self._can_glue = not (options.ranks or options.pytest_capture)
        self.active = bool(options.noise or options.interleave)
        self.foreign_lines = 0
        self.glued_bars = 0

    def between(self) -> list[Segment]:
        """What comes before an op line: usually nothing."""
        if self._rng.random() >= self._between:
            return []
        self.foreign_lines += 1
        return [self._line()]

    def disturb(self, op_line: bytes, block: bytes) -> list[Segment]:
        """An op line and its block, now and then with something in one of the five places between their lines."""
        if self._rng.random() >= self._inside or not block:
            return [(OUT, self._maybe_glue(op_line) + block)]
        lines = ([op_line] if op_line else []) + block.splitlines(keepends=True)
        gap = self._rng.randrange(1, len(lines))
        if self._rng.random() < 0.25 and self._can_glue:
            self.glued_bars += 1
            lines[gap] = self._bar() + lines[gap]
            return [(OUT, b"".join(lines))]
        self.foreign_lines += 1
        return [(OUT, b"".join(lines[:gap])), self._line(), (OUT, b"".join(lines[gap:]))]

    def _maybe_glue(self, op_line: bytes) -> bytes:
        if op_line and self._can_glue and self._rng.random() < self._between / 4:
            self.glued_bars += 1
            return self._bar() + op_line
        return op_line

    def _bar(self) -> bytes:
        """A progress bar that ends without a newline: the next log line continues its physical line."""
        rng = self._rng
        done = rng.randrange(100)
        bar = f"decode: {done:3d}%|{'█' * (done // 10):<10}| {done}/100 [00:0{done // 12}<00:09, {done / 7:5.2f}it/s]"
        return f"\r{bar}".encode() if rng.random() < 0.5 else f"{bar}\r".encode()

    def _line(self) -> Segment:
        rng, clock = self._rng, self._clock
        number = rng.randrange(1_000_000)
        choice = rng.randrange(11 if self._bad_utf8 else 10)
        if choice == 0:
            return OUT, metal_line(
                clock, "info", "Metal", f"Program cache holds {number % 4096} entries", "mesh_device.cpp:217"
            )
        if choice == 1:
            return OUT, metal_line(clock, "warning", "Op", f"Kernel {number} falls back to one core", "program.cpp:88")
        if choice == 2:
            return ERR, plugin_line(clock, "event_instance.cc", 216, "1", "EventInstance::awaitReady")
        if choice == 3:
            return ERR, plugin_line(clock, "buffer_instance.cc", 402, "1", "BufferInstance::PJRT_Buffer_Destroy")
        if choice == 4:
            return PY, python_line(clock, "INFO", "decoder:step:91", f"token {number} of café ✓")
        if choice == 5:
            text = f"WARNING:root:step {number}: MemoryView of a host tensor = {{no device view}} — ещё раз ✓\n"
            return PY, text.encode()
        if choice == 6:
            return PY, python_line(clock, "DEBUG", "watch:tail:12", "still waiting for 'Executing operation: ' lines")
        if choice == 7:
            text = (
                f"/opt/app/model.py:{number % 900}: UserWarning: argument {number % 40} is deprecated\n"
                "  out = model(ids, past_key_values=cache)\n"
            )
            return PY, text.encode()
        if choice == 8:
            return OUT, self._runtime_debug + b"Device grid size = { 8, 8 }\n"
        if choice == 9:
            return OUT, self._runtime_warning + b"getting output tensor is not supported for GetDeviceOp\n"
        return PY, b"raw bytes \xff\xfe\x80 caf\xe9 " + str(number).encode() + b"\n"
