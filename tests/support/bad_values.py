# SPDX-License-Identifier: Apache-2.0
"""Every kind of source as a valid document, changed field by field, and the verbs that read it.

Values are replaced by values of other types, huge, negative, not finite, nested or with control characters in them;
entries are left out, doubled, exchanged. A source is a folder, so what lies beside a file is changed too.
"""

from __future__ import annotations

import contextlib
import copy
import csv
import gzip
import io
import json
import os
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import zstandard

import ttmem
from support.captures import DATA, unpacked_capture, unpacked_report
from support.command_line import FIVE_RUNS, REAL_OOM
from ttmem.commands.program import main
from ttmem.profile import profile_file as storage

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b1m\r\u202eevil\u2066\u200b\ufeff\x00\x7f\ud800 name"
"""A name with what a terminal or an eye would be fooled by."""

SCALARS: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), -(2**70), 10**30, 10**400, 0.5, -0.0, 1e308),
    *(
        float("nan"),
        float("inf"),
        float("-inf"),
        "",
        " ",
        "0",
        "-1",
        "NaN",
        "1e999",
        "9" * 400,
        "0x10",
        "٣",
        "1_0",
        "\0",
    ),
    *("x" * 5000, HOSTILE.replace("\ud800", ""), "[1, 2", "{}", "ttnn.add", "DRAM", "bfloat16", "n150", "pass", "%0"),
]


def odd(random_: random.Random) -> Any:
    """A value that stands where another was meant."""
    kind = random_.randrange(10)
    if kind < 7:
        return random_.choice(SCALARS)
    if kind == 7:
        return [odd(random_) for _ in range(random_.randrange(4))]
    if kind == 8:
        return {str(odd(random_))[:40]: odd(random_) for _ in range(random_.randrange(3))}
    nested: Any = []
    for _ in range(60):
        nested = [nested] if random_.random() < 0.7 else {"a": nested}
    return nested


def changed(document: Any, random_: random.Random) -> Any:
    """A copy of the document in which one place is different."""
    document = copy.deepcopy(document)
    places: list[tuple[Any, Any]] = []
    pending = [document]
    while pending:
        node = pending.pop()
        if isinstance(node, dict | list):
            keys = list(node) if isinstance(node, dict) else range(len(node))
            places += [(node, key) for key in keys]
            pending += [node[key] for key in keys]
    if not places:
        return odd(random_)
    node, key = random_.choice(places)
    what = random_.randrange(8)
    if what < 5:
        node[key] = odd(random_)
    elif what == 5:
        del node[key]
    elif isinstance(node, list):
        if what == 6:
            node.insert(random_.randrange(len(node) + 1), copy.deepcopy(node[key]))
        else:
            random_.shuffle(node)
    elif what == 6:
        node[str(odd(random_))[:60]] = node[key]
    else:
        other = random_.choice(list(node))
        node[key], node[other] = node[other], node[key]
    return document


# --- one function per form of a file ---------------------------------------------------------------------------------

Change = Callable[[Path, random.Random], None]


def json_file(path: Path, random_: random.Random) -> None:
    document = json.loads(path.read_text())
    for _ in range(random_.choice((1, 1, 1, 3))):
        document = changed(document, random_)
    path.write_text(json.dumps(document))


def json_lines_file(path: Path, random_: random.Random) -> None:
    lines = path.read_text().splitlines()
    place = random_.randrange(len(lines))
    lines[place] = json.dumps(changed(json.loads(lines[place]), random_))
    if random_.random() < 0.1:
        lines.insert(place, random_.choice(["", "[]", "null", "{", "\ufeff{}", "1", '"a"']))
    path.write_text("\n".join(lines) + "\n")


def csv_file(path: Path, random_: random.Random) -> None:
    rows = list(csv.reader(io.StringIO(path.read_text())))
    for _ in range(random_.choice((1, 1, 3))):
        row = random_.choice(rows)
        what = random_.randrange(6)
        if what < 4 and row:
            row[random_.randrange(len(row))] = str(odd(random_)).replace("\0", "")
        elif what == 4 and row:
            del row[random_.randrange(len(row))]
        else:
            random_.shuffle(rows)
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    path.write_text(out.getvalue(), "utf-8", "replace")


def text_file(path: Path, random_: random.Random) -> None:
    """A number or a word of a line becomes another."""
    lines = path.read_text("utf-8", "replace").splitlines()
    for _ in range(random_.choice((1, 2, 5))):
        place = random_.randrange(len(lines))
        words = list(re.finditer(r"[\w.%]+", lines[place]))
        if words:
            word = random_.choice(words)
            new = str(odd(random_)).replace("\n", " ")[:2000]
            lines[place] = lines[place][: word.start()] + new + lines[place][word.end() :]
        if random_.random() < 0.3:
            lines.insert(random_.randrange(len(lines)), lines[place])
    path.write_text("\n".join(lines) + "\n", "utf-8", "replace")


def sqlite_file(path: Path, random_: random.Random) -> None:
    database = sqlite3.connect(path)
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for _ in range(random_.choice((1, 1, 3))):
        table = random_.choice(tables)
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        column, what = random_.choice(columns), random_.randrange(9)
        value = odd(random_)
        if isinstance(value, dict | list):
            value = json.dumps(value)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            value = str(value)
        if isinstance(value, str) and random_.random() < 0.2:
            value = value.encode("utf-8", "replace")
        with contextlib.suppress(sqlite3.Error, UnicodeEncodeError):
            if what < 5:
                rows = [row for (row,) in database.execute(f'SELECT rowid FROM "{table}" LIMIT 50')]
                chosen = random_.choice(rows) if rows else 0
                database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (value, chosen))
            elif what == 5:
                database.execute(f'UPDATE "{table}" SET "{column}" = ?', (value,))
            elif what == 6:
                database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other"')
            elif what == 7:
                database.execute(f'DELETE FROM "{table}" WHERE random() % 2')
            else:
                database.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" ORDER BY random() LIMIT 3')
    database.commit()
    database.close()


def profile_document(path: Path) -> Any:
    """What a saved profile holds."""
    return msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(path.read_bytes()[storage._HEADER.size :]))


def write_profile(path: Path, document: Any) -> None:
    """Sealed as ttmem would: its digest is no protection against somebody who can write it."""
    packed = msgspec.msgpack.encode(document)
    payload = zstandard.ZstdCompressor().compress(packed)
    header = (storage._MAGIC, storage.SCHEMA_VERSION, len(payload), len(packed), storage._compute_digest(payload))
    path.write_bytes(storage._HEADER.pack(*header) + payload)


def profile_file(path: Path, random_: random.Random) -> None:
    """A saved profile: texts and numbers of its document, or numbers inside of a column."""
    document = profile_document(path)
    for _ in range(random_.choice((1, 1, 1, 3))):
        columns = [node for node in _nodes(document) if isinstance(node, list) and len(node) == 3 and _is_column(node)]
        if columns and random_.random() < 0.5:
            column = random_.choice(columns)
            content = bytearray(column[2])
            width = int(column[0][2:])
            for _ in range(random_.choice((1, 5)) if content else 0):
                place = random_.randrange(len(content) // width) * width
                content[place : place + width] = random_.randbytes(width) if random_.random() < 0.5 else b"\xff" * width
            column[2] = bytes(content)
        else:
            document = changed(document, random_)
    with contextlib.suppress(OverflowError, UnicodeEncodeError, msgspec.MsgspecError):  # what msgpack cannot say
        write_profile(path, document)


def _nodes(document: Any) -> Iterator[Any]:
    yield document
    if isinstance(document, dict | list):
        for value in document.values() if isinstance(document, dict) else document:
            yield from _nodes(value)


def _is_column(node: list[Any]) -> bool:
    return isinstance(node[0], str) and isinstance(node[1], list) and isinstance(node[2], bytes) and bool(node[2])


# --- kinds of sources ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A source, what of it is changed, and who reads it (``SOURCE`` and ``OUT`` stand for places)."""

    name: str
    make: Callable[[Path], Path]
    change: Change
    files: str
    """Which files of the folder are changed."""
    verbs: tuple[str, ...]


PROFILE_VERBS = (
    *("profile SOURCE --json --no-store", "profile SOURCE --llm --no-store", "profile SOURCE --csv --no-store"),
    *(
        "profile SOURCE --no-store",
        "profile SOURCE --no-store --html OUT/p.html -o OUT/p.txt",
        "profile SOURCE --name n",
    ),
    *("check SOURCE --junit OUT/j.xml --sarif OUT/s.sarif", "check SOURCE --github", "diff SOURCE SOURCE"),
    *("diff SOURCE SOURCE --json", "explain SOURCE --llm", "explain SOURCE", "explain SOURCE --issue"),
    *("export SOURCE --to perfetto -o OUT/t.json", "export SOURCE --to visualizer -o OUT/v", "cb profile SOURCE"),
    "export SOURCE --to csv -o OUT/c",
)


def _copied(source: Path, name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(source.read_bytes())
        return folder / name

    return make


def _written(name: str, content: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_text(content)
        return folder / name

    return make


def _memory_report(folder: Path) -> Path:
    for file in (DATA / "captures" / "memory-report").glob("*.csv"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def _saved(folder: Path) -> Path:
    path = folder / "saved.ttmem"
    storage.save(ttmem.read(FIVE_RUNS), path)
    return path


def _saved_capture(folder: Path) -> Path:
    inner = folder / "inner"
    inner.mkdir()
    path = folder / "saved.ttmem"
    storage.save(ttmem.read(unpacked_capture("n150-report", inner)), path)
    return path


def _short_log(folder: Path) -> Path:
    lines = gzip.decompress(FIVE_RUNS.read_bytes()).decode().splitlines()[:400]
    (folder / "run.log").write_text("\n".join(lines) + "\n")
    return folder / "run.log"


def _results(folder: Path) -> Path:
    _written("cases.jsonl", CASES)(folder)
    code, _, errors = run(["sweep", "run", str(folder / "cases.jsonl"), "-o", str(folder / "results"), "-q"])
    assert code == 0, errors
    (folder / "results" / ".lock").unlink()
    return folder / "results"


def _results_alone(folder: Path) -> Path:
    results = _results(folder)
    (results / "journal.sqlite").unlink()
    return results / "results.jsonl"


def _store(folder: Path) -> Path:
    """What the store keeps of a report; the name is the source."""
    home = folder / "home" / "reports"
    code, _, errors = run(["profile", str(FIVE_RUNS), "--name", "kept", "-q"], TTMEM_HOME=str(folder / "home"))
    assert (code, (home / "kept").is_dir()) == (0, True), errors
    return Path("kept")


STEPS = """\
{"alloc": "a", "shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "L1"}
{"alloc": "b", "shape": [64, 512], "shard": {"kind": "height", "shape": [64, 512], "grid": [8, 8]}}
{"alloc": "c", "shape": [32, 32], "memory": "L1", "shard": {"kind": "nd", "shape": [32, 32], "ranges": [[0, 0, 1, 1]]}}
{"alloc": "d", "shape": [32, 32], "tile": [16, 32], "shard": null, "dtype": "float32"}
{"free": "a"}
"""
CASES = "".join(
    json.dumps({"id": op, "op": op, "tensors": [{"shape": shape, "dtype": "float32"} for shape in shapes], **more})
    + "\n"
    for op, shapes, more in (
        ("silu", [[1, 1, 64, 64]], {"args": {}, "models": ["m"], "count": 2}),
        ("add", [[64, 64], [64, 64]], {"args": {"alpha": 1}}),
        (
            "convolution",
            [[1, 3, 32, 32], [8, 3, 3, 3]],
            {
                "args": {
                    "stride": [1, 1],
                    "padding": [0, 0],
                    "dilation": [1, 1],
                    "transposed": False,
                    "output_padding": [0, 0],
                    "groups": 1,
                }
            },
        ),
        ("_softmax", [[2, 64, 64]], {"args": {"dim": -1}, "uses": [{"model": "m", "count": 1, "size": "1x1"}]}),
        ("permute", [[2, 64, 64]], {"args": {"dims": [0, 2, 1]}}),
        ("view", [[2, 64, 64]], {"args": {"size": [128, 64]}}),
    )
)
JUNIT = """<?xml version="1.0"?><testsuites><testsuite name="pytest" errors="0" failures="1" tests="2" time="1.5">
<testcase classname="tests.test_silu" name="test_silu[shape=(1, 1, 32, 32)]" time="0.5"/>
<testcase classname="tests.test_silu" name="test_silu[big]" time="0.5"><failure message="Out of Memory: Not enough
space to allocate 16777216 B L1 buffer across 8 banks, where each bank needs to store 2097152 B">E</failure>
</testcase></testsuite></testsuites>
"""
SWEEP_JSON = json.dumps(
    [
        {
            "suite_name": "s", "test_name": "eltwise.silu", "status": "TestStatus.PASS", "exception": "",
            "e2e_perf": 1.5, "input_shape": [1, 1, 32, 32], "input_spec": {"shape": [32, 32]},
        },
        {"test_name": "eltwise.silu", "status": "TestStatus.FAIL_CRASH_HANG", "exception": "TEST TIMED OUT"},
    ]
)  # fmt: skip
PROFILER_CSV = """ARCH: wormhole_b0, CHIP_FREQ[MHz]: 1000
PCIe slot, core_x, core_y, RISC processor type, timer_id, time[cycles since reset], zone name, type, source line
0, 1, 1, BRISC, 1, 100, BRISC-FW, ZONE_START, 10
0, 1, 1, BRISC, 1, 200, BRISC-FW, ZONE_END, 10
"""
TTRT = json.dumps(
    [
        {
            "file_path": "a.ttnn",
            "result": "pass",
            "exception": "",
            "log_file": "ttrt.log",
            "artifacts": "x",
            "program_index": 0,
            "memory_report": {
                "0": {
                    "loc": "loc(x)",
                    "debug_str": '%1 = "ttnn.add"(%0) : (tensor<1x1xbf16>) -> tensor<1x1xbf16>',
                    "dram": {
                        "num_banks": 12, "total_bytes_per_bank": 1000, "total_bytes_allocated_per_bank": 100,
                        "total_bytes_free_per_bank": 900, "largest_contiguous_bytes_free_per_bank": 900,
                    },
                }
            },
        }
    ]
)  # fmt: skip
SWEEP_VERBS = ("sweep report SOURCE -o OUT/r", "sweep report SOURCE -o OUT/r --json")
CASE_VERBS = (
    *("sweep run SOURCE -o OUT/r -q", "sweep run SOURCE -o OUT/r --strict --json -q", "ops map SOURCE"),
    *("ops map SOURCE --json", "ops tests SOURCE -o OUT/t -q", "ops extract SOURCE"),
)
STORE_VERBS = ("reports", "reports --json", "profile SOURCE", "reports path SOURCE")
OPS = ("ops extract SOURCE", "ops extract SOURCE --json -o OUT/cases.jsonl")

KINDS = {
    kind.name: kind
    for kind in (
        Kind("log", _short_log, text_file, "*", PROFILE_VERBS),
        Kind("failed log", _copied(REAL_OOM, "oom.log"), text_file, "*", PROFILE_VERBS),
        Kind("capture", lambda folder: unpacked_capture("n150-report", folder), json_file, "*.json", PROFILE_VERBS),
        Kind("database", lambda folder: unpacked_report("n150-report", folder), sqlite_file, "*.sqlite", PROFILE_VERBS),
        Kind("memory report", _memory_report, csv_file, "*.csv", PROFILE_VERBS),
        Kind("saved log", _saved, profile_file, "*.ttmem", PROFILE_VERBS),
        Kind("saved capture", _saved_capture, profile_file, "*.ttmem", PROFILE_VERBS),
        Kind("ttrt", _written("results.json", TTRT), json_file, "*", PROFILE_VERBS),
        Kind("steps", _written("s.jsonl", STEPS), json_lines_file, "*", ("replay SOURCE", "replay SOURCE --json")),
        Kind("cases", _written("cases.jsonl", CASES), json_lines_file, "*", CASE_VERBS),
        Kind("operators", _copied(DATA / "operators" / "operators.csv", "o.csv"), csv_file, "*", OPS),
        Kind("master", _copied(DATA / "operators" / "master.json", "m.json"), json_file, "*", OPS),
        Kind(
            "vectors",
            _copied(DATA / "operators" / "eltwise.unary.silu.silu.json", "eltwise.unary.silu.silu.json"),
            json_file,
            "*",
            OPS,
        ),
        Kind("journal", _results, sqlite_file, "results/*.sqlite", SWEEP_VERBS),
        Kind("results", _results_alone, json_lines_file, "results/*.jsonl", SWEEP_VERBS),
        Kind("resumed", _results, sqlite_file, "results/*.sqlite", ("sweep run SOURCE/../cases.jsonl -o SOURCE -q",)),
        Kind("junit", _written("a.xml", JUNIT), text_file, "*", SWEEP_VERBS),
        Kind("sweep json", _written("a.json", SWEEP_JSON), json_file, "*", SWEEP_VERBS),
        Kind(
            "pytest log",
            _copied(DATA / "sweep" / "older_logs" / "test_add_results.txt", "test_add_results.txt"),
            text_file,
            "*",
            SWEEP_VERBS,
        ),
        Kind("profiler", _written("profile_log_device.csv", PROFILER_CSV), csv_file, "*", ("cb profile SOURCE",)),
        Kind(
            "store",
            _store,
            json_file,
            "home/reports/kept/*_about.json",
            ("reports", "reports --json", "profile SOURCE"),
        ),
    )
}


def valid(kind: Kind, folder: Path) -> Path:
    """The source before anything is changed."""
    folder.mkdir(parents=True)
    return kind.make(folder)


def changed_sources(
    kind: Kind, template: Path, folder: Path, random_: random.Random, change: Change | None = None
) -> None:
    """A copy of the folder in which some files are different."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    files = sorted(path for path in folder.glob(kind.files) if path.is_file())
    (change or kind.change)(random_.choice(files), random_)


def words_of(verb: str, source: Path, folder: Path) -> list[str]:
    """The command line of a verb for a source."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    return [word.replace("SOURCE", str(source)).replace("OUT", str(out)) for word in verb.split()]


def run(words: list[str], **variables: str) -> tuple[int, bytes, bytes]:
    """The command in this process: status, stdout and stderr as bytes."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    out, err = contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1])
    with mock.patch.dict(os.environ, variables), out, err:
        code = main(words)
    printed, said = (stream.buffer.getvalue() for stream in streams)  # type: ignore[attr-defined]
    return code, printed, said
