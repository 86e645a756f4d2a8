# SPDX-License-Identifier: Apache-2.0
"""Prove that a change of the code did not change the answers: run hundreds of command lines before and after, compare.

python tools/compare_documents.py inputs SRC_DIR                  # once, with the code of before (needs its tests, too)
python tools/compare_documents.py record SRC_DIR OUT_DIR [--jobs 2] [--only PATTERN] [--share N]
python tools/compare_documents.py compare A B [--sentences] [--only PATTERN] [--common]
python tools/compare_documents.py schemas A_DIR B_DIR             # two folders of JSON Schemas
python tools/compare_documents.py list                            # the command lines, nothing is run

SRC_DIR is the folder that holds the package ``ttmem``; its code is run because it comes first in PYTHONPATH (children
get the path of the process that started them, workers are started as files of the same package). ``inputs`` copies
everything that the command lines read out of the tree, and captures the runs that other commands start from: the
command lines depend on neither tree. ``compare`` and ``schemas`` exit with 1 when something differs that must not.

Sentences (texts with a space in them) are counted and listed apart. Durations, dates, process ids, temporary paths and
the version of ttmem are not compared at all.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import html
import importlib
import io
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

_ROOT = Path(__file__).resolve().parents[1]
_VENV = _ROOT / ".venv" / "bin" / "python"
_INPUTS = Path(tempfile.gettempdir(), "ttmem-compare", "inputs")
_START = "from ttmem.commands import main; raise SystemExit(main())"
_ENGINES = Path.home() / ".ttmem"
_TIMEOUT = 300
_MAKING = "being-made"

# --- what is run -------------------------------------------------------------------------------------------------


Words = tuple[object, ...]


@dataclass(frozen=True)
class Case:
    """Command lines that follow each other in one folder, with one home."""

    steps: tuple[tuple[str, ...], ...]
    stdin: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    weight: int = 0
    """Heavy ones are started first."""


class Commands:
    """All command lines over a folder of inputs."""

    def __init__(self, inputs: Path) -> None:
        self.inputs = inputs
        self.cases: list[Case] = []
        self.data, self.examples = inputs / "data", inputs / "examples"
        self.five = self.examples / "transformer-five-runs.log.gz"
        self.oom = self.examples / "blackhole-oom-ansi.log.gz"
        self.capture = self.data / "captures" / "n150-report.json.gz"
        self.made = inputs / "made"
        self.scripts = inputs / "scripts"
        self.captured = sorted((inputs / "profiles").glob("*.ttmem"))
        self.logs = [
            *sorted((self.data / "logs" / "real").glob("*.log")),
            *sorted(self.data.glob("logs/*.log.gz")),
            *sorted(path for path in self.examples.iterdir() if ".log" in path.name),
        ]
        self.captures = [
            path
            for path in sorted((self.data / "captures").glob("*.json.gz"))
            if ".truth." not in path.name and ".python_io." not in path.name
        ]
        self.databases = [
            *sorted((inputs / "databases").iterdir()),
            *sorted((inputs / "databases").glob("*/db.sqlite")),
        ]
        self.modules = [*sorted((self.data / "logs" / "real").glob("*.mlir")), *sorted(self.made.glob("*.mlir"))]
        self.sources = [
            *(*self.logs, *self.captures, *self.databases, *self.modules),
            *(self.data / "captures" / "memory-report", self.made / "ttrt.json"),
            *(*self.captured, *sorted((self.data / "fuzz").glob("*.ttmem"))),
        ]

    def add(self, *words: object, stdin: str = "", weight: int = 0, **variables: str) -> None:
        self.cases.append(Case((tuple(map(str, words)),), stdin, variables, weight))

    def add_steps(self, *steps: Sequence[object], weight: int = 0) -> None:
        self.cases.append(Case(tuple(tuple(map(str, step)) for step in steps), weight=weight))

    def all(self) -> list[Case]:
        for part in (
            *(self._profiles, self._explanations, self._budgets, self._exports, self._twin, self._operators),
            *(self._sweeps, self._fits, self._changes, self._runs, self._buffers, self._others, self._refusals),
        ):
            part()
        # One that two parts ask for is run once.
        return list({_name_of(case, 0, self.inputs): case for case in self.cases}.values())

    def _profiles(self) -> None:
        words: Words
        for source in self.sources:
            self.add("profile", source, "--json", "--name", "stored", "-q")
        for source in (self.five, self.oom, self.capture, *self.captured[::6]):
            for form in ("--llm", "--csv"):
                self.add("profile", source, form, "--no-store")
        for words in (
            ("--run", "last"),
            ("--run", "2"),
            ("--run", "all"),
            ("--rank", "0"),
            ("-j", "2"),
            ("--run", "99"),
        ):
            self.add("profile", self.five, "--json", "--no-store", *words)
        for jobs in ("1", "2", "3"):
            self.add("profile", self.made / "five-runs.log", "--json", "--no-store", "-j", jobs)
        for module in self.modules[:2]:
            self.add("profile", self.five, "--json", "--no-store", "--mlir", module)
        self.add("profile", self.five)
        self.add("profile", "-", "--json", "--no-store", stdin=(self.examples / "real-oom.log").read_text())
        self.add("--json", "--logfile", self.oom)
        self.add("profile", self.five, "--no-store", "--html", "page.html", "--json", "-o", "answer.json")
        self.add_steps(
            ("profile", self.five, "--name", "first", "-q", "--json"),
            ("profile", self.capture, "--name", "second", "-q", "--json"),
            ("reports", "--json"),
            ("reports",),
            ("reports", "path", "first"),
            ("diff", "first", "second", "--json"),
            ("explain", "second", "--json"),
            ("check", "first", "--json"),
            ("reports", "rm", "first"),
            ("reports", "--json"),
        )

    def _explanations(self) -> None:
        for known in json.loads((self.data / "explain" / "cases.json").read_text())[::2]:
            self.add("explain", known["message"], "--json")
        for log in sorted((self.data / "explain" / "real-logs").glob("*.log")):
            self.add("explain", log, "--json")
            self.add("explain", log)
        for source in (*self.logs[-5:], self.capture, *self.captured[::4]):
            self.add("explain", source, "--json")
        real = self.examples / "real-oom.log"
        for words in (("--llm",), ("--issue",), ("--board", "n150", "--json"), ("--no-alive", "--json"), ("--alive",)):
            self.add("explain", real, *words)
            self.add("explain", self.oom, *words)
        self.add("explain", "nothing of interest", "--json")
        self.add("explain", "-", "--json", stdin=real.read_text())

    def _budgets(self) -> None:
        words: Words
        limits = ((), ("--max-dram", "80%"), ("--max-l1", "1MiB", "--max-padding", "20%"), ("--max-dram", "1MiB"))
        for number, source in enumerate(self.sources[::2]):
            words = limits[number % len(limits)]
            self.add("check", source, *words, "--json", "--junit", "memory.xml", "--sarif", "memory.sarif")
        self.add("check", self.five, "--github")
        self.add("check", self.five)
        self.add("check", self.oom, "--baseline", self.five, "--max-growth", "2%", "--json")
        for before, after in zip(self.sources[::2], self.sources[2::2], strict=False):
            self.add("diff", before, after, "--json")
        for form in (("--llm",), ("--fail-on", "5%", "--json"), ("--html", "page.html"), ()):
            self.add("diff", self.five, self.oom, *form)

    def _exports(self) -> None:
        sources = (self.five, self.oom, *self.captures[::4], self.databases[0], *self.captured[::12])
        for source in sources:
            for form in ("csv", "perfetto", "visualizer", "parquet"):
                self.add("export", source, "--to", form, "-o", "out", "-q")
        self.add("export", self.five, "--to", "csv", "-o", "out", "--run", "last")
        self.add("export", self.captured[0], "--to", "visualizer", "-o", "out", "--with-source")

    def _twin(self) -> None:
        words: Words
        self.add("boards", "--json")
        self.add("boards")
        for words in (
            ("n150", "p150"),
            ("p150", "--release", "0.69.0"),
            ("--l1-small", "32768", "--release", "0.75.0"),
            ("--trace-region", "1000000"),
        ):
            self.add("boards", *words, "--json")
        message = (
            "Out of Memory: Not enough space to allocate 16777216 B L1 buffer across 64 banks, where each bank needs"
        )
        message += " to store 262144 B, but bank size is 1329888 B"
        for words in (
            ("160x100x512x1x1",),
            ("1x96x2176x1920",),
            ("512x512", "--shard", "height:64x512@8x8"),
            ("512x512", "--shard", "width:512x64@8x1:col"),
            ("512x512", "--shard", "block:64x64@8x8"),
            ("4x64x64", "--shard", "nd:1x32x32@4x4"),
            ("33x33", "--shard", "height:33x33@8x8"),
            ("0x5",),
            ("1x1x33x70", "--dtype", "bfloat8_b"),
            ("1x1x33x70", "--dtype", "float32", "--layout", "row_major"),
            ("160x100x512x1x1", "--memory", "L1", "--board", "p150"),
            ("1x1x1024x1024", "--memory", "L1", "--board", "n300", "--dispatch", "row"),
            ("1x1x1024x1024", "--memory", "L1_SMALL", "--l1-small", "32768"),
            ("1x1x64x64", "--worker-l1", "1000000", "--memory", "L1"),
            ("64x64", "--memory", "L1", "--like", message),
            ("64x64", "--like", self.five),
            ("64x64", "--like", self.capture, "--memory", "L1"),
            ("1x1024x1024", "--release", "0.75.0"),
        ):
            self.add("tensor", *words, "--json")
        self.add("tensor", "160x100x512x1x1")
        for board in ("n150", "n300", "t3k", "galaxy", "p100", "p150", "p300", "p150x4"):
            self.add("tensor", "3x1000x1000", "--board", board, "--json")
            self.add("replay", self.made / "steps.jsonl", "--board", board, "--json")
        for words in (("--l1-small", "32768"), ("--strict",), ("--trace-region", "1000000"), ("--like", self.five)):
            self.add("replay", self.made / "steps.jsonl", *words, "--json")
            self.add("replay", self.made / "more-steps.jsonl", *words, "--json")
        self.add("replay", self.made / "steps.jsonl")
        self.add("replay", "-", "--json", stdin='{"alloc": "a", "shape": [64, 64]}\n{"free": "b"}\n')

    def _operators(self) -> None:
        words: Words
        operators = self.data / "operators"
        sources = ("operators.csv", "master.json", "aten.add.Tensor.csv", "eltwise.unary.silu.silu.json")
        for name in (*sources, "known_operators.json"):
            self.add("ops", "extract", operators / name, "-o", "cases.jsonl", "--json")
        self.add("ops", "extract", *(operators / name for name in sources))
        model = self.data / "operators" / "small_model.py"
        inputs = ("--inputs", f"{model}::get_inputs")
        for words in (
            (f"{model}::load_model", *inputs),
            (f"{model}::attention", "--inputs", f"{model}::heads", "--attention", "eager"),
            (f"{model}::picky", *inputs, "--size", "8x8", "--size", "9x9"),
        ):
            self.add("ops", "extract", *words, "-o", "cases.jsonl", "--json", weight=4)
        cases = self.inputs / "cases.jsonl"
        more = self.made / "cases.jsonl"
        self.add("ops", "map", "--json")
        self.add("ops", "map")
        for path in (cases, more):
            self.add("ops", "map", path, "--json")
            self.add("ops", "map", path, "-o", "mapping")
            self.add("ops", "tests", path, "-o", "tests", "--engine", "none", "--json")
            self.add("ops", "extract", path, "-o", "again.jsonl", "--json")
        self.add("ops", "map", more, "--engine", "mock", "--json", weight=9)
        self.add("ops", "tests", more, "-o", "tests", "--engine", "mock", "--json", weight=9)
        self.add("ops", "tests", more, "-o", "tests", "--board", "n150", "--board", "p150", "--most", "1", weight=9)

    def _sweeps(self) -> None:
        words: Words
        cases, more, older = self.inputs / "cases.jsonl", self.made / "cases.jsonl", self.data / "sweep" / "older_logs"
        for words in ((), ("--board", "n150,p150"), ("--layout", "tile,row_major", "--memory", "L1"), ("--strict",)):
            self.add("sweep", "run", cases, "-o", "results", "--json", "-q", *words)
            self.add("sweep", "run", more, "-o", "results", "--json", "-q", *words)
        self.add_steps(
            ("sweep", "run", more, "-o", "a", "--json", "-q", "--save-expectations", "known.jsonl"),
            ("sweep", "run", more, "-o", "b", "--json", "-q", "--board", "p150", "--expect", "known.jsonl"),
            ("sweep", "diff", "a", "b", "--json"),
            ("sweep", "diff", "a", "b", "--fail-on", "growth:5%"),
            ("sweep", "report", "a", "-o", "report", "--json"),
        )
        for board in ("n150", "p150"):
            words = ("--engine", "mock", "--workers", "1", "--board", board)
            self.add("sweep", "run", more, "-o", "results", "--json", "-q", *words, weight=9)
        for source in (older, self.made / "junit.xml", self.made / "sweep.json", self.inputs / "results"):
            self.add("sweep", "report", source, "-o", "report", "--json", "-q")
        self.add("sweep", "report", self.inputs / "results", "-o", "report", "--advice", "mock", "--json", weight=5)
        for words in (
            ("--op", "silu"),
            ("--op", "add,mul", "--memory", "L1"),
            ("--op", "matmul", "--shape", "1x1x32x1024"),
            ("--op", "mean", "--board", "p150", "--layout", "row_major", "--widths", "own"),
        ):
            self.add("sweep", "limits", *words, "--json")
        self.add("sweep", "limits", "--op", "silu", "--markdown", "--svg", "plot.svg")
        words = ("--op", "silu", "--memory", "L1", "--engine", "mock", "--widths", "own")
        self.add("sweep", "limits", *words, "--json", weight=8)

    def _fits(self) -> None:
        words: Words
        twin = ("--engine", "twin", "--json", "--no-store")
        asked = ((), ("--context", "32768", "--users", "4"), ("--phase", "decode", "--board", "t3k"))
        for number, config in enumerate(sorted((self.inputs / "configs").glob("*.json"))):
            self.add("fit", config, *asked[number % len(asked)], *twin)
        llama, small = self.inputs / "configs" / "llama-8b.json", self.inputs / "configs" / "small.json"
        for words in (
            ("--recipe", "tt-transformers:accuracy", "--context", "65536"),
            ("--recipe", "tt-transformers:performance", "--context", "32768"),
            ("--recipe", "tt-transformers:accuracy", "--max", "context", "--users", "4", "--board", "t3k"),
            ("--weights", "mlp=bfloat4_b,attn=bfloat8_b", "--kv-cache", "bfloat8_b", "--phase", "decode"),
            ("--prefill-chunk", "2048", "--context", "16384"),
            ("--boards", "n150,p150"),
            ("--recipe", "nobody's"),
        ):
            self.add("fit", llama, *words, *twin)
        self.add("fit", small, "--json", "--name", "small", weight=3)
        self.add("fit", small, "--engine", "twin", "--json", "--name", "small", "--html", "page.html")
        self.add("fit", small, "--sweep", "users=1..8,context=1024|4096", *twin, "--plot", "plot.svg")
        self.add("fit", small, "--sweep", "users=1..8", "--csv", "--engine", "twin", "--no-store")
        self.add("fit", small, "--engine", "twin", "--no-store")
        for module in self.modules:
            self.add("fit", module, *twin)
        for module in self.modules[1::3]:
            self.add("fit", module, "--engine", "mock", "--json", "--no-store", weight=3)
            self.add("fit", module, "--board", "p150", *twin)
        for script in ("transformer_block", "out_of_memory", "out_of_memory_fixed", "blocks"):
            self.add("fit", self.scripts / f"{script}.py", "--json", "--no-store", weight=3)
        self.add(
            "fit", "--list", self.inputs / "models.txt", "--boards", "n150,p150", "-o", "atlas", "--json", weight=6
        )
        torch = self.data / "fit_models.py"
        for words in (
            (f"{torch}::attention", "--inputs", f"{torch}::tokens", *twin),
            (f"{torch}::convolutions", "--inputs", f"{torch}::image", "--size", "64x64", *twin),
            (f"{torch}::attention", "--inputs", f"{torch}::tokens", "--sweep", "batch=1|400000", *twin),
            (f"{torch}::odd", "--inputs", f"{torch}::as_dict", *twin),
            (f"{torch}::convolutions", "--inputs", f"{torch}::image", "--json", "--no-store"),
            ("hf:ViTConfig", "--size", "384x384", "--batch", "8", *twin),
            ("hf:LlamaConfig", "--set", "num_hidden_layers=2", "--seq", "128", *twin),
        ):
            self.add("fit", *words, weight=7)

    def _changes(self) -> None:
        """``tune`` and ``whatif``."""
        words: Words
        targets = ((), ("--max-dram", "1KiB"), ("--max-l1", "50%"), ("--target", "fits"))
        known = json.loads((self.inputs / "edits.json").read_text())
        for number, source in enumerate(self.captured):
            words = targets[number % len(targets)]
            self.add("tune", source, *words, "--json", "--sarif", "tune.sarif", "--patch", "smaller.diff", weight=1)
            for edit in ("board=p150", "dtype:*=bfloat8_b", *known.get(source.stem, ())):
                self.add("whatif", source, edit, "--json")
        for source in (self.data / "fuzz" / "run.ttmem", self.data / "fuzz" / "suite.ttmem", self.five):
            self.add("tune", source, "--json")
            self.add("whatif", source, "board=n300", "--json")
        model = self.inputs / "profiles" / "model.ttmem"
        self.add("tune", model)
        self.add("whatif", model, "free:hidden@17")
        self.add_steps(
            ("whatif", model, "free:hidden@17", "memory:wide=DRAM", "--name", "changed", "--json"),
            ("diff", model, "changed", "--json"),
            ("profile", "changed", "--json"),
        )
        for profile, script in (("model", "model"), ("transformer", "transformer")):
            words = ("--verify", "--script", self.scripts / f"{script}.py", "--max-l1", "70%", "--json")
            self.add("tune", self.inputs / "profiles" / f"{profile}.ttmem", *words, weight=9)

    def _runs(self) -> None:
        words: Words
        for folder in ("examples", "docs"):
            for script in sorted((self.inputs / "shown" / folder).glob("*.py")):
                for board in ("n150", "p150", "n300"):
                    self.add("run", script, "--board", board, "--json", weight=2)
        for name, board, words in json.loads((self.inputs / "runs.json").read_text()):
            if name == "transfer":  # the library itself dies of it
                continue
            self.add("run", self.scripts / f"{name}.py", "--board", board, "--json", "--no-store", *words, weight=2)
        script = self.scripts / "model.py"
        for words in (
            ("--csv", "--no-store"),
            ("--llm", "--no-store"),
            ("--html", "page.html", "--no-store"),
            ("--no-programs", "--json", "--no-store"),
            ("--l1-small", "65536", "--trace-region", "1000000", "--json", "--no-store"),
            ("--json", "--no-store", "--", "--json", "-x"),
        ):
            self.add("run", script, *words, weight=2)
        self.add_steps(
            ("run", script, "--name", "model", "--json"),
            ("tune", "model", "--verify", "--max-dram", "50%", "--json"),
            ("reports", "--json"),
            weight=9,
        )
        for suite in sorted((self.inputs / "suites").glob("test_*.py")):
            words = ("--junit", "tests.xml", "--sarif", "tests.sarif", "--name", "suite")
            self.add("test", suite, "--json", *words, "-p", "no:cacheprovider", weight=9)
        suite = self.inputs / "suites" / "test_waste.py"
        self.add("test", suite, "--json", "--fail-on", "leak,late-free", "-p", "no:cacheprovider", weight=4)
        self.add("test", suite, "--max-dram", "1KiB", "--board", "p150", "-p", "no:cacheprovider", weight=4)

    def _buffers(self) -> None:
        words: Words
        folder = self.data / "cb"
        places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
        for place in places:
            self.add("cb", "scan", place, "--json", "-j", "1", "--sarif", "buffers.sarif")
            self.add("cb", "scan", place, "--json", "-j", "2", "--bind", "num_tiles=64", "--bind", "dtype=bfloat16")
            self.add("cb", "scan", place, "--l1-tensors", "800000", "--board", "p150", "--fail-on", "error", "--json")
        self.add("cb", "scan", folder, "--all")
        self.add("cb", "scan", self.made / "kernels", "--json", "-j", "2")
        for words in (
            ("16", "16"),
            ("1", "32"),
            ("--multi",),
            ("32", "32", "--board", "p150", "--tiles-per-barrier", "4", "--plot", "depth.svg"),
            ("16", "16", "--strategy", "fixed", "--strategy", "adaptive-program", "--dtype", "bfloat16"),
            ("16", "16", "--strategy", self.made / "my.toml", "--strategy", "fixed", "--cores", "8"),
            ("8", "8", "--compute-cycles", "100:400", "--kernel-bytes", "50000"),
        ):
            self.add("cb", "simulate", *words, "--json")
        self.add("cb", "simulate", "16", "16")
        sources = (self.five, *self.captures, self.databases[0], self.data / "cb" / "captured.json")
        for source in (*sources, *self.captured[::3], self.made / "watcher.log", self.made / "profiler.csv"):
            self.add("cb", "profile", source, "--json")
        self.add("cb", "profile", self.made / "perf.csv", "--json")
        for words in (
            ("16", "16", folder / "adaptive_add", self.capture),
            ("--multi", folder / "adaptive_add", folder / "fixed_add", self.five),
            (self.made / "perf.csv", self.made / "watcher.log"),
            ("16", "16", folder / "dataflow", "--html", "page.html"),
        ):
            self.add("cb", "analyze", *words, "--json")
        self.add("cb", "analyze", "16", "16", folder / "fixed_add")

    def _others(self) -> None:
        words: Words
        self.add("device", "info", "--json", weight=2)
        self.add("device", "info", weight=2)
        for board in ("n150", "p150"):
            self.add("device", "doctor", "--board", board, "--json", weight=2)
        for words in (("--once",), ("--once", "--json"), ("--json", "--count", "2", "--interval", "0.05")):
            self.add("live", *words, TTMEM_SHM_DIR=str(self.made / "shm"))
        self.add("live", "--once", "--json", TTMEM_SHM_DIR=str(self.made / "nothing"))
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "compare", "version": "1"}}
        calls = [
            {"name": "nothing", "arguments": {"shape": "512x512"}},
            {"name": "profile", "arguments": {"source": str(self.five)}},
            {"name": "tensor", "arguments": {"shape": "512x512"}},
            {"name": "check", "arguments": {"source": str(self.oom)}},
            {"name": "tune", "arguments": {"source": str(self.inputs / "profiles" / "model.ttmem")}},
            {"name": "explain", "arguments": {"text": (self.examples / "real-oom.log").read_text()}},
        ]
        asked: list[dict[str, Any]] = [
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
            *({"id": 3 + number, "method": "tools/call", "params": call} for number, call in enumerate(calls)),
        ]
        lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in asked)
        self.add("mcp", "--root", self.inputs, stdin=lines, weight=3)
        for shell in ("bash", "zsh", "fish"):
            self.add("completion", shell)
        groups = {"cb": "simulate scan profile analyze", "ops": "extract map tests", "sweep": "run report limits diff"}
        groups |= {"device": "doctor info install", "reports": "path rm"}
        plain = (
            "profile explain diff check run test export live boards tensor replay fit serve tune whatif mcp completion"
        )
        self.add("--help")
        for verb in (*plain.split(), *groups):
            self.add(verb, "--help")
            for word in groups.get(verb, "").split():
                self.add(verb, word, "--help")

    def _refusals(self) -> None:
        for line in (
            "",
            "profil run.log",
            "profile missing.log",
            "profile --nothing",
            "explain missing.log --json",
            "diff missing.log missing.log --json",
            "check missing.log",
            "tensor 1xtwo --json",
            "tensor 1x2 --board n15o",
            "tensor 1x2 --dtype bf61",
            "tensor 1x2 --layout tiles",
            "tensor 1x2 --worker-l1 99999999",
            "boards p15O0",
            "replay missing.jsonl",
            "run missing.py",
            "run",
            "test missing",
            "tune missing",
            "whatif missing board=p150",
            "fit missing.mlir",
            "fit missing.py::load_model",
            "fit hf:NoSuchConfig --engine twin",
            "ops extract missing.csv",
            "ops map missing.jsonl",
            "sweep run missing.jsonl -o results",
            "sweep limits --op nothing",
            "sweep diff a b",
            "cb scan missing",
            "cb simulate 0 0",
            "export missing.log --to csv -o out",
            "reports path nothing",
            "reports rm nothing",
            "live --interval 0",
            "device info --python /nowhere/python",
        ):
            self.add(*line.split())
        model = self.inputs / "profiles" / "model.ttmem"
        for edit in ("free:hiden@17", "nothing", "dtype:wide=float7", "region:L9=0"):
            self.add("whatif", model, edit, "--json")


def _name_of(case: Case, step: int, inputs: Path) -> str:
    """The file of a result: the words, cut, and a digest of the whole case."""
    told = [[word.replace(str(inputs), "IN") for word in words] for words in case.steps]
    variables = {name: value.replace(str(inputs), "IN") for name, value in sorted(case.variables.items())}
    digest = hashlib.sha256(json.dumps([told, case.stdin, variables, step]).encode()).hexdigest()[:8]
    words = "-".join(told[step]) or "nothing"
    return f"{re.sub(r'[^A-Za-z0-9.=]+', '-', words)[:90].strip('-')}-{digest}.json"


# --- inputs, made once with the code of before -------------------------------------------------------------------

_WRITE_INPUTS = r"""
import gzip, importlib, json, random, shutil, sqlite3, sys, textwrap
from pathlib import Path

out = Path(sys.argv[1])
scripts, made, suites, configs = (out / name for name in ("scripts", "made", "suites", "configs"))
for folder in (scripts, made, suites, configs, made / "shm", made / "nothing"):
    folder.mkdir()
of = lambda module, *names: [getattr(importlib.import_module(module), name) for name in names]

(HEAD,) = of("tune.conftest", "HEAD")
PROBLEMS, CLEAN = of("tune.planted", "PROBLEMS", "CLEAN")
TRANSFORMER, CONVOLUTIONS = of("tune.test_nets", "TRANSFORMER", "CONVOLUTIONS")
(MODEL,) = of("tune.test_verbs", "MODEL")
FORMS, EDITS = of("tune.test_patches", "FORMS", "EDITS")
MESH_HEAD, SUBMESHES, TWO_DEVICES, COLLECTIVES, TRANSFER = of(
    "engines.test_meshes", "HEAD", "SUBMESHES", "TWO_DEVICES", "COLLECTIVES", "TRANSFER"
)
TRACED, SUB_DEVICES = of("engines.test_mock_gaps", "TRACED", "SUB_DEVICES")
(NAMES,) = of("engines.test_names", "MODEL")
(FIT_SCRIPT,) = of("fit.test_scripts", "_MODEL")

runs, edits = [], {}


def script(name, text, *boards, words=()):
    (scripts / f"{name}.py").write_text(textwrap.dedent(text))
    runs.extend((name, board, list(words)) for board in boards)


for name, problem in PROBLEMS.items():
    short = name.replace(" ", "-")
    head = HEAD.replace("device_id=0", f"device_id=0, {problem.open}") if problem.open else HEAD
    script(short, head + textwrap.dedent(problem.body), "n150")
    if problem.clean:
        script(f"{short}-clean", head + textwrap.dedent(problem.clean), "n150")
    edit = problem.edit.split("@")[0]
    more = {"memory": "=DRAM", "dtype": "=bfloat16", "order": "=last"}.get(edit.split(":")[0], "")
    if edit and not edit.endswith(":"):
        edits[short] = [edit if "=" in edit else edit + more]
for name, body in CLEAN.items():
    script(name.replace(" ", "-"), HEAD + textwrap.dedent(body), "p150")
script("transformer", TRANSFORMER, "n150", "p150", "n300")
script("convolutions", CONVOLUTIONS, "n150")
script("model", HEAD + MODEL, "n150", "p150", "p300")
script("forms", HEAD + textwrap.dedent(FORMS), "n150")
script("submeshes", MESH_HEAD + SUBMESHES, "t3k")
script("two-devices", MESH_HEAD + TWO_DEVICES, "n300")
script("collectives", MESH_HEAD + COLLECTIVES, "n300", words=("1", "2"))
script("collectives", MESH_HEAD + COLLECTIVES, "p150x4", words=("2", "2"))
script("transfer", MESH_HEAD + TRANSFER, "n300", words=("2",))
script("traced", TRACED, "n150", words=("1", "1"))
script("traced", TRACED, "p300", words=("2", "2"))
script("sub-devices", SUB_DEVICES, "n150")
script("names", NAMES, "n150", "p150")
script("blocks", FIT_SCRIPT.replace("END", "ttnn.close_device(device)"), "n150", "p100")
edits["forms"] = list(EDITS)
edits["model"] = [
    "free:hidden@17", "inplace:active", "memory:wide=DRAM", "shard:wide=height:32x1024@8x8", "chunk:gelu@18=4",
    "region:L1_SMALL=0", "free:state", "dtype:weights=bfloat8_b", "order:wide=last",
]
(out / "runs.json").write_text(json.dumps(runs))
(out / "edits.json").write_text(json.dumps(edits))

for name, module, attribute in (
    ("suite", "engines.test_suite", "SUITE"),
    ("waste", "engines.test_suite", "WASTE"),
    ("verbs", "engines.test_verbs", "SUITE"),
):
    (suites / f"test_{name}.py").write_text(of(module, attribute)[0])

for name, attribute in (("llama-8b", "LLAMA_8B"), ("qwen3-32b", "QWEN3_32B"), ("mixtral", "MIXTRAL"),
                        ("gemma-3-4b", "GEMMA_3_4B"), ("gemma-4", "GEMMA_4")):
    (configs / f"{name}.json").write_text(json.dumps(of("fit.language.configurations", attribute)[0]))
(configs / "small.json").write_text(json.dumps(of("commands.test_examples_run", "_LANGUAGE_MODEL")[0]))

linear_layer, module, function, tiles = of(
    "fit.compiled.some_modules", "linear_layer", "module", "function", "tiles"
)
(PROGRAM,) = of("fit.compiled.test_stream", "PROGRAM")
(one_call,) = of("fit.compiled.test_played", "one_call")
for name, text in {
    "linear": linear_layer(),
    "large": linear_layer(rows=2048, inner=65536, columns=163840),
    "wide": linear_layer(rows=256, inner=2048, columns=2048),
    "program": PROGRAM + linear_layer().replace(
        "transpose_b = false", "matmul_program_config = #config, compute_config = "
        "#ttnn.device_compute_kernel_config<math_fidelity = hifi4, fp32_dest_acc_en = true>, transpose_b = false"),
    "permute": one_call(
        '%0 = "ttnn.permute"(%arg0) <{permutation = array<i64: 0, 1, 2, 3>}> : (KIND) -> KIND'),
    "unknown": one_call('%0 = "ttnn.frobnicate"(%arg0) : (KIND) -> KIND'),
    "too-large": one_call('%0 = "ttnn.relu"(%arg0) : (KIND) -> KIND', "tensor<65536x65536xbf16, #l>", 65536),
}.items():
    (made / f"{name}.mlir").write_text(text)
(out / "models.txt").write_text(
    f"# models\n{made}/linear.mlir\n{made}/large.mlir --l1-small 0\n{made}/missing.mlir\n"
    f"{configs}/small.json --recipe tt-transformers:accuracy --context 4096 --engine twin\n"
)

STEPS, CASES, JUNIT, SWEEP_JSON, PROFILER_CSV, TTRT = of(
    "hostile.bad_values", "STEPS", "CASES", "JUNIT", "SWEEP_JSON", "PROFILER_CSV", "TTRT"
)
STEPS_2, CASES_2 = of("commands.test_documents", "STEPS", "CASES")
(WATCHER,) = of("circular_buffers.test_evidence", "WATCHER")
as_lines = lambda rows: "".join(f"{json.dumps(row)}\n" for row in rows)
chance, alive, more = random.Random(7), [], []
for number in range(60):
    if alive and chance.random() < 0.4:
        more.append({"free": alive.pop(chance.randrange(len(alive)))})
        continue
    alive.append(f"t{number}")
    more.append({"alloc": alive[-1], "shape": [1, 1, 32 * chance.randint(1, 200), 32 * chance.randint(1, 200)],
                 "memory": chance.choice(["DRAM", "L1"]), "dtype": chance.choice(["bfloat16", "float32", "bfloat8_b"])})
for name, text in {
    "steps.jsonl": as_lines(STEPS_2), "odd-steps.jsonl": STEPS, "more-steps.jsonl": as_lines(more),
    "cases.jsonl": CASES + as_lines([{**row, "id": f"more{n}"} for n, row in enumerate(CASES_2)]),
    "junit.xml": JUNIT, "sweep.json": SWEEP_JSON, "profiler.csv": PROFILER_CSV, "ttrt.json": TTRT,
    "watcher.log": WATCHER,
    "my.toml": 'name = "mine"\n[tiles]\ncb0 = 2\ncb1 = 4\ncb2 = 2\ncb16 = 2\n',
    "perf.csv": "OP CODE,OP TYPE,DEVICE FW DURATION [ns],DEVICE KERNEL DURATION [ns],CORE COUNT\n"
                "Matmul,tt_dnn_device,1200,1000,64\n",
}.items():
    (made / name).write_text(text)

# A log and a tree that are large enough to be read by several processes.
(made / "five-runs.log").write_bytes(gzip.decompress((out / "examples" / "transformer-five-runs.log.gz").read_bytes()))
for number in range(12):
    shutil.copytree(out / "data" / "cb", made / "kernels" / str(number))

(region,) = of("live.regions", "region")
held = (4194304, 2097152, 0, 0, 786432)
(made / "shm" / "tt_device_0_memory").write_bytes(region(total=held, processes=[(1, "init", held)]))
(made / "shm" / "tt_device_1_memory").write_bytes(region(version=9))

for dump in sorted((out / "data" / "visualizer").glob("*.sql.gz")):
    folder = out / "databases" / dump.name.partition(".sql")[0]
    folder.mkdir(parents=True)
    database = sqlite3.connect(folder / "db.sqlite")
    database.executescript(gzip.decompress(dump.read_bytes()).decode())
    database.commit()
    database.close()
    cluster = dump.with_name(f"{folder.name}.cluster.yaml.gz")
    if cluster.exists():
        (folder / "cluster_descriptor.yaml").write_bytes(gzip.decompress(cluster.read_bytes()))
"""


def make_inputs(source: Path, inputs: Path, python: Path, jobs: int) -> int:
    """Everything that the command lines read, out of the tree and of runs of its code."""
    if inputs.exists():
        print(f"{inputs} exists; remove it to make it again", file=sys.stderr)
        return 2
    tree = source.parent
    inputs.mkdir(parents=True)
    unfinished = inputs / _MAKING
    unfinished.touch()
    shutil.copytree(tree / "tests" / "data", inputs / "data")
    shutil.copytree(tree / "docs" / "examples", inputs / "examples")
    for name, folder in (("examples", tree / "examples"), ("docs", tree / "docs" / "examples")):
        place = inputs / "shown" / name
        place.mkdir(parents=True)
        for script in folder.glob("*.py"):
            shutil.copy(script, place)
    path = os.pathsep.join(str(tree / part) for part in ("src", "tests", "bench"))
    subprocess.run([str(python), "-c", _WRITE_INPUTS, str(inputs)], check=True, env={**os.environ, "PYTHONPATH": path})
    for script in (inputs / "shown" / "examples").glob("*.py"):
        shutil.copy(script, inputs / "scripts")
    with Runner(source, inputs, python) as runner:
        (inputs / "profiles").mkdir()

        def capture(name: str, *words: object, keep: str = "") -> None:
            case = Case((tuple(map(str, (*words, "--name", "made", "-q" if words[0] == "profile" else "--json"))),))
            with runner.place(f"input-{name}") as folder:
                runner.call(case, 0, folder)
                stored = folder / "home" / "reports" / "made" / "made_profile.ttmem"
                if stored.exists():
                    shutil.copy(stored, inputs / "profiles" / f"{keep or name}.ttmem")
                else:
                    print(f"no profile of {name}", file=sys.stderr)

        tasks: list[tuple[Any, ...]] = []
        seen: Counter[str] = Counter()
        runs = [(name, board, words) for name, board, words in json.loads((inputs / "runs.json").read_text())]
        runs += [(name, board, []) for name in ("transformer_block", "out_of_memory") for board in ("n150", "p150")]
        for name, board, words in runs:
            seen[name] += 1
            label = name if seen[name] == 1 else f"{name}-{board}"
            tasks.append((label, "run", inputs / "scripts" / f"{name}.py", "--board", board, *words))
        tasks.append(("suite-waste", "test", inputs / "suites" / "test_waste.py", "-p", "no:cacheprovider"))
        tasks.append(("predicted", "fit", inputs / "made" / "wide.mlir", "--engine", "twin"))
        tasks.append(("five-runs", "profile", inputs / "examples" / "transformer-five-runs.log.gz"))
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda task: capture(*task), tasks))
        operators = [inputs / "data" / "operators" / name for name in ("operators.csv", "master.json")]
        with runner.place("input-cases") as folder:
            words = ("ops", "extract", *map(str, operators), "-q", "-o", str(inputs / "cases.jsonl"))
            sweep = ("sweep", "run", str(inputs / "made" / "cases.jsonl"), "-q", "-o", str(inputs / "results"))
            for step in (0, 1):
                runner.call(Case((words, sweep)), step, folder)
    unfinished.unlink()
    print(f"{inputs}: {len(list((inputs / 'profiles').iterdir()))} saved profiles")
    return 0


# --- recording ---------------------------------------------------------------------------------------------------


class Place:
    """A folder for one case: its working folder and its home, removed afterwards."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self._cache = folder, cache

    def __enter__(self) -> Path:
        shutil.rmtree(self.folder, ignore_errors=True)
        home = self.folder / "home"
        (self.folder / "here").mkdir(parents=True)
        home.mkdir()
        for part in ("device", "torch"):
            if (_ENGINES / part).exists():
                (home / part).symlink_to(_ENGINES / part)
        (home / "cache").symlink_to(self._cache)
        return self.folder

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Runner:
    """Runs command lines with the code of one folder. All recordings work in the same place, one after the other."""

    def __init__(self, source: Path, inputs: Path, python: Path) -> None:
        self.source, self.inputs, self.python = source.resolve(), inputs, python
        self.work = inputs.parent / "work"
        self.version = ""

    def __enter__(self) -> Runner:
        try:
            self.work.mkdir(parents=True)
        except FileExistsError:
            raise SystemExit(
                f"{self.work} exists: another recording is running, or was killed (then remove it)"
            ) from None
        (self.work / "cache").mkdir()
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        """Which code it is, and its version."""
        with self.place("first") as folder:
            asked = [str(self.python), "-c", "import ttmem; print(ttmem.__file__)"]
            found = subprocess.run(asked, env=self.environment(folder), capture_output=True, check=False, text=True)
            told = self.start(["--version"], folder)
        if not found.stdout.startswith(f"{self.source}{os.sep}"):
            raise SystemExit(f"{self.python} runs '{found.stdout.strip()}', not {self.source}\n{found.stderr}")
        if told.returncode:
            raise SystemExit(f"the code in {self.source} does not start:\n{told.stderr.decode(errors='replace')}")
        self.version = told.stdout.split()[-1].decode()

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.work, ignore_errors=True)

    def place(self, name: str) -> Place:
        return Place(self.work / name, self.work / "cache")

    def environment(self, folder: Path) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        home = folder / "home"
        ours = {"PYTHONPATH": self.source, "TTMEM_HOME": home, "HOME": home, "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
        fixed = {"NO_COLOR": "1", "COLUMNS": "100", "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1", "TZ": "UTC"}
        return {**kept, **fixed, **{name: str(value) for name, value in ours.items()}}

    def start(
        self, words: Sequence[str], folder: Path, stdin: str = "", variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        command = ["nice", "-n", "10", str(self.python), "-c", _START, *words]
        here, environment = folder / "here", {**self.environment(folder), **(variables or {})}
        if words[:1] != ["device"]:  # named, it is found where it is: its kernels are then kept for all cases
            environment["TTMEM_TTNN_PYTHON"] = str(_ENGINES / "device" / "bin" / "python")
        if words[:1] == ["mcp"] and stdin:
            return _talk(command, stdin, here, environment)
        return subprocess.run(
            command,
            input=stdin.encode(),
            capture_output=True,
            cwd=here,
            env=environment,
            timeout=_TIMEOUT,
            check=False,
        )

    def call(self, case: Case, step: int, folder: Path) -> dict[str, Any]:
        """What one command line gave: status, answer, notes, and the files that it wrote."""
        before = _stamps(folder)
        begun = time.monotonic()
        words = list(case.steps[step])
        try:
            done = self.start(words, folder, case.stdin, case.variables)
            status, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            status, out, err = -999, b"", b"took too long for the recording"
        seconds = time.monotonic() - begun
        after = _stamps(folder)
        written = sorted(path for path, stamp in after.items() if before.get(path) != stamp)
        found = {
            "command": "ttmem " + shlex.join(word.replace(str(self.inputs), "IN") for word in words),
            "verb": words[0] if words else "",
            "exit": status,
            "stdout": _answer(out, "--csv" in words),
            "stderr": err.decode(errors="replace").splitlines(),
            "files": {str(path.relative_to(folder)): _content(path) for path in written},
        }
        places = {str(self.source): "<src>", str(folder): "<case>", str(self.work): "<work>"}
        if self.version:
            places[self.version] = "<version>"
        return {**_replaced(found, places), "seconds": round(seconds, 2)}


def _talk(command: list[str], stdin: str, here: Path, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """One line at a time, each after the answer to the last: a server ends when its standard input does."""
    pipe, answers = subprocess.PIPE, []
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=here, env=env) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for line in stdin.splitlines():
            server.stdin.write(line.encode() + b"\n")
            server.stdin.flush()
            if "id" in json.loads(line):
                answers.append(server.stdout.readline())
        server.stdin.close()
    return subprocess.CompletedProcess(command, server.returncode, b"".join(answers), b"")


def _stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    """Files of the working folder and of the stored reports."""
    found = {}
    for root in (folder / "here", folder / "home" / "reports"):
        for path in root.rglob("*"):
            if path.is_file():
                about = path.stat()
                found[path] = about.st_size, about.st_mtime_ns
    return found


def _replaced(value: Any, places: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for old, new in places.items():
            value = value.replace(old, new)
        return value
    if isinstance(value, dict):
        return {_replaced(key, places): _replaced(item, places) for key, item in value.items()}
    return [_replaced(item, places) for item in value] if isinstance(value, list) else value


def _answer(out: bytes, is_table: bool) -> dict[str, Any]:
    text = out.decode(errors="replace")
    if is_table:
        return {"rows": list(csv.reader(io.StringIO(text)))}
    try:
        return {"json": json.loads(text)}
    except ValueError:
        pass
    try:
        documents = [json.loads(line) for line in text.splitlines()]
        return {"jsonl": documents} if documents else {"text": []}
    except ValueError:
        return {"text": text.splitlines()}


def _content(path: Path) -> Any:
    """What a file says, in a form that can be compared."""
    content = path.read_bytes()
    try:
        if content.startswith(b"SQLite format 3\0"):
            return _database(path)
        if content.startswith(b"\x89TTMEM"):
            return _saved_profile(content)
        if content.startswith(b"PAR1"):
            table = importlib.import_module("pyarrow.parquet").read_table(path)
            return {"schema": str(table.schema).splitlines(), "rows": _plain(table.to_pylist())}
        if path.suffix == ".csv":
            return {"rows": list(csv.reader(io.StringIO(content.decode())))}
        if content.startswith(b"<!doctype html>"):
            return _page(content.decode())
        if path.suffix in (".xml", ".svg"):
            return _element(ElementTree.fromstring(content))
        return _answer(content, False)
    except Exception as error:
        return {"unread": type(error).__name__, "digest": _digest(content)}


def _database(path: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        names = [
            row[0] for row in database.execute("select name from sqlite_master where type = 'table' order by name")
        ]
        tables = {name: [dict(row) for row in database.execute(f'select * from "{name}"')] for name in names}
    return {"tables": {name: _plain(rows) for name, rows in tables.items()}}


def _saved_profile(content: bytes) -> dict[str, Any]:
    """A header, then a zstd frame with a msgpack document, whose columns are bytes."""
    decompressor = importlib.import_module("zstandard").ZstdDecompressor()
    decoded = importlib.import_module("msgspec").msgpack.decode(decompressor.decompress(content[44:]), strict=False)
    return {"version": int.from_bytes(content[8:12], "little"), "profile": _plain(decoded)}


def _page(text: str) -> dict[str, Any]:
    """The data of a page and its plain text, not its program."""
    marked = re.findall(r'<script type="application/octet-stream" data-role="block">([^<]*)</script>', text)
    blocks = []
    for block in marked:
        content = zlib.decompress(base64.b64decode(block))
        end = 4 + int.from_bytes(content[:4], "little")
        blocks.append({"header": json.loads(content[4:end]), "digest": _digest(content[end:])})
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    shown = re.sub(r"<meta\b[^>]*>", "", shown)
    return {"blocks": blocks, "text": html.unescape(re.sub(r"<[^>]*>", "\n", shown)).split("\n")}


def _element(element: ElementTree.Element) -> dict[str, Any]:
    return {
        "tag": element.tag,
        "attributes": dict(element.attrib),
        "text": (element.text or "").strip(),
        "tail": (element.tail or "").strip(),
        "parts": [_element(part) for part in element],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"bytes:{len(value)}:{_digest(value)}"
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def record(source: Path, out: Path, inputs: Path, python: Path, jobs: int, only: str, share: int) -> int:
    """Run all command lines, one file each."""
    if not (source / "ttmem" / "__init__.py").is_file():
        print(f"no package ttmem in {source}", file=sys.stderr)
        return 2
    if not (inputs / "runs.json").exists() or (inputs / _MAKING).exists():
        print(f"no inputs in {inputs}; with the code of before: {sys.argv[0]} inputs SRC_DIR", file=sys.stderr)
        return 2
    chosen = _chosen(Commands(inputs).all(), inputs, only)
    chosen = [case for case in chosen if zlib.crc32(_name_of(case, 0, inputs).encode()) % share == 0]
    out.mkdir(parents=True, exist_ok=True)
    if not only and share == 1:
        for path in out.glob("*.json"):
            path.unlink()
    begun, spent, counts = time.monotonic(), Counter[str](), Counter[str]()
    with Runner(source, inputs, python) as runner, ThreadPoolExecutor(jobs) as pool:

        def run(case: Case) -> None:
            names = [_name_of(case, step, inputs) for step in range(len(case.steps))]
            with runner.place(names[-1].rpartition("-")[2].removesuffix(".json")) as folder:
                for step, name in enumerate(names):
                    found = runner.call(case, step, folder)
                    counts[found["verb"]] += 1
                    spent[found["verb"]] += found["seconds"]
                    (out / name).write_text(json.dumps(found, indent=1, ensure_ascii=True))

        list(pool.map(run, sorted(chosen, key=lambda case: -case.weight)))
    for verb, count in sorted(counts.items()):
        print(f"{verb or '(none)':12} {count:4} command lines {spent[verb]:7.1f} s")
    print(f"{sum(counts.values())} command lines of {source} in {out}, {time.monotonic() - begun:.0f} s")
    return 0


def _chosen(cases: list[Case], inputs: Path, only: str) -> list[Case]:
    """Cases of which a command line has the pattern in it."""

    def texts(case: Case) -> str:
        return "\n".join(shlex.join(words).replace(str(inputs), "IN") for words in case.steps)

    return [case for case in cases if re.search(only, texts(case), re.MULTILINE)]


# --- comparing ---------------------------------------------------------------------------------------------------

_VOLATILE = re.compile(
    r"seconds|time|hostname|(elapsed|test_duration|duration|took)(_m?s|_seconds)?|stored_at|created_at|timestamp|date|pid|time_ns"
)
"""Keys whose values are durations, dates or process ids, or (in JUnit XML) the name of the machine."""
_PASSING = re.compile(r"-(wal|shm)$|\.lock$|\.pytest_cache/")
"""Files that hold no answer."""
_EXPECTED: tuple[tuple[str, str], ...] = (
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?)?", "<date>"),
    (r"\b\d{8}[_-]\d{6}\b", "<date>"),
    (r"/tmp/(?:ttmem-(?!compare)|tmp|pytest-)[\w.-]+", "<temporary>"),
)
_EXPECTED_IN_SENTENCES: tuple[tuple[str, str], ...] = (
    *_EXPECTED,
    (r"\b\d+(?:\.\d+)? ?(?:ms|s|seconds?|min|minutes?)(?![\w/])", "<duration>"),
    (r"\bpid[ =:]*\d+", "<pid>"),
    (r"((?:\d+\.\d+ +\d+% +){3})\d+\.\d\b", r"\1<duration>"),  # a row of the table of tests
    (r"0x[0-9a-f]{8,}|(?<= at )0x[0-9a-f]+", "<address>"),
)


@dataclass
class Comparison:
    """What differs between two values."""

    differences: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    orders: list[str] = field(default_factory=list)

    def compare(self, a: Any, b: Any, where: str = "") -> None:
        if isinstance(a, dict) and isinstance(b, dict):
            self._mappings(a, b, where)
        elif isinstance(a, list) and isinstance(b, list):
            self._lists(a, b, where)
        elif isinstance(a, str) and isinstance(b, str):
            self._texts(a, b, where)
        elif type(a) is not type(b) or (a != b and not (a != a and b != b)):
            self.differences.append(f"{where}: {_shown(a)} -> {_shown(b)}")

    def _mappings(self, a: dict[str, Any], b: dict[str, Any], where: str) -> None:
        for key in a.keys() - b.keys():
            self.differences.append(f"{where}.{key}: {_shown(a[key])} -> no such key")
        for key in b.keys() - a.keys():
            self.differences.append(f"{where}.{key}: no such key -> {_shown(b[key])}")
        both = [key for key in a if key in b]
        if both != [key for key in b if key in a]:
            self.orders.append(f"{where}: {both} -> {[key for key in b if key in a]}")
        for key in both:
            if not _VOLATILE.fullmatch(key):
                self.compare(a[key], b[key], f"{where}.{key}")

    def _lists(self, a: list[Any], b: list[Any], where: str) -> None:
        if len(a) != len(b):
            self.differences.append(f"{where}: {len(a)} entries -> {len(b)}: {_shown(a)} -> {_shown(b)}")
        for number, (left, right) in enumerate(zip(a, b, strict=False)):
            self.compare(left, right, f"{where}[{number}]")

    def _texts(self, a: str, b: str, where: str) -> None:
        if a != b and a[:1] == b[:1] == "{":  # a document inside a text
            try:
                left, right = json.loads(a), json.loads(b)
            except ValueError:
                pass
            else:
                self.compare(left, right, where)
                return
        is_sentence = " " in a and " " in b
        expected = _EXPECTED_IN_SENTENCES if is_sentence else _EXPECTED
        a, b = _without(a, expected), _without(b, expected)
        if a != b:
            (self.sentences if is_sentence else self.differences).append(f"{where}: {_shown(a)} -> {_shown(b)}")

    def lines(self, a: list[str], b: list[str], where: str) -> None:
        """Text for people: every group of lines that differ is a sentence."""
        a, b = ([_without(line, _EXPECTED_IN_SENTENCES) for line in lines] for lines in (a, b))
        for kind, first, end, first_b, end_b in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            if kind != "equal":
                old, new = "\n".join(a[first:end]), "\n".join(b[first_b:end_b])
                self.sentences.append(f"{where}, line {first + 1}: {_shown(old)} -> {_shown(new)}")


def _without(text: str, expected: tuple[tuple[str, str], ...]) -> str:
    for pattern, word in expected:
        text = re.sub(pattern, word, text)
    return text


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:200]} ... {text[-90:]}"


def compared(a: dict[str, Any], b: dict[str, Any]) -> Comparison:
    """Two results of the same command line."""
    made = Comparison()
    made.compare(a["exit"], b["exit"], "exit")
    made.lines(a["stderr"], b["stderr"], "stderr")
    names = [name for name in {**a["files"], **b["files"]} if not _PASSING.search(name)]
    for where, left, right in (
        ("stdout", a["stdout"], b["stdout"]),
        *((f"file {name}", a["files"].get(name), b["files"].get(name)) for name in names),
    ):
        _compare_content(made, left, right, where)
    return made


def _compare_content(made: Comparison, a: Any, b: Any, where: str) -> None:
    """A document, or text for people."""
    is_text = [isinstance(one, dict) and isinstance(one.get("text"), list) for one in (a, b)]
    if not all(is_text):
        made.compare(a, b, where)
        return
    made.lines(a["text"], b["text"], where)
    left, right = ({key: value for key, value in one.items() if key != "text"} for one in (a, b))
    made.compare(left, right, where)


def compare(first: Path, second: Path, only: str, most: int, *, show_sentences: bool, common: bool) -> int:
    """List what differs between two recordings."""
    names = sorted({path.name for folder in (first, second) for path in folder.glob("*.json")})
    commands = differing = total = sentences = orders = 0
    for name in names:
        a, b = (json.loads(path.read_text()) if path.exists() else None for path in (first / name, second / name))
        if common and (a is None or b is None):
            continue
        either = a or b
        assert either is not None
        if not re.search(only, either["command"]):
            continue
        commands += 1
        if a is None or b is None:
            made = Comparison([f"recorded in {first if b is None else second} alone"])
        else:
            made = compared(a, b)
        shown = [*made.differences, *(f"(sentence) {one}" for one in made.sentences if show_sentences)]
        shown += [f"(order of keys) {one}" for one in made.orders if show_sentences]
        if shown:
            print(f"{either['command'][:300]}\n  [{name}]")
            for line in shown[:most]:
                print(f"  {line}")
            if len(shown) > most:
                print(f"  ... and {len(shown) - most} more (--most {len(shown)})")
        differing += bool(made.differences)
        total += len(made.differences)
        sentences += len(made.sentences)
        orders += len(made.orders)
    print(f"{commands} command lines: {total} differences in {differing} of them")
    print(f"not judged (--sentences lists them): {sentences} sentences, {orders} orders of keys")
    return 1 if total or not commands else 0


# --- schemas -----------------------------------------------------------------------------------------------------

_NAMED = ("properties", "patternProperties", "dependentSchemas")


def structure(schema: Any, definitions: Mapping[str, Any], open_: tuple[str, ...] = ()) -> Any:
    """A schema without titles, descriptions and names of definitions: what a reference names stands in its place, and
    one to a definition that it is part of says how far above it is."""
    if isinstance(schema, list):
        return [structure(item, definitions, open_) for item in schema]
    if isinstance(schema, str) and schema.startswith("#/$defs/"):
        name = schema.removeprefix("#/$defs/")
        if name in open_:
            return {"above": len(open_) - open_.index(name)}
        return structure(definitions[name], definitions, (*open_, name))
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("title", "description", "$defs"):
            continue
        if key in _NAMED:
            made[key] = {name: structure(item, definitions, open_) for name, item in value.items()}
        elif key == "required":
            made[key] = sorted(value)
        elif key in ("enum", "const", "default", "examples"):
            made[key] = value
        else:
            made[key] = structure(value, definitions, open_)
    return made["$ref"] if list(made) == ["$ref"] else made


def schemas(first: Path, second: Path, most: int) -> int:
    """Compare two folders of JSON Schemas."""
    names = sorted({path.name for folder in (first, second) for path in folder.glob("*.json")})
    total = 0
    for name in names:
        made = Comparison()
        if not (first / name).exists() or not (second / name).exists():
            made.differences.append(f"in one folder alone: {first if (first / name).exists() else second}")
        else:
            a, b = (json.loads((folder / name).read_text()) for folder in (first, second))
            made.compare(structure(a, a.get("$defs", {})), structure(b, b.get("$defs", {})))
        found = [*made.differences, *made.sentences]
        for line in found[:most]:
            print(f"{name}: {line}")
        if len(found) > most:
            print(f"{name}: ... and {len(found) - most} more (--most {len(found)})")
        total += len(found)
    print(f"{len(names)} schemas: {total} differences")
    return 1 if total or not names else 0


# --- the command line --------------------------------------------------------------------------------------------


def _list(inputs: Path) -> Iterator[str]:
    for case in Commands(inputs).all():
        for words in case.steps:
            yield shlex.join(("ttmem", *words)).replace(str(inputs), "IN")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    for mode, places in {
        "inputs": ("SRC_DIR",),
        "record": ("SRC_DIR", "OUT_DIR"),
        "compare": ("A", "B"),
        "schemas": ("A_DIR", "B_DIR"),
        "list": (),
    }.items():
        made = modes.add_parser(mode)
        for place in places:
            made.add_argument(place, type=Path)
        if mode in ("inputs", "record", "list"):
            made.add_argument("--inputs", type=Path, default=_INPUTS, help="what the command lines read (%(default)s)")
        if mode in ("inputs", "record"):
            made.add_argument("--python", type=Path, default=_VENV if _VENV.exists() else Path(sys.executable))
            made.add_argument("--jobs", type=int, default=2)
        if mode == "record":
            made.add_argument("--share", type=int, default=1, metavar="N", help="only a fixed one of N command lines")
        if mode in ("record", "compare"):
            made.add_argument("--only", default="", metavar="PATTERN", help="only command lines with this in them")
        if mode in ("compare", "schemas"):
            made.add_argument("--most", type=int, default=20, help="lines per command line or schema (%(default)s)")
        if mode == "compare":
            made.add_argument("--common", action="store_true", help="only command lines that both recordings have")
            made.add_argument("--sentences", action="store_true", help="also list sentences and orders of keys")
    given = parser.parse_args()
    if given.mode == "inputs":
        return make_inputs(given.SRC_DIR.resolve(), given.inputs.resolve(), given.python.absolute(), given.jobs)
    if given.mode == "record":
        source, out, inputs = (path.resolve() for path in (given.SRC_DIR, given.OUT_DIR, given.inputs))
        return record(source, out, inputs, given.python.absolute(), given.jobs, given.only, given.share)
    if given.mode == "compare":
        asked = {"show_sentences": given.sentences, "common": given.common}
        return compare(given.A, given.B, given.only, given.most, **asked)
    if given.mode == "schemas":
        return schemas(given.A_DIR, given.B_DIR, given.most)
    for line in _list(given.inputs.resolve()):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
