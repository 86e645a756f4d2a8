# SPDX-License-Identifier: Apache-2.0
"""Logs that nobody would write, of any size: a few fragments of real lines, repeated, glued, nested and cut.

A pattern says how an input grows, so the same pattern at twice the size shows how time grows with it. Fragments hold
``{i}`` where each repetition differs from the one before.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

_LAYOUT = (
    "tensor<1x32x64xbf16, #ttnn.ttnn_layout<(d0, d1, d2) -> (d0 * 32 + d1, d2), <1x1>, "
    "memref<1x2x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<dram>>, <interleaved>>>"
)
_VIEW = (
    (
        "MemoryView{{numBanks: 12, totalBytesPerBank: 1024.000 MB, totalBytesAllocatedPerBank: {i}.000 MB, "
        "totalBytesFreePerBank: 1000.000 MB, largestContiguousBytesFreePerBank: 900.000 MB}}"
    )
    .replace("{{", "\0")
    .replace("}}", "\1")
)
_OOM = (
    "Out of Memory: Not enough space to allocate {i} B DRAM buffer across 12 banks, where each bank needs to store "
    "{i} B, but bank size is 1071821792 B (allocated: 1 B, free: {i} B, largest free block: 3 B)"
)

LINES = tuple(
    line.replace("\0", "{{").replace("\1", "}}")
    for line in (
        (
            '            RuntimeTTNN |    DEBUG | Executing operation: %{i} = "ttnn.add"(%1, %2) : '
            f'({_LAYOUT}, {_LAYOUT}) -> {_LAYOUT} loc("add.{{i}}")'
        ),
        (
            '            RuntimeTTNN |    DEBUG | Executing operation: "ttnn.deallocate"(%{i}) <'
            f'\0force = false\1> : ({_LAYOUT}) -> () loc("free")'
        ),
        (
            '            RuntimeTTNN |    DEBUG | Executing operation: %{i}:{n} = "ttnn.split"(%1) : '
            f'({_LAYOUT}) -> ({_LAYOUT}, {_LAYOUT}) loc("a"("b"))'
        ),
        (
            "            RuntimeTTNN |    DEBUG | Executing operation: %{i} = ttcore.load_cached(@f_{i}, [%1]) "
            f": ({_LAYOUT}) -> {_LAYOUT} loc(unknown)"
        ),
        "                 Always |     INFO | Device memory state before operation AddOp",
        "                 Always |     INFO | Device memory state before submit",
        "                 Always |     INFO | Device memory state after submit",
        f"                 Always |     INFO | Device DRAM memory state: {_VIEW}",
        f"                 Always |     INFO | Device L1 memory state: {_VIEW}",
        "            RuntimeTTNN |    DEBUG | Starting execution of program: main_{i}",
        "            RuntimeTTNN |    DEBUG | Starting execution of program: main",
        "            RuntimeTTNN |    DEBUG | Finished execution of program: main_{i}",
        "            RuntimeTTNN |    DEBUG | Finished execution of program: main",
        "                 Always |    DEBUG | Running LoadCachedOp for function f_{i} with hash: {i}",
        "                 Always |    DEBUG | Cache hit for function: f_{i}",
        "                 Always |    DEBUG | Cache miss or invalid cache for function: f",
        "                 Always |    DEBUG | Tensor is retained thus not deallocating. To deallocate, set retain",
        "                 Always |    FATAL | {i} went wrong",
        "LOG_FATAL @ /a/b{i}.cpp:{n}: x != y",
        "TT_FATAL @ /a/b/c{i}.cpp:12: address.has_value()",
        f"TT_THROW @ /a/b/c.cpp:12: tt::exception info: {_OOM}",
        "info:",
        _OOM,
        f"RuntimeError: {_OOM}",
        f"2026-01-02 03:04:05.678 | critical |          Always | TT_FATAL: {_OOM} (assert.hpp:104)",
        (
            "Statically allocated circular buffers in program {i} clash with L1 buffers on core range [(x=0,y=0) - "
            "(x=7,y=7)]. L1 buffer allocated at {i} and static circular buffer region ends at 1{i}"
        ),
        (
            "Statically allocated circular buffers on core range [0-0 - 7-7] grow to {i} B which is beyond max L1 size "
            "of 1499136 B"
        ),
        "error: something {i} failed",
        "Fatal Python error: Segmentation fault",
        "Killed",
        "FAILED tests/test_{i}.py::test_add[{i}] - RuntimeError: {i}",
        "backtrace:",
        " --- ttnn::prim::add(tt::tt_metal::Tensor const&, {i})",
        "[EXPECTED_ERROR BEGIN]",
        "[EXPECTED_ERROR END]",
        "[1,{i}]<stdout>:            RuntimeTTNN |    DEBUG | Starting execution of program: main",
        "2026-01-02T03:04:05.123Z Device memory state before submit",
        "MLIR Module ttnn:",
        "module @SyncTensorsGraph.{i} attributes \0a = 1\1 \0",
        (
            "func.func @main(%arg{i}: tensor<{i}x32xbf16> \0ttcore.argument_type = #ttcore.argument_type<parameter>, "
            'ttir.name = "w{i}"\1 loc("p{i}"), %arg1: tensor<4x4xf32>) -> tensor<4x4xf32> \0'
        ),
        "#ttnn_layout{i} = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<1x1xf32, #dram>, <interleaved>>",
        '#system_desc = #ttcore.system_desc<[\0role = host, target_triple = "x86"\1], [\0arch = <wormhole_b0>\1]>',
        '  %{i} = "ttnn.add"(%1, %2) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(#loc{i})',
        "END OF MLIR MODULE",
        "CB {i} :: PS = 2048, NP = 4, TOTAL = 8192",
        "Core(1,{i}) CB[3]: addr=0x1f000 page_size=2048 num_pages={i}",
        "TTMEM cb={i} op=push n=4 t={i}",
        "Circular buffer indices are not contiguous {i}",
        "Dataflow Buffers (MCAST): {i}",
        "BRISC=1, name=reader_{i}, size=4096 (bytes)",
        "test_add.py::test_add[1-2-{i}] PASSED",
        "=========== {i} passed, 3 failed in 0.1s ==========",
        "____________ test_add[{i}] _____________",
        "E       RuntimeError: {i}",
        "shape=Shape([1, {i}, 32]), dtype=DataType::BFLOAT16, layout=Layout::TILE",
        "l1_small_size={i}",
        "ordinary line number {i} of somebody",
    )
)
"""One of each kind of line that any reader looks for, and a foreign one."""

TOKENS = (
    " ", "  ", " | ", "|", "\t", "\r", ",", ", ", ".", ":", " : ", " : (", ") -> ", "->", "-", "#", "%", "@", "&",
    "=", "*", "(", ")", "<", ">", "[", "]", "{{", "}}", "(<", ">)", "<{{", "}}>", "[[", "]]", "((", "[({{<", '"', "'",
    "`", "\\", '\\"', "\\\\", "\\22", "\\n", "\\x1b", "&#10;", "{{}}", "...", "\u2026", "\\0A", "0", "9", "{i}",
    "{i},", "{i} ", "1x", "32x", "0x", "0xffff", "1.5", "1e9", "-1", "999999999999999999999", "a", "word ", "_",
    "ttnn.", '"ttnn.add"', "tensor<", "tensor<1x", "memref<", "!ttcore.tile<32x32, bf16>", "tile<", " loc(",
    'loc("a")', 'loc("', "loc(fused[", "loc(callsite(", ' at "', "unknown)", "(d0, d1)", "#ttnn_layout", "#loc = ",
    "%arg{i}: ", "%1#0, ", "%{i}, ", "= ", "call ", "@f(", "Executing operation: ", "MemoryView{{", "Device ", "}} ",
    "Device memory state ", "memory state:", "xecution of program: ", "Cache hit for function: ", "func.func @f(",
    "Out of Memory", "TT_", "TT_FATAL @ ", "TT_FATAL: ", "a.cpp:1", "FATAL", "critical", "rror", "Error: ", "info: ",
    "info:", "allocate ", " B ", "banks", "across ", "Statically allocated ", "circular buffers ", "core range ",
    "Killed", "SIG", "Executing operation: %1 = ", "DEBUG | ", "Always | ", "RuntimeTTNN | DEBUG | ",
    "[1,2]<stdout>:", "2026-01-02T03:04:05Z ", "\x1b[32m", "\x1b[0m", "\x1b[", "[0m", "^[[0m", "\x00", "\x7f", "\xe9",
    "\u202e", "\U0001f600", "\ufffd", "\u2028", "\x85", "\x0c", "E  ", "> ", "(a pid=1)", "[ctest]", "[gw1]", "--- ",
    "backtrace:", "DeviceOperation", "ttnn::prim::", "FAILED a.py::", "::", "shape=Shape([", "dtype=", "Shape(",
    "attributes {{", "argument_type<", 'ttir.name = "', "local_shape = tensor<", "arch = <", "#system_desc = ",
    "CB {i} :: PS = ", "RISC=1, name=", "CB", "(MCAST):", "contiguous", "num_tiles=", "verification: ", "PASSED",
    "FAILED", "SKIPPED", "test_", "===", "___", "passed", ".py::test", " - ", "<testcase ", "</", "//", "/*", "*/",
    "/",
)  # fmt: skip
"""What lines are made of."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """How an input is made: lines of ``front``, so many ``repeated``, and ``back``, until it is large enough."""

    front: str
    repeated: str
    back: str
    line_bytes: int
    """How long a line grows before the next one begins; 0: the whole input is one line."""
    around: tuple[str, ...] = ()
    """Lines that come between two such lines."""
    first: str = "                 Always |     INFO | Device memory state before operation AddOp"
    """The first line makes it a runtime log, whatever follows; other sources begin and end otherwise."""
    last: str = ""

    def text(self, size: int) -> bytes:
        """An input of about this many bytes; one that has an end is not cut inside of a line."""
        content = b"".join(self._pieces(size))
        return content + self.last.encode() if self.last else content[:size]

    def _pieces(self, size: int) -> Iterator[bytes]:
        yield (self.first + "\n").encode()
        done = number = 0
        limit = self.line_bytes or size
        while done < size:
            line = [_filled(self.front, number)]
            length = len(line[0])
            if self.repeated and not _VARIES.search(self.repeated):
                piece = _filled(self.repeated, 0)
                line.append(piece * max(1, (limit - length) // len(piece)))
            while _VARIES.search(self.repeated) and length < limit:
                piece = _filled(self.repeated, number)
                line.append(piece)
                length += len(piece)
                number += 1
            line.append(_filled(self.back, number))
            line += ["\n" + _filled(other, number) for other in self.around]
            number += 1
            encoded = ("".join(line) + "\n").encode("utf-8", "surrogatepass")
            done += len(encoded)
            yield encoded


_VARIES = re.compile(r"\{[in]")


def _filled(fragment: str, number: int) -> str:
    return fragment.format(i=number, n=number % 100_000) if "{" in fragment else fragment


def draw(chance: random.Random) -> Pattern:
    """A pattern at random."""
    line_bytes = chance.choice((0, 0, 0, 200, 3_000, 50_000))
    if chance.random() < 0.35:  # whole lines, in turn: what a log is made of
        lines = chance.choices(LINES, k=chance.choice((1, 1, 2, 2, 3, 5)))
        return Pattern(lines[0], "", "", 1, tuple(lines[1:]))
    front, back = (_some(chance, (0, 1, 1, 2)) for _ in range(2))
    repeated = _some(chance, (1, 1, 1, 2, 2, 3))
    return Pattern(front, repeated, back, line_bytes, (chance.choice(LINES),) if chance.random() < 0.2 else ())


def _some(chance: random.Random, counts: tuple[int, ...]) -> str:
    """A few fragments glued together; one in six is a whole line or a part of one."""
    out = []
    for _ in range(chance.choice(counts)):
        if chance.random() < 0.25:
            line = chance.choice(LINES)
            if "{{" not in line and chance.random() < 0.5:
                cut = chance.randrange(len(line))
                line = line[:cut] if chance.random() < 0.5 else line[cut:]
                line = (
                    line.replace("{i}", "\0")
                    .replace("{n}", "\0")
                    .replace("{", "")
                    .replace("}", "")
                    .replace("\0", "{i}")
                )
            out.append(line)
        else:
            out.append(chance.choice(TOKENS))
    return "".join(out)


def _line_with(start: str) -> str:
    return next(line for line in LINES if start in line)


KNOWN = {
    "blanks before a bar": Pattern("", " ", "| x", 0),
    "one word": Pattern("", "word ", "", 0),
    "escaped quotes in a location": Pattern(LINES[0].partition('loc("')[0] + 'loc("', '\\"', '")', 0),
    "a location that does not end": Pattern(LINES[0].partition('loc("')[0] + 'loc("', "\\\\", "", 0),
    "a hundred thousand results": Pattern(LINES[2].replace("{n}", "100000"), "", "", 1),
    "programs left open": Pattern(_line_with("Starting execution of program: main_"), "", "", 1),
    "programs that were never started": Pattern(
        _line_with("Starting execution of program: main_"),
        "",
        "",
        1,
        (_line_with("Finished execution of program: main_"),),
    ),
    "submits": Pattern(LINES[5], "", "", 1, (LINES[10], LINES[0], LINES[7], LINES[12], LINES[6], LINES[7])),
    "submits without programs": Pattern(LINES[5], "", "", 1, (LINES[0], LINES[6])),
    "different failures": Pattern(_line_with("TT_FATAL @"), "", "", 1, ("info:", _OOM)),
    "different errors": Pattern("{i:x}" + "rror: abc" * 40 + "{i}", "", "", 1),
    "memory views on one line": Pattern("", LINES[7], "", 0),
    "operations on one line": Pattern("", LINES[0], "", 0),
    "records on one line": Pattern("", LINES[4], "", 0),
    "carriage returns": Pattern("", "\r" + LINES[4], "", 0),
    "ranks": Pattern(_line_with("]<stdout>:"), "", "", 1, ("[1,{i}]<stdout>:" + LINES[0],)),
    "arguments on one line": Pattern("func.func @main(", '%arg{i}: tensor<4x4xbf16> loc("p{i}"), ', "", 0),
    "strings that do not end": Pattern("func.func @main(", '"\\', "", 0),
    "system descriptions": Pattern("a | ", "#system_desc = ", "", 0),
    "aliases of buffers": Pattern("#a = #ttnn.ttnn_layout<", "memref<", ", #a", 0),
    "dimensions": Pattern(LINES[0].partition("tensor<")[0] + "tensor<", "1x", "bf16>", 0),
    "brackets": Pattern(LINES[0].partition("tensor<")[0], "(<[{{", "", 0),
    "times": Pattern("", "2026-01-02T03:04:05.123Z ", "", 0),
    "colours": Pattern("", "\x1b[0m", "TT_FATAL @ a.cpp:1", 0),
    "exceptions on one line": Pattern("", "TT_FATAL @ a.cpp:1: ", "", 0),
    "sentences on one line": Pattern("", _OOM + " ", "", 0),
    "a message that goes on": Pattern("TT_FATAL @ a.cpp:1: x", "", "", 1, ("info:",) + ("more of it",) * 30),
    "an operation before every failure": Pattern(LINES[0], "", "", 1, (_OOM,)),
    "a constant in every run": Pattern(
        LINES[10],
        *("", "", 1),
        (
            LINES[3],
            LINES[7],
            _line_with("Running LoadCachedOp"),
            "                 Always |    DEBUG | Cache miss or invalid cache for function: f_{i}",
            LINES[9].replace("main_", "f_"),
            *(LINES[0], LINES[11].replace("main_", "f_"), LINES[0], LINES[7], LINES[12]),
        ),
    ),
    "new constants": Pattern(LINES[3], "", "", 1, (LINES[9], LINES[0], LINES[7], LINES[11])),
    "tensors that are never freed": Pattern(LINES[0].replace("%1, %2", "%1, %{i}"), "", "", 1, (LINES[4], LINES[7])),
}
"""Patterns that took more than their share once, or are built to."""


def _tests(front: str, *around: str, repeated: str = "", back: str = "", section: str = "collected") -> Pattern:
    """A log of pytest, one section of it."""
    first = f"==== test session starts ====\n==== {section} ===="
    return Pattern(front, repeated, back, 0 if repeated else 1, around, first)


_JUNIT = '<testcase classname="t.test_{i}" name="test_a[{i}]">'
_VECTOR = (
    '{{"status": "fail", "input_hash": "{i}", "exception": "' + _OOM + '", "op_params": "{{\'shape\': [1, {i}]}}"}},'
)
_ROW = (
    '{{"id": "silu-1x{i}-ab", "op": "silu", "board": "n150", "engine": "twin", "memory": "L1", "layout": "tile", '
    '"status": "oom", "needed_bytes": {i}, "message": "' + _OOM + '"}}'
)
RESULTS = {
    "verbose lines": (".txt", _tests("tests/test_a.py::test_a[{i}] PASSED")),
    "tests of many files": (".txt", _tests("tests/test_{i}.py::test_a[shape=[1, {i}]] FAILED")),
    "nodes on one line": (".txt", _tests("", repeated="tests/test_a.py::test_a[{i}] ")),
    "brackets of a node": (".txt", _tests("tests/test_a.py::test_a", repeated="[(", back=" FAILED")),
    "a node that does not end": (".txt", _tests("tests/test_a.py::test_a[1] FAILED", "text below it {i}")),
    "sizes": (".txt", _tests("tests/test_a.py::test_a[(", repeated="1, ", back="] FAILED")),
    "blanks in a shape": (".txt", _tests("tests/test_a.py::test_a[[1", repeated=" ", back="] FAILED")),
    "tracebacks": (".txt", _tests("_____ test_a[{i}] _____", "E       " + _OOM, section="FAILURES")),
    "one traceback": (".txt", _tests("E       something {i}", section="FAILURES ====\n___ test_a ___\n====")),
    "rules": (".txt", _tests("", repeated="= ", back="x")),
    "underscores": (".txt", _tests("___ ", repeated="___ ", back="x", section="FAILURES")),
    "sections": (".txt", _tests("=========== {i} passed, 3 failed in 0.1s ==========")),
    "summary": (".txt", _tests("FAILED tests/test_a.py::test_a[{i}] - " + _OOM, section="short test summary info")),
    "folded skips": (".txt", _tests("SKIPPED [{i}] tests/a.py:{i}: too large", section="short test summary info")),
    "test cases": (
        ".xml",
        Pattern(_JUNIT, "", f'<failure message="{_OOM}"/></testcase>', 1, (), "<testsuite>", "</testsuite>"),
    ),
    "elements": (".xml", Pattern("<testcase>", "<a>", "", 0, (), "<testsuite>", "")),
    "vectors": (".json", Pattern(_VECTOR, "", "", 1, (), "[", '{"status": "pass"}]')),
    "nested parameters": (
        ".json",
        Pattern('{{"status": "fail", "op_params": "', "[", '"},', 3_000, (), "[", '{"status": "pass"}]'),
    ),
    "long parameters": (
        ".json",
        Pattern('{{"status": "fail", "op_params": "', "1, ", '"},', 3_000, (), "[", '{"status": "pass"}]'),
    ),
    "rows of a table": (
        ".csv",
        Pattern("fail,a{i},x{i},", "", _OOM.replace(",", ""), 1, (), "status,op_name,input_hash,exception"),
    ),
    "own results": (".jsonl", Pattern(_ROW, "", "", 1, (), "", "\n")),
}
"""Test results, by what their file is called: for the report of a sweep."""
