# SPDX-License-Identifier: Apache-2.0
"""Every kind of source that ttmem reads, small and valid, and the command lines that read it."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from fuzz.kind import DATA, ROOT, Kind
from fuzz.model_sources import model_kinds

_PROFILE = (
    *(
        "profile {} --no-store",
        "profile {} --no-store --json",
        "profile {} --no-store --llm",
        "profile {} --no-store --csv",
    ),
    *("profile {} --name x --html {}.html", "check {}", "check {} --json", "check {} --github", "diff {} {} --json"),
    *("export {} --to perfetto -o {}.out", "export {} --to csv -o {}.tables", "profile {} --no-store --run last"),
)
_EXPLAIN = ("explain {}", "explain {} --json", "explain {} --llm", "explain {} --issue")
_FACTS = ("cb profile {}", "cb profile {} --json", "cb analyze {}")
_CODE = ("cb scan {} --json -j 1", "cb scan {} -j 1", "cb analyze {}") * 3 + ("cb analyze 4 4 {}",)
"""The last one simulates a pipeline, which takes longer than the scan and does not depend on the code."""
_RESULTS = ("sweep report {} -o {}.reports --json", "explain {}")
_CASES = (
    *("ops map {} --json", "ops map {}", "ops tests {} -o {}.tests --engine none", "sweep run {} -o {}.results --json"),
    *("ops extract {} -o {}.jsonl",),
)


def _unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _database(script: bytes, folder: Path) -> bytes:
    path = folder / "made.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as database:
        database.executescript(script.decode())
    database.close()
    return path.read_bytes()


def _saved(source: Path) -> bytes:
    import ttmem
    from ttmem.profile import profile_file

    return profile_file.encode(ttmem.read(source))


_STEPS = (
    b'{"alloc": "a", "shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "L1"}\n'
    b'{"alloc": "b", "shape": [512, 512], "dtype": "bfloat16", "layout": "tile", "memory": "L1", "shard": {"kind": '
    b'"height", "shape": [64, 512], "grid": [8, 1], "orientation": "row"}}\n{"free": "a"}\n'
)
_CASE = {"id": "1", "op": "silu", "tensors": [{"shape": [1, 32, 64], "dtype": "bfloat16"}], "args": {}, "models": ["m"]}
_RESULT = {
    "id": "1",
    "op": "silu",
    "board": "n150",
    "engine": "twin",
    "memory": "L1",
    "layout": "tile",
    "status": "oom",
    "needed_bytes": 4096,
    "bytes_per_bank": 64,
    "peak_bytes_per_bank": None,
    "message": "Out of Memory: x",
    "seconds": 0.1,
}
_JUNIT = (
    b'<testsuites><testsuite name="pytest" tests="2"><testcase classname="t" name="test_add[1]" time="0.1"/>'
    b'<testcase classname="t" name="test_mul[shape0]"><failure message="RuntimeError: Out of Memory: Not enough space '
    b'to allocate 4096 B L1 buffer across 8 banks, where each bank needs to store 512 B">trace</failure></testcase>'
    b"</testsuite></testsuites>"
)
_WATCHER = (
    b"Dump #1\nDevice 0 worker core(x= 0,y= 0) virtual(x= 1,y= 1):   GW,   W,   W,   W,   W  rmsg:D1D|BNt smsg:DDDD "
    b"k_ids:11|10|12\ncb[0](rcv 2!=ack 65535) k_ids:11|10|12\nk_id[11]: reader.cpp\n"
)
_PROFILER = (
    b"OP CODE,OP TYPE,GLOBAL CALL COUNT,CORE COUNT,DEVICE KERNEL DURATION [ns],DEVICE COMPUTE CB WAIT FRONT [ns],"
    b"DEVICE COMPUTE CB RESERVE BACK [ns]\nMatmul,tt_dnn_device,1,64,1000,300,20\nAdd,tt_dnn_device,2,64,500,,5\n"
)


def kinds(folder: Path) -> Iterator[Kind]:
    """All of them; ``folder`` is for what has to be made."""
    texts = _PROFILE + _EXPLAIN + _FACTS
    for path in (*sorted((DATA / "logs").glob("*.log.gz")), *sorted((DATA / "logs" / "real").glob("*"))):
        lines = _unpacked(path).splitlines(keepends=True)
        start = len(lines) // 3
        content = b"".join(lines[:150] + lines[start : start + 100] + lines[-60:])
        yield Kind(path.name, content, path.suffixes[0], texts)
    for path in sorted((DATA / "captures").glob("n150-*.json.gz")):
        if "truth" not in path.name and "python_io" not in path.name:
            yield Kind(path.name, _unpacked(path), ".json", _PROFILE + _FACTS + _EXPLAIN[:2])
    yield Kind("cb capture", (DATA / "cb" / "captured.json").read_bytes(), ".json", _PROFILE[:4] + _FACTS)
    script = _unpacked(DATA / "visualizer" / "n150-report.sql.gz")
    yield Kind("database", _database(script, folder), ".sqlite", _PROFILE + _FACTS[:1])
    yield Kind("saved profile", _saved(next(iter((DATA / "logs").glob("transformer*.log.gz")))), ".ttmem", _PROFILE)
    for path in sorted((DATA / "captures" / "memory-report").glob("*.csv")):
        yield Kind(path.name, path.read_bytes(), ".csv", _PROFILE[:6] + _FACTS[:1])
    for path in sorted((DATA / "sweep" / "older_logs").glob("*.txt")):
        yield Kind(path.name, path.read_bytes(), ".txt", _RESULTS)
    yield Kind("junit", _JUNIT, ".xml", _RESULTS)
    yield Kind("results", json.dumps(_RESULT).encode() + b"\n", ".jsonl", _RESULTS)
    yield Kind("cases", json.dumps(_CASE).encode() + b"\n", ".jsonl", _CASES)
    for path in sorted((DATA / "operators").glob("*.[cj]*")):
        yield Kind(path.name, path.read_bytes(), path.suffix, (*_CASES, *_RESULTS[:1]))
    yield Kind("steps", _STEPS, ".jsonl", ("replay {}", "replay {} --json", "replay {} --strict --board p150"))
    for path in sorted((DATA / "cb").rglob("*.cpp")):
        yield Kind(path.name, path.read_bytes(), ".cpp", _CODE)
    yield Kind("watcher", _WATCHER, ".log", _FACTS)
    yield Kind("profiler", _PROFILER, ".csv", _FACTS)
    yield Kind(
        "like",
        (ROOT / "docs" / "examples" / "real-oom.log").read_bytes(),
        ".log",
        ("tensor 32x32 --like {}", *_EXPLAIN),
    )
    yield from model_kinds()
