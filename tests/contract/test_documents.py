# SPDX-License-Identifier: Apache-2.0
"""Every ``--json`` answer is a document with a schema, and real answers keep to it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import jsonschema
import msgspec
import pytest

from support.command_line import BLACKHOLE_OOM, FIVE_RUNS, REAL_OOM, ROOT, Result, call, environment
from support.counter_regions import region
from ttmem.commands.program import cli
from ttmem.engines.interpreters import Interpreter
from ttmem.reports.kit.documents import UNSET, Document, UnsetType, find_documents
from unit.readers.test_counters import put

Run = Callable[..., Result]

DATA = ROOT / "tests" / "data"
CAPTURE = DATA / "captures" / "n150-normal.json.gz"
STEPS = [
    {"alloc": "a", "shape": [1, 1, 64, 64], "memory": "L1"},
    {"alloc": "b", "shape": [160, 100, 512, 1, 1]},
    {"alloc": "c", "shape": [33, 33], "shard": {"kind": "height", "shape": [33, 33], "grid": [8, 8]}, "memory": "L1"},
    {"free": "a"},
]
CASES = [
    {"op": "silu", "tensors": [{"shape": [1, 96, 2176, 1920], "dtype": "float32"}], "args": {}},
    {"op": "relu", "tensors": [{"shape": [32, 32], "dtype": "float32"}], "args": {}},
]
SUITE = """
import ttnn

def test_it(device):
    ttnn.zeros([64, 64], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
"""
NEED_TTNN = {"run", "test", "fit", "tune", "whatif"}
LINES: dict[str, list[list[object]]] = {
    "profile": [[FIVE_RUNS], [BLACKHOLE_OOM], [DATA / "captures" / "n150-report.json.gz"]],
    "run": [[ROOT / "examples" / "out_of_memory.py", "--board", "n150"]],
    "fit": [[ROOT / "examples" / "out_of_memory.py", "--no-store"]],
    "test": [["test_it.py", "-p", "no:cacheprovider"]],
    "tune": [["block"]],
    "whatif": [["block", "board=p150"]],
    "explain": [[REAL_OOM], ["nothing of interest"], [CAPTURE]],
    "diff": [[FIVE_RUNS, BLACKHOLE_OOM]],
    "check": [[FIVE_RUNS], [BLACKHOLE_OOM, "--baseline", FIVE_RUNS]],
    "boards": [[], ["p150", "--release", "0.69.0"]],
    "tensor": [["160x100x512x1x1"], ["512x512", "--shard", "height:64x512@8x8"], ["0x5"]],
    "replay": [["steps.jsonl"]],
    "reports": [[]],
    "live": [["--once"]],
    "device info": [[]],
    "device doctor": [[]],
    "device install": [],
    "cb simulate": [[16, 16], ["--multi"]],
    "cb scan": [[DATA / "cb"]],
    "cb profile": [[FIVE_RUNS], [CAPTURE]],
    "cb analyze": [[16, 16, DATA / "cb" / "adaptive_add", CAPTURE], ["--multi"]],
    "ops map": [[], ["cases.jsonl"]],
    "ops extract": [["cases.jsonl", "-o", "again.jsonl"]],
    "ops tests": [["cases.jsonl", "-o", "tests", "--engine", "none"]],
    "sweep run": [["cases.jsonl", "-o", "results"], ["cases.jsonl", "-o", "results", "--strict"]],
    "sweep limits": [["--op", "silu"]],
    "sweep report": [["results", "-o", "report"]],
    "sweep diff": [["results", "results"]],
}
"""Verb -> real command lines, without ``--json``. An installation is too slow to be tried here."""


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schemas", ROOT / "tools" / "schemas.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


schemas = _tool()


def _verbs(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command that answers in JSON."""
    if any("--json" in parameter.opts for parameter in command.params):
        yield " ".join(path)
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                yield from _verbs(child, (*path, name))


@pytest.fixture
def place(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with what the command lines above name."""
    held = (4194304, 2097152, 0, 0, 786432)
    counters = tmp_path / "shm"
    counters.mkdir()
    put(counters, region(total=held, processes=[(os.getpid(), "pytest", held)]))
    put(counters, region(version=9), 1)
    monkeypatch.setenv("TTMEM_SHM_DIR", str(counters))
    for name, lines in (("steps", STEPS), ("cases", CASES)):
        Path(f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    Path("test_it.py").write_text(SUITE)
    return Path.cwd()


def test_every_verb_that_answers_in_json_is_tried_here() -> None:
    assert sorted(set(_verbs(cli)) - {""}) == sorted(LINES)


def test_the_schema_files_are_current() -> None:
    folder = ROOT / "docs" / "schemas"
    assert {path.name: path.read_text() for path in folder.iterdir()} == schemas.files(), "run `make docs`"


def test_every_document_says_what_it_is() -> None:
    for name, document in find_documents().items():
        assert re.fullmatch(r"ttmem\.[a-z-]+/[0-9]+", name)
        jsonschema.Draft202012Validator.check_schema(schemas.schema(document))
        assert schemas.schema(document)["$defs"][document.__name__]["description"]


def _check(out: str) -> None:
    answer = json.loads(out)
    for document in answer if isinstance(answer, list) else [answer]:
        kind = find_documents()[document["schema"]]
        jsonschema.validate(document, schemas.schema(kind))
        # THEN nothing is said that the type does not know, and reading it back gives the same
        assert msgspec.convert(document, kind, strict=True).to_json() == document


@pytest.mark.parametrize(
    ("verb", "line"),
    [
        pytest.param(verb, line, id=f"{verb} {number}")
        for verb, lines in LINES.items()
        for number, line in enumerate(lines)
        if verb not in NEED_TTNN
    ],
)
def test_a_real_answer_keeps_to_its_schema(run: Run, place: Path, verb: str, line: list[object]) -> None:
    if verb == "reports":
        run("profile", FIVE_RUNS, "--name", "gpt")
    if verb in ("sweep report", "sweep diff"):
        run("sweep", "run", "cases.jsonl", "-o", "results", "-q")
    _check(run(*verb.split(), *line, "--json").out)


@pytest.mark.oracle
@pytest.mark.parametrize("verb", sorted(NEED_TTNN))
def test_a_real_answer_of_ttnn_keeps_to_its_schema(ttnn_interpreter: Interpreter, place: Path, verb: str) -> None:
    if verb == "test" and not ttnn_interpreter.pytest_version:
        pytest.skip(f"THE ANSWER OF ttmem test WAS NOT CHECKED: no pytest beside ttnn in {ttnn_interpreter.path}")
    variables = environment(TTMEM_TTNN_PYTHON=ttnn_interpreter.path)
    if verb in ("tune", "whatif"):
        call("run", ROOT / "examples" / "out_of_memory.py", "--name", "block", "-q", env=variables)
    for line in LINES[verb]:
        _check(call(verb, "--json", *line, env=variables).out)


def test_a_damaged_note_about_a_report_does_not_hide_the_others(run: Run, home: Path) -> None:
    for name in ("gpt", "vit"):
        run("profile", FIVE_RUNS, "--name", name)
    (home / "reports" / "vit" / "vit_about.json").write_text('{"operations_executed": "many", "kind": 7}')
    first, second = json.loads(run("reports", "--json").out)["reports"]
    assert (first["name"], first["operations_executed"]) == ("gpt", 671)
    assert (second["name"], second["operations_executed"], second["kind"]) == ("vit", None, None)
    assert run("reports").code == 0


class Part(Document, frozen=True):
    """For the tests below."""

    name: str
    total_bytes: int = msgspec.field(name="bytes")
    share: float | None = None
    extra: str | UnsetType = UNSET


def test_a_document_has_the_keys_of_the_contract() -> None:
    assert Part(name="a", total_bytes=3, share=1.23456).to_json() == {"name": "a", "bytes": 3, "share": 1.23456}
    assert list(Part("c", 3, None, "more").to_json()) == ["name", "bytes", "share", "extra"]


def test_texts_below_fields_become_descriptions() -> None:
    tensor: Any = schemas.schema(find_documents()["ttmem.tensor/1"])["$defs"]["TensorCost"]["properties"]
    assert tensor["page_bytes"]["description"] == "Without alignment."
    assert tensor["worker_l1_bytes"]["description"] == "0: the release's default.", "also those of a base"
