# SPDX-License-Identifier: Apache-2.0
"""Small files that unpack, nest or multiply to something enormous: bounded memory, and an answer that says why not."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from fuzz.children import Child, Limits, Ran
from fuzz.model_sources import model_kinds
from ttmem.profile import profile_file
from ttmem.reports.kit.documents import format_json

_MEMORY = 500 << 20
_DIGITS = b"9" * 6_000
_LINES = re.compile(r"\(([\d,]+) lines\)")
_SENTENCE = (
    b"Out of Memory: Not enough space to allocate NUMBER B DRAM buffer across NUMBER banks, "
    b"where each bank needs to store NUMBER B"
)


def ask(child: Child, *words: object) -> Ran:
    """A command line that must end well: within memory, without a traceback."""
    ran = child.run([str(word) for word in words], limits=Limits(cpu_seconds=30, data_bytes=3 << 30))
    assert ran.code in (0, 1, 2), (ran.code, ran.err[-300:])
    assert b"internal error" not in ran.err, ran.err[:500]
    assert b"Traceback" not in ran.err
    assert ran.peak_bytes < _MEMORY
    return ran


def every_reader(child: Child, path: Path) -> list[Ran]:
    verbs = ("profile", "--no-store"), ("explain",), ("cb", "profile")
    return [ask(child, *verb, path) for verb in verbs]


# --- packed ---------------------------------------------------------------------------------------------------------


def _zst(path: Path, head: bytes, megabytes: int) -> None:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    with path.open("wb") as file:
        file.write(packer.compress(head))
        for _ in range(megabytes):
            file.write(packer.compress(b"a" * (1 << 20)))
        file.write(packer.flush())


def test_a_zstd_file_that_unpacks_to_one_endless_line(child: Child, tmp_path: Path) -> None:
    # GIVEN half a GB of one letter behind a line that can be profiled
    path = tmp_path / "bomb.log.zst"
    _zst(path, b"   Always |  INFO | Device memory state before submit\n", 500)
    assert path.stat().st_size < 200_000
    # WHEN / THEN every verb answers with what comes before, and says what was left out
    profiled, explained, _ = every_reader(child, path)
    assert (profiled.code, explained.code) == (0, 0)
    assert b"left out" in profiled.err + profiled.out
    assert b"left out" in explained.err


def test_a_gzip_file_of_many_members(child: Child, tmp_path: Path) -> None:
    member = gzip.compress(b"b" * (4 << 20), 1)
    path = tmp_path / "bomb.gz"
    path.write_bytes(member * 30)
    profiled, *_ = every_reader(child, path)
    assert profiled.code == 2


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_what_stands_before_damage_is_handed_out(cut: int, tmp_path: Path) -> None:
    from ttmem.readers.byte_source import OpenedSource, TruncatedSourceError

    # GIVEN a packed file of several pieces that was cut
    text = b"".join(b"%d\n" % number for number in range(600_000))
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(text, 1)[: -cut or None])
    pieces = []
    # WHEN it is read to its end
    with OpenedSource(path) as opened:
        try:
            for piece in opened.chunks():
                pieces.append(piece)  # noqa: PERF402 - those before the damage are kept
        except TruncatedSourceError:
            assert cut
    # THEN nothing is missing but the end of it
    assert text.startswith(b"".join(pieces) or b"-")
    assert sum(map(len, pieces)) >= len(text) - 100_000 * bool(cut)
    assert max(map(len, pieces)) <= 2 << 20


def _in_pieces(path: Path) -> int:
    from ttmem.readers.byte_source import OpenedSource

    with OpenedSource(path) as opened:
        return sum(map(len, opened.chunks()))


def test_every_piece_is_bounded_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ttmem.readers import unpacking

    monkeypatch.setattr(unpacking, "UNPACKED_WHOLE_BYTES", 1 << 40)
    plain = zlib.compress(b"x", 1) * 100_000 + b"\n" * (3 << 20)
    for name, packed in (("a.gz", gzip.compress(plain)), ("a.zst", zstandard.ZstdCompressor().compress(plain) * 2)):
        path = tmp_path / name
        path.write_bytes(packed)
        assert _in_pieces(path) == len(plain) * (2 if name.endswith("zst") else 1)


@pytest.mark.parametrize("line", [b"\n", b"hello world\n"], ids=["blank", "text"])
def test_one_line_over_and_over(child: Child, line: bytes, tmp_path: Path) -> None:
    # GIVEN 64 MB of one line behind the beginning of a log, and a state behind them
    state = b"   Always |  INFO | Device memory state before submit\n"
    copies = (64 << 20) // len(line)
    path = tmp_path / "lines.log.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(state + line * copies + state)
    # WHEN / THEN it costs what unpacking costs, and every line is counted: as read, or as left out
    ran = ask(child, "profile", "--no-store", "--json", path)
    assert ran.cpu_seconds < 2
    source = json.loads(ran.out)["source"]
    (left_out,) = (int(found[1].replace(",", "")) for text in source["warnings"] if (found := _LINES.search(text)))
    assert source["lines"] + left_out == copies + 2


@pytest.mark.parametrize("step", [7, 4_000, 1 << 20])
def test_lines_that_are_counted_lose_nothing(step: int) -> None:
    from ttmem.readers.runtime_log._lexer import Lexer

    # GIVEN repeated lines of others, of the runtime, and of a failure, in portions of any size
    state = b"   Always |  INFO | Device memory state before submit\n"
    text = (
        state + b"ab\n" * 5_000 + b"TT_FATAL @ a.cpp:1: x\n" + b"\n" * 5_000 + state * 3_000 + b"ab\n" * 3_000 + b"end"
    )
    whole, parts = Lexer(), Lexer()
    whole.feed(text.split(b"\n"))
    for at in range(0, len(text), step):
        parts.take(text[at : at + step])
    # THEN they are understood as they are line by line
    expected, found = whole.snapshot(), parts.finish()
    assert found.lines == expected.lines
    assert found.line.tolist() == expected.line.tolist()
    assert found.tables.failures == expected.tables.failures


_STATE = b"   Always |  INFO | Device memory state before submit\n"
_OPERATION = (
    b'   RuntimeTTNN |    DEBUG | Executing operation: %1 = "ttnn.add"(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32> '
    b'loc("a")\n'
)
REPEATED = {
    "two lines": b"a\nb\n",
    "a hundred lines": b"".join(b"step %d of it\n" % (number * number) for number in range(100)),
    "operations": _OPERATION,
    "half a line": b"x" * 700,
    "long lines": b"y" * 9_000 + b"\n",
}
LINE_VERBS = (
    *(("profile", "--no-store", "--json", "{}"), ("explain", "{}"), ("cb", "profile", "{}"), ("check", "--json", "{}")),
    *(("cb", "analyze", "{}"), ("diff", "{}", "{}", "--json"), ("export", "{}", "--to", "perfetto", "-o", "{}.out")),
    *(("tensor", "32x32", "--like", "{}"), ("fit", "{}", "--engine", "twin", "--no-store")),
)


@pytest.mark.parametrize("name", REPEATED)
def test_what_repeats_itself_is_left_out_of_every_verb(child: Child, name: str, tmp_path: Path) -> None:
    # GIVEN a small file of half a GB that says little
    text = REPEATED[name]
    path = tmp_path / "bomb.log.zst"
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    with path.open("wb") as file:
        file.write(packer.compress(_STATE + _OPERATION))
        many = text * ((4 << 20) // len(text))
        for _ in range(128):
            file.write(packer.compress(many))
        file.write(packer.compress(_STATE) + packer.flush())
    # WHEN / THEN every verb that reads lines ends soon, and says what it did not look at
    for verb in LINE_VERBS:
        ran = ask(child, *(word.replace("{}", str(path)) for word in verb))
        assert ran.cpu_seconds < 6, (verb, ran.cpu_seconds)
        if verb[0] in ("profile", "explain", "cb"):
            assert b"exact repetitions were left out" in b" ".join((ran.out + ran.err).split()), verb


def test_lines_of_others_that_are_no_repetition(child: Child, tmp_path: Path) -> None:
    # GIVEN three million short lines of somebody else, which come again only after a while
    path = tmp_path / "others.log.zst"
    text = b"".join(b"step %d of it\n" % (number * number) for number in range(20_000))
    path.write_bytes(zstandard.ZstdCompressor(level=3).compress(_STATE + text * 150))
    # WHEN / THEN they are passed over in blocks: one by one they took eight seconds
    ran = ask(child, "profile", "--no-store", "--json", path)
    assert json.loads(ran.out)["source"]["lines"] == 3_000_001
    assert ran.cpu_seconds < 4


def test_runs_that_are_alike_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ttmem
    from ttmem.readers import unpacking

    # GIVEN a small program in a loop that prints the same text every time, packed, beyond what is read in any case
    monkeypatch.setattr(unpacking, "UNPACKED_WHOLE_BYTES", 1 << 20)
    line = b"   RuntimeTTNN |    DEBUG | %s execution of program: main\n"
    run = line % b"Starting" + _OPERATION * 3 + line % b"Finished"
    copies = (4 << 20) // len(run)
    path = tmp_path / "loop.log.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(_STATE + run * copies))
    # THEN every run counts
    document = ttmem.read(path).to_json()
    assert (document["runs"], document["operations"]["executed"]) == (copies, 3 * copies)


def test_lines_without_end_that_do_not_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ttmem.readers import byte_source, unpacking

    # GIVEN less room than there is, and short lines
    monkeypatch.setattr(unpacking, "UNPACKED_FREE_BYTES", 8 << 20)
    monkeypatch.setattr(unpacking, "UNPACKED_RATIO", 1)
    path = tmp_path / "lines.log.gz"
    path.write_bytes(gzip.compress(_STATE + b"".join(b"%d\n" % number for number in range(1_000_000)), 9))
    # WHEN it is read
    with byte_source.OpenedSource(path) as opened:
        lines = sum(chunk.count(b"\n") for chunk in opened.chunks())
        # THEN lines count as long as lines usually are, and what is missing is said
        assert lines < 300_000
        assert "was left out" in opened.remarks[0]


@pytest.mark.parametrize("period", [1, 2, 63, 700, 16_000])
def test_what_is_left_out_is_whole_lines(period: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ttmem.readers import byte_source, unpacking

    monkeypatch.setattr(unpacking, "UNPACKED_WHOLE_BYTES", 1 << 20)
    text = (b"%d," % period) * period
    line = text[: period - 1] + b"\n"
    path = tmp_path / "a.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(b"head\n" + line * ((9 << 20) // period) + b"tail\n"))
    with byte_source.OpenedSource(path) as opened:
        found = b"".join(opened.chunks())
        assert opened.remarks
    assert set(found.split(b"\n")) == {b"head", b"tail", line[:-1], b""}
    assert len(found) < 6 << 20


# --- documents ------------------------------------------------------------------------------------------------------


def _packed_list(path: Path, item: bytes, count: int) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'[{"node_type":"a"}')
        for _ in range(count // 1000):
            file.write((b"," + item) * 1000)
        file.write(b"]")


@pytest.mark.parametrize(
    "content",
    [
        b'[{"node_type":"a","params":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}]",
        b'{"graph":' + b'[{"node_type":' * 100_000,
        b'[{"node_type":"buffer_allocate","params":{"size":' + _DIGITS + b"}}]",
        b'[{"node_type":"a","stacking_level":' + _DIGITS + b"}]",
        b'[{"node_type":"buffer_allocate","params":{"size":"%s","address":"%s","buffer_type":"%s"}},'
        b'{"node_type":"function_start","params":{"name":"ttnn::add"}},'
        b'{"node_type":"tensor","params":{"shape":"Shape([%s, 2])","dtype":"DataType::BFLOAT16","device_id":"%s",'
        b'"memory_config":"TensorMemoryLayout::HEIGHT_SHARDED,shape={%s, 2}"}},'
        b'{"node_type":"function_end","params":{"name":"ttnn::add"}}]' % ((_DIGITS,) * 6),
    ],
    ids=["nested", "nested-open", "number", "level", "digits-as-text"],
)
def test_captures(child: Child, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "capture.json"
    path.write_bytes(content)
    every_reader(child, path)


def test_a_capture_of_millions_of_empty_nodes(child: Child, tmp_path: Path) -> None:
    path = tmp_path / "capture.json.gz"
    _packed_list(path, b"{}", 6_000_000)
    for ran in every_reader(child, path):
        assert ran.code == 2
        assert b"4,000,000 values" in ran.err


def _saved(document: bytes, *, says: int | None = None, version: int = 2) -> bytes:
    payload = zstandard.ZstdCompressor(level=1).compress(document)
    digest = profile_file._compute_digest(payload)
    return (
        profile_file._HEADER.pack(profile_file._MAGIC, version, len(payload), says or len(document), digest) + payload
    )


@pytest.mark.parametrize(
    "content",
    [
        lambda: _saved(b"\xc0", says=4 << 30),
        lambda: _saved(b"\x91" * 500_000 + b"\xc0"),
        lambda: _saved(b"\x91" * 500_000 + b"\xc0", version=1),
        lambda: _saved(b"\x81\xa5names\xdd\x02\x00\x00\x00" + b"\xa0" * (32 << 20)),
        lambda: _saved(b"\0" * (200 << 20)),
    ],
    ids=["declares-4-GB", "nested", "nested-older", "strings", "zeros"],
)
def test_saved_profiles(child: Child, content: Callable[[], bytes], tmp_path: Path) -> None:
    path = tmp_path / "bomb.ttmem"
    path.write_bytes(content())
    for ran in every_reader(child, path):
        assert ran.code == 2


# --- lines ----------------------------------------------------------------------------------------------------------


def test_numbers_of_thousands_of_digits(child: Child, tmp_path: Path) -> None:
    lines = (
        b"   Always |  INFO | Device DRAM memory state: MemoryView{numBanks: N, totalBytesPerBank: N.0 MB}",
        b'RuntimeTTNN | DEBUG | Executing operation: %0:N = "ttnn.a"(%1) : (tensor<Nxbf16>) -> tensor<Nxbf16> loc("a")',
        b"TT_FATAL @ a.cpp:N: x",
        _SENTENCE.replace(b"NUMBER", b"N"),
        b"CB N :: PS = N, NP = N",
        b"TTMEM cb=N op=push n=N t=N",
        b"[1,N]<stdout>:l1_small_size=N",
        b"shape=Shape([N, 1]), dtype=DataType::BFLOAT16",
        b"Dump #N",
        b"Core (x=N,y=N): W,W cb[N](rcv N!=ack N) k_ids:N|N",
        b"k_id[N]: name",
    )
    for digits in (_DIGITS, b"9" * 19, b"9" * 20):
        path = tmp_path / "digits.log"
        path.write_bytes(b"\n".join(lines).replace(b"N", digits))
        every_reader(child, path)


@pytest.mark.parametrize("figure", ["99999999999999999989", "281474976710597", "1152921504606846883", "9" * 6000])
def test_figures_that_no_memory_has(child: Child, figure: str) -> None:
    assert ask(child, "explain", _SENTENCE.decode().replace("NUMBER", figure)).cpu_seconds < 2


def test_a_module_of_one_line(child: Child, tmp_path: Path) -> None:
    path = tmp_path / "one.mlir"
    argument = b'%arg0: tensor<4x4xbf16> {ttcore.argument_type = #ttcore.argument_type<parameter>, ttir.name = "a"}, '
    path.write_bytes(b"module @a { func.func @main(" + argument * 90_000)
    ran = ask(child, "profile", path, "--no-store")
    assert ran.code == 0
    assert b"left out" in ran.out + ran.err


# --- tensors and code -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [200, 1_000, 3_000])
def test_tensors_of_many_dimensions(child: Child, rank: int) -> None:
    for shape in ("x".join(["2"] * rank), "x".join(str(1 + size % 50) for size in range(rank))):
        assert ask(child, "tensor", shape).cpu_seconds < 2


def test_a_dimension_of_many_digits(child: Child) -> None:
    assert ask(child, "tensor", f"1x{'9' * 6000}").code == 2


_NESTED = 20_000


@pytest.mark.parametrize(
    "code",
    [
        "constexpr uint64_t a0 = 7;\n" + "".join(f"constexpr uint64_t a{i + 1} = a{i} * a{i};\n" for i in range(60)),
        "constexpr int a0 = 7;\n" + "".join(f"constexpr int a{i + 1} = lcm(a{i}, a{i} + 1);\n" for i in range(60)),
        "void f() { uint64_t a = 7; for (int i = 0; i < 1000000000; i++) { a = a * a; } }",
        f"int a = {'(' * _NESTED}1{')' * _NESTED}; {'{' * _NESTED}",
        "".join(f"#define A{i + 1} {f'A{i} ' * 10}\n" for i in range(30)) + "#define A0 x\nint y = A30;\n",
        f"int a = {'-' * _NESTED}1; int b = {'a?b:' * _NESTED}1; int c = {'f(' * _NESTED}; int d = {'9' * 6000};",
        f"int a = 0x{'f' * 6000} << 63; int b = 1 << 99999999; auto c = tt::CBIndex::c_{'9' * 6000};",
    ],
    ids=["squares", "multiples", "loop", "brackets", "macros", "operators", "digits"],
)
def test_code(child: Child, code: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.cpp"
    last = max((i for i in range(70) if f"a{i} =" in code), default=0)
    use = f"CircularBufferConfig(a{last} * 2, {{{{0, tt::DataFormat::Float16_b}}}}).set_page_size(0, a{last})"
    path.write_text(f"{code}\nvoid g(Program& p) {{ CreateCircularBuffer(p, cores, {use}); }}\n")
    assert ask(child, "cb", "scan", path, "--json").cpu_seconds < 5


# --- test results ---------------------------------------------------------------------------------------------------

_SUMMARY = "==== test session starts ====\n==== short test summary info ====\n"
_RESULT = (
    '{{"id": "{id}", "op": "silu", "board": "n150", "engine": "twin", "memory": "L1", "layout": "tile", '
    '"status": "oom", {rest}}}\n'
)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a_results.txt", _SUMMARY + "SKIPPED [999999999] a.py:3: big\n", b"100,000 skipped tests"),
        ("b_results.txt", _SUMMARY + f"SKIPPED [{'9' * 6000}] a.py:3: x\n=== {'9' * 6000} passed in 1s ===\n", b""),
        ("deep.json", '[{"status": "pass", "x": ' + "[" * 200_000 + "]" * 200_000 + "}]", b"not JSON"),
        ("values.json", '[{"status": "pass", "x": [' + "[]," * 5_000_000 + "[]]}]", b"more than 4,000,000 values"),
        ("parts.json", '[{"status": "fail", "op_params": "' + "{" * 90 + "}" * 90 + '"}]', b""),
        ("signs.json", '[{"status": "fail", "op_params": "' + "-" * 200_000 + '1"}]', b""),
        ("cell.csv", "status,exception\nfail," + "x" * 3_000_000 + "\n", b"not a table"),
        ("digits.jsonl", _RESULT.format(id="silu-²x3-a", rest=f'"needed_bytes": {"9" * 400}'), b"'needed_bytes'"),
        ("size.jsonl", _RESULT.format(id=f"silu-{'9' * 6000}x3-a", rest='"seconds": 1e999'), b""),
        ("half.jsonl", _RESULT.format(id="\\ud800", rest='"message": "\\udfff"'), b""),
    ],
)  # fmt: skip
def test_results_that_multiply(child: Child, tmp_path: Path, name: str, content: str, told: bytes) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    ran = ask(child, "sweep", "report", path, "-o", tmp_path / "reports")
    assert told in ran.err
    assert ran.cpu_seconds < 6


def test_a_table_of_failures_alone(child: Child, tmp_path: Path) -> None:
    """Reports tell of each failure up to five times; only one of them is held at a time, and that in pieces."""
    path = tmp_path / "rows.csv"
    rows = (f"fail,a{number},x{number},Out of Memory\n" for number in range(60_000))
    path.write_text("status,op_name,input_hash,exception\n" + "".join(rows))
    ran = ask(child, "sweep", "report", path, "-o", tmp_path / "reports")
    written = sum(file.stat().st_size for file in (tmp_path / "reports").iterdir())
    assert written > 80 << 20
    assert ran.peak_bytes < 2 * written, "as much as two of them at once"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'n,shapes,model\nmodel.0.silu,"[torch.Size([1, ' + "9" * 5000 + '])]",m\n'),
        ("sweep.silu.json", '{"suite": {"1": {"op_name": "silu", "input_shape": "[1, {1, 2}, -3]"}}}'),
        ("sweep.sum.json", '{"suite": {"1": {"op_name": "sum", "input_shape": "[1, 32]", "dim": "{1, 2}"}}}'),
        ("cases.jsonl", '{"op": "silu", "tensors": [{"shape": [1], "\\ud800": "bfloat16"}]}\n'),
        ("aten.add.csv", "Variation #,a\n1,Tensor<[²; 3]> self = ?\n2,Tensor<[²]> self = ?\n"),
        ("cell.csv", "a,b,c\n" + "x" * 200_000 + ",[1],m\n"),
    ],
)
def test_lists_of_operators_with_odd_values(child: Child, tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    for words in (("ops", "extract", path, "-o", tmp_path / "out.jsonl"), ("ops", "map", path)):
        ask(child, *words)


def test_amounts_of_any_width_in_a_persons_own_words(child: Child) -> None:
    for unit in ("B", "MB", "GB"):
        text = f"allocate {'9' * 350}.5 {unit} DRAM buffer failed, out of memory, free: {'8' * 350} {unit}"
        assert ask(child, "explain", text).code == 0


# --- what was left out is said --------------------------------------------------------------------------------------


def test_errors_of_unknown_wording_beyond_the_bound(child: Child, tmp_path: Path) -> None:
    path = tmp_path / "unknown.log"
    path.write_text("".join(f"LOG_FATAL @ /a/b{n}.cpp:{n}: x{n} != y\n" for n in range(5_500)))
    for ran in (ask(child, "explain", path), ask(child, "cb", "profile", path)):
        assert b"500 more prints of errors of unknown wording were not looked at" in ran.err + ran.out


def test_failures_for_which_nobody_asked_what_was_alive(child: Child, tmp_path: Path) -> None:
    path = tmp_path / "failures.log"
    path.write_text(
        "                 Always |     INFO | Device memory state before operation AddOp\n"
        + "".join(
            f'   RuntimeTTNN |    DEBUG | Executing operation: %{n} = "ttnn.add"(%1) : (tensor<4x4xf32>) -> '
            f'tensor<4x4xf32> loc("a")\nTT_THROW @ c.cpp:12: tt::exception info: Out of Memory: Not enough space to '
            f"allocate {n + 4096} B DRAM buffer across 12 banks, where each bank needs to store {n + 400} B, but bank "
            "size is 1071821792 B\n"
            for n in range(12)
        )
    )
    assert b"live tensors are listed for the first 6 and the last 2 of 12 failures" in ask(child, "explain", path).err
    ask(child, "profile", path, "--name", "twelve")
    assert b"of 12 failures" in ask(child, "explain", "twelve").err


def test_a_line_that_is_too_long_for_facts(child: Child, tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_text("CB 3 :: PS = 2048, NP = 4, TOTAL = 8192\n" + "x" * (2 << 20) + "\nTTMEM cb=1 op=push n=4 t=1\n")
    for form in ((), ("--json",)):
        assert b"a line is longer than 1 MiB" in ask(child, "cb", "profile", path, *form).out


def test_figures_that_sum_to_infinity(child: Child, tmp_path: Path) -> None:
    path = tmp_path / "ops_perf_results.csv"
    head = "OP CODE,DEVICE KERNEL DURATION [ns],DEVICE COMPUTE CB WAIT FRONT [ns],CORE COUNT\n"
    path.write_text(head + f"a,{'9' * 5000},{'9' * 5000},1e308\n" + "b,1e308,1e308,1e308\n" * 10)
    for form in ((), ("--json",)):
        assert ask(child, "cb", "profile", path, *form).code == 0
    assert format_json({"a": [float("inf"), float("nan"), 1.5]}, 1) == '{\n "a": [\n  null,\n  null,\n  1.5\n ]\n}'


@pytest.mark.parametrize("field", ["copies = 999999999999999999999999", "copies = 99999999", "split = 0", "split = 1"])
def test_a_recipe_that_multiplies(child: Child, field: str, tmp_path: Path) -> None:
    kind = next(kind for kind in model_kinds() if kind.name == "recipe gemma4.toml")
    name = field.partition(" ")[0]
    found = re.search(rf"^{name} = .*$".encode(), kind.content, re.MULTILINE)
    content = kind.content.replace(found[0] if found else b"copies = 2", field.encode(), 1)
    path = kind.written(content, tmp_path)
    config = tmp_path / "config.json"
    ran = ask(child, "fit", config, "--engine", "twin", "--no-store", "--recipe", path)
    assert ran.cpu_seconds < 10
