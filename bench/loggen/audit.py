# SPDX-License-Identifier: Apache-2.0
"""A naive second opinion on a generated log: one regular expression per fact, nothing shared with the generator.

A generator that is wrong about its own log cannot judge a reader, so its tests read the log back with these few lines
and compare with the truth.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# The matcher that the description of the formats recommends.
LINE = re.compile(
    r"(?:\[(?P<job>\d+),(?P<rank>\d+)\]<(?P<stream>stdout|stderr)>:)?.*?(?P<comp>Always|Runtime\w+) \|\s+"
    r"(?P<level>TRACE|DEBUG|INFO|WARNING|ERROR|FATAL)\s*\| (?P<msg>.*)"
)
OOM = re.compile(
    r"Out of Memory: Not enough space (?:after considering dependencies )?to allocate (\d+) B (\w+)(?: buffer)? across "
    r"(\d+) banks(?:, where each bank needs to store (\d+) B| \((\d+) B per bank\))(?:,(?: but)? bank size is "
    r"(?:only )?(\d+) B)?(?: \(allocated: (\d+) B, free: (\d+) B, largest free block: (\d+) B\))?"
)
OP = re.compile(r'Executing operation: (?:(%\d+)(?::(\d+))? = )?"?(\w+\.\w+)"?')
VIEW = re.compile(
    r"Device (\w+) memory state: MemoryView\{numBanks: (\d+), totalBytesPerBank: ([\d.]+) MB, "
    r"totalBytesAllocatedPerBank: ([\d.]+) MB, totalBytesFreePerBank: ([\d.]+) MB, "
    r"largestContiguousBytesFreePerBank: ([\d.]+) MB\}"
)
TENSOR = re.compile(
    r"tensor<[^#]*?#ttnn\.ttnn_layout<.*?<(\d+)x(\d+)(?:, [^<>]*(?:->)[^<>]*)?>, memref<(\d+)x(\d+)x"
    r"(?:!tt(?:core)?\.tile<32x32, (\w+)>|(\w+)), #ttnn\.buffer_type<(\w+)>>(?:, <(\w+)>)?"
)
TILE_BYTES = {"bf16": 2048, "f32": 4096, "si32": 4096, "bfp_bf8": 1088}


def messages(log: bytes) -> list[tuple[int, str, str]]:
    """(rank, level, message) of every runtime line, as the description says to find them."""
    found = []
    for raw in log.decode(errors="replace").split("\n"):
        match = LINE.match(ANSI.sub("", raw.rstrip("\r")).rpartition("\r")[2])
        if match:
            found.append((int(match["rank"] or 0), match["level"], match["msg"]))
    return found


def of_rank(log: bytes, rank: int) -> list[str]:
    return [message for r, _, message in messages(log) if r == rank]


def names(lines: list[str]) -> list[str]:
    return [match[3] for line in lines if (match := OP.match(line))]


def check_counts_and_peaks(lines: list[str], truth: dict[str, Any]) -> None:
    """Everything countable equals what plain counting gives, and the peaks are where the blocks say."""
    ops = names(lines)
    assert len(ops) == truth["op_count"]
    assert Counter(ops) == truth["op_histogram"]
    skipped = sum(name in ("ttnn.deallocate", "ttnn.get_device") for name in ops)
    assert truth["op_count_without_dealloc_getdevice"] == len(ops) - skipped
    starts = [line.split(": ")[1] for line in lines if line.startswith("Starting execution of program: ")]
    assert Counter(starts) == truth["programs"]
    for count, start in (
        (truth["const_eval"]["cache_hits"], "Cache hit for function: "),
        (truth["const_eval"]["cache_misses"], "Cache miss or invalid cache for function: "),
        (truth["counts"]["retained_deallocations"], "Tensor is retained thus not deallocating."),
        (truth["trace"]["captures"], "Trace cache miss, "),
        (truth["trace"]["replays"], "Trace cache hit, "),
    ):
        assert sum(line.startswith(start) for line in lines) == count

    index, where, blocks = -1, "", Counter[str]()
    best: dict[str, tuple[float, str, int | None, int | None]] = {}
    for line in lines:
        if OP.match(line):
            index += 1
        elif line.startswith("Device memory state "):
            where = " ".join(line.split()[3:5])
            blocks[where] += 1
        elif match := VIEW.match(line):
            memory, allocated = match[1], float(match[4])
            banks = truth["banks"][memory]
            assert int(match[2]) == banks["num_banks"]
            assert match[3] == f"{banks['bytes_per_bank'] / 2**20:.3f}"
            assert abs(float(match[3]) - allocated - float(match[5])) <= 0.001 + 1e-9
            assert float(match[6]) <= float(match[5])
            at = index if where == "before operation" and ops else None
            cause = index - (where == "before operation") if ops else -1
            if memory not in best or allocated > best[memory][0]:
                best[memory] = (allocated, where, at, cause if cause >= 0 else None)
    assert dict(blocks) == {key: n for key, n in truth["blocks"].items() if n}
    for memory in ("DRAM", "L1"):
        peak = truth["peak_observed"][memory]
        if not blocks:
            assert peak is None
            continue
        assert best[memory] == (peak["mb"], peak["where"], peak["index"], peak["caused_by_index"])
        assert f"{peak['bytes'] / 2**20:.3f}" == f"{peak['mb']:.3f}"
        for number, name in ((peak["index"], peak["op"]), (peak["caused_by_index"], peak["caused_by_op"])):
            assert number is None or ops[number] == name


@dataclass
class Held:
    memory: str
    taken: int
    owners: int = 1


@dataclass
class Replay:
    """Recomputes DRAM and L1 per bank from the op texts alone: owners per buffer, frames per program."""

    banks: int
    alignment: int
    frames: list[dict[str, Held]] = field(default_factory=list)
    cache: dict[str, list[Held]] = field(default_factory=dict)
    pending: str | None = None
    calls: list[tuple[str, str | None]] = field(default_factory=list)
    digest: str = ""
    used: Counter[str] = field(default_factory=Counter)

    def bytes_per_bank(self, match: re.Match[str]) -> tuple[str, int]:
        rows, columns = int(match[3]), int(match[4])
        buffer, layout = match[7], match[8]
        if buffer == "system_memory":
            return "host", 0
        if layout != "interleaved":
            return "L1", rows * columns * TILE_BYTES[match[5]]
        grid = int(match[1]) * int(match[2])
        pages, page = rows * columns * grid, TILE_BYTES.get(match[5] or "", 0)
        if not page:
            width = columns * {"bf16": 2, "si32": 4, "f32": 4}[match[6]]
            pages, page = rows, -(-width // self.alignment) * self.alignment
        return "DRAM", -(-pages // self.banks) * page

    def disown(self, buffer: Held) -> None:
        buffer.owners -= 1
        if buffer.owners == 0:
            self.used[buffer.memory] -= buffer.taken

    def results(self, text: str) -> tuple[list[str], list[re.Match[str]]]:
        head = OP.match(text)
        assert head is not None
        if head[1] is None:
            return [], []
        count = int(head[2] or 1)
        ssa = [head[1]] if count == 1 else [f"{head[1]}#{i}" for i in range(count)]
        return ssa, list(TENSOR.finditer(text))[-count:]

    @staticmethod
    def operands(text: str) -> list[str]:
        call = re.sub(r"^Executing operation: (%[\d:]+ = )?", "", text)
        return re.findall(r"%\w+(?:#\d+)?", call.partition(")")[0])

    def apply(self) -> None:
        text, self.pending = self.pending, None
        if text is None:
            return
        frame, (name,) = self.frames[-1], names([text])
        operands = self.operands(text)
        if name == "ttnn.deallocate":
            if operands[0] in frame:
                self.disown(frame.pop(operands[0]))
            return
        ssa, types = self.results(text)
        if name == "ttnn.reshape":
            frame[ssa[0]] = frame[operands[0]]
            frame[operands[0]].owners += 1
            return
        for value, match in zip(ssa, types, strict=False):
            memory, size = self.bytes_per_bank(match)
            taken = -(-size // self.alignment) * self.alignment
            if memory != "host":
                self.used[memory] += taken
                frame[value] = Held(memory, taken)
        if "deallocate_activation = true" in text:
            self.disown(frame.pop(operands[0]))

    def finish(self) -> None:
        self.apply()
        frame = self.frames.pop()
        left = [value for key, value in frame.items() if not key.startswith("%arg")]
        if not self.calls:
            for buffer in left:
                self.disown(buffer)
            return
        text, digest = self.calls.pop()
        if digest is not None:
            self.cache[digest] = left
        for value, buffer in zip(self.results(text)[0], left, strict=True):
            buffer.owners += digest is not None
            self.frames[-1][value] = buffer

    def feed(self, line: str) -> None:
        if line.startswith("Executing operation: "):
            self.apply()
            self.pending = line
        elif line.startswith("Tensor is retained"):
            self.pending = None
        elif line.startswith("Running LoadCachedOp"):
            self.digest = line.rpartition(" ")[2]
        elif line.startswith("Cache hit"):
            self._name_digest(line)
            for value, buffer in zip(self.results(self.pending or "")[0], self.cache[self.digest], strict=True):
                buffer.owners += 1
                self.frames[-1][value] = buffer
            self.pending = None
        elif line.startswith("Cache miss"):
            self._name_digest(line)
            self.calls.append((self.pending or "", self.digest))
            self.pending = None
        elif line.startswith("Starting execution of program: "):
            if self.pending is not None:
                self.calls.append((self.pending, None))
                self.pending = None
            self.frames.append({})
        elif line.startswith("Finished execution of program: "):
            self.finish()

    def _name_digest(self, line: str) -> None:
        """Logs before the end of 2025 print no hash: the function's name has to do."""
        if not self.digest or not re.fullmatch("[0-9a-f]{64}", self.digest):
            self.digest = line.rpartition(" ")[2]
