# SPDX-License-Identifier: Apache-2.0
"""What an agent can reach: files below the roots, stored reports and pasted text, by whatever name it asks."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.command_line import FIVE_RUNS, REAL_OOM, command_line, environment
from support.examples import examples
from support.mcp_talk import talk
from ttmem.commands.mcp import is_for_people
from ttmem.commands.mcp_server.server import repair_line
from ttmem.commands.mcp_server.tools import Tool, list_tools
from ttmem.commands.mcp_server.tools import build_command_line as words_of
from ttmem.commands.program import cli

needs_sdk = pytest.mark.skipif(
    importlib.util.find_spec("mcp") is None, reason="THE MCP SERVER WAS NOT TESTED: pip install mcp"
)
TOOLS = list(list_tools(cli, is_for_people))
OUTSIDE = "is outside of the folders that may be used here"


def _command(tool: Tool) -> click.Command:
    command: click.Command = cli
    for name in tool.path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


dashed = st.builds(
    "{}{}".format,
    st.sampled_from(["-", "--", "-o", "--output=", "-q", "--json", "--html=", "--help", "-- ", "-j"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\n"), max_size=8),
)


@given(data=st.data())
@examples(150)
def test_no_value_of_any_tool_is_taken_for_an_option(data: st.DataObject) -> None:
    # GIVEN any tool, and values that look like options for all of its parameters that take text
    tool = data.draw(st.sampled_from(TOOLS))
    arguments: dict[str, Any] = {}
    for parameter in tool.parameters:
        if parameter.type is str and parameter.name != "text":
            arguments[parameter.name] = [data.draw(dashed), data.draw(dashed)] if parameter.many else data.draw(dashed)
    # WHEN the command line that asks the verb is parsed
    words, _ = words_of(tool, next(iter(tool.formats)), arguments)
    command = _command(tool)
    with click.Context(command, **command.context_settings) as ctx:
        found, rest, _ = command.make_parser(ctx).parse_args(words[len(tool.path) :])
    # THEN every option has the value that was meant for it, and what stands alone is what was meant to
    given_options = {parameter.option for parameter in tool.parameters if parameter.name in arguments}
    flags = {tool.formats[next(iter(tool.formats))], *tool.flags}
    for param in command.params:
        if isinstance(param, click.Option) and param.name in found:
            assert {*param.opts} & (given_options | flags), (param.opts, words)
    alone = [arguments[one.name] for one in tool.parameters if not one.option and one.name in arguments]
    flat = [word for value in alone for word in (value if isinstance(value, list) else [value])]
    assert rest == [] or set(rest) <= set(flat)


@given(st.recursive(st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=6), st.text())
def test_every_line_of_json_becomes_one_that_the_sdk_reads(value: Any, surrogate: str) -> None:
    """Strings of Hypothesis hold no lone surrogates, so some are put in; what can be read comes back unchanged."""
    line = json.dumps({"id": 1, "value": [value, surrogate]}).encode() + b"\n"
    assert json.loads(repair_line(line))["value"] == [value, surrogate]
    hostile = json.dumps({"id": 1, "value": [value, f"\ud800{surrogate}\udc00\udfff"]}).encode() + b"\n"
    read = json.loads(repair_line(hostile))
    read["value"][1].encode()  # THEN no half of a pair is left
    assert read["value"][0] == value


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """``inside`` is the root; everything in it that leads out leads to a log that could be read."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside, outside / "cpp", inside / "cpp"):
        folder.mkdir()
    log = FIVE_RUNS.read_bytes()
    for folder in (inside, outside):
        (folder / "run.log.gz").write_bytes(log)
        (folder / "oom.log").write_bytes(REAL_OOM.read_bytes())
    (outside / "script.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (outside / "cases.jsonl").write_text('{"id": "a", "op": "silu", "tensors": [{"shape": [32, 32]}]}\n')
    (outside / "cpp" / "secret.cpp").write_text("constexpr int out_of_here = 1;\n")
    (inside / "link.log.gz").symlink_to(outside / "run.log.gz")
    (inside / "folder").symlink_to(outside)
    (inside / "cpp" / "secret.cpp").symlink_to(outside / "cpp" / "secret.cpp")
    (inside / "cpp" / "kernel.cpp").write_text("void kernel_main() { cb_reserve_back(0, 1); cb_push_back(0, 1); }\n")
    (inside / "out.jsonl").symlink_to(outside / "written.jsonl")
    return tmp_path


def _env(place: Path) -> dict[str, str]:
    return environment(TTMEM_HOME=str(place / "home"), TTMEM_SHM_DIR=str(place / "shm"))


@needs_sdk
@pytest.mark.slow
def test_files_outside_of_the_roots_are_out_of_reach_by_any_name(place: Path) -> None:
    inside, outside = place / "inside", place / "outside"
    refused: list[tuple[str, dict[str, Any]]] = [
        ("profile", {"source": str(outside / "run.log.gz")}),
        ("profile", {"source": "../outside/run.log.gz"}),
        ("profile", {"source": "link.log.gz"}),
        ("profile", {"source": "folder/run.log.gz"}),
        ("explain", {"source": str(outside / "oom.log")}),
        ("explain", {"source": "/etc/passwd"}),
        ("explain", {"source": "/proc/self/environ"}),
        ("diff", {"a": "run.log.gz", "b": "../outside/run.log.gz"}),
        ("check", {"source": "run.log.gz", "baseline": "folder/run.log.gz", "max_growth": "2%"}),
        ("tensor", {"shape": "1x2", "like": str(outside / "oom.log")}),
        ("run", {"script": str(outside / "script.py")}),
        ("test", {"arguments": ["../outside/script.py::test_it"]}),
        ("cb_scan", {"path": str(outside / "cpp")}),
        ("sweep_run", {"cases": str(outside / "cases.jsonl"), "output": "results"}),
        ("sweep_run", {"cases": "cases.jsonl", "output": str(outside / "results")}),
        ("ops_extract", {"targets": [f"{outside / 'script.py'}::load_model"], "output": "cases.jsonl"}),
        ("ops_extract", {"targets": ["hf:ViTConfig"], "output": "../outside/written.jsonl"}),
        ("ops_extract", {"targets": ["hf:ViTConfig"], "output": "out.jsonl"}),
    ]
    allowed: list[tuple[str, dict[str, Any]]] = [
        ("profile", {"source": "run.log.gz"}),
        ("profile", {"source": str(inside / "run.log.gz"), "name": "kept"}),
        ("explain", {"source": "kept"}),
        ("explain", {"text": REAL_OOM.read_text()}),
        ("cb_scan", {"path": "cpp", "format": "json"}),
        ("test", {"arguments": ["-p", "no:cacheprovider"]}),
    ]
    results = talk(_env(place), *refused, *allowed, folder=inside)["results"]
    for asked, result in zip(refused, results, strict=False):
        assert (result["failed"], OUTSIDE in result["text"]) == (True, True), (asked, result["text"])
    *answers, scan, options = results[len(refused) :]
    assert not any(result["failed"] for result in answers), answers
    # A link in a folder that is scanned leads nowhere either: the file is told as one that cannot be read.
    assert "out_of_here" not in scan["text"]
    assert scan["failed"] or [entry["file"].endswith("secret.cpp") for entry in scan["document"]["skipped"]] == [True]
    assert "no options of pytest" in options["text"]
    assert not (place / "ran").exists()
    assert sorted(path.name for path in outside.iterdir()) == [
        "cases.jsonl",
        "cpp",
        "oom.log",
        "run.log.gz",
        "script.py",
    ]


@needs_sdk
@pytest.mark.slow
def test_roots_are_those_of_the_start_or_of_the_client(place: Path) -> None:
    inside, outside = place / "inside", place / "outside"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("explain", {"source": str(inside / "oom.log"), "format": "json"}),
        ("explain", {"source": str(outside / "oom.log"), "format": "json"}),
    ]

    def failed(**options: Any) -> list[bool]:
        return [result["failed"] for result in talk(_env(place), *calls, **options)["results"]]

    assert failed(folder=inside, client_roots=[outside]) == [True, False]
    assert failed(folder=outside, words=["--root", inside], client_roots=[outside]) == [False, True]
    assert failed(folder=Path("/")) == [True, True]


@needs_sdk
def test_odd_values_get_an_answer(place: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("tensor", {"shape": "\0"}),
        ("tensor", {"shape": "9" * 4000}),
        ("tensor", {"shape": "1x2", "l1_small": 10**60}),
        ("replay", {"steps": [{"alloc": "a", "shape": [10**4000]}]}),
        ("replay", {"steps": [{"alloc": ["a"], "shape": {"x": [[]]}}]}),
        ("boards", {"names": ["n150"]}),
    ]
    results = talk(_env(place), *calls, folder=place / "inside")["results"]
    assert len(results) == len(calls)
    assert not any("internal error" in result["text"] for result in results)
    assert [result["failed"] for result in results] == [True] * 5 + [False]


@needs_sdk
def test_a_killed_server_leaves_no_busy_child(place: Path) -> None:
    """With a signal that it cannot catch, in the middle of a call. Half of a surrogate pair was answered before."""
    log = place / "inside" / "large.log"
    log.write_bytes(gzip.decompress(FIVE_RUNS.read_bytes()) * 60)
    server = subprocess.Popen(
        command_line("mcp"),
        cwd=log.parent,
        env=_env(place),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "0"}}
    for message in (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "tensor", "arguments": {"shape": "1x2\ud800"}}},
    ):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()
    answers = [json.loads(server.stdout.readline()) for _ in range(2)]
    assert "is not a shape" in json.dumps(answers[1])
    busy = {"name": "profile", "arguments": {"source": "large.log"}}
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": busy}).encode() + b"\n")
    server.stdin.flush()
    deadline = time.monotonic() + 60
    while not (children := _children_of(server.pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert children
    time.sleep(0.3)
    server.kill()
    server.wait()
    server.stdin.close()
    server.stdout.close()
    deadline = time.monotonic() + 60
    while any(map(_lives, children)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(_lives, children))


def _children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_sandbox_holds_for_every_way_to_open_a_file(tmp_path: Path) -> None:
    """In a process that cannot be trusted to ask: the interpreter itself reports what is opened."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (inside / "link").symlink_to(outside / "secret")
    code = """
import json, os, pathlib, shutil, sqlite3, sys
import numpy
from ttmem.base.file_sandbox import FileSandbox
inside, outside = map(pathlib.Path, sys.argv[1:])
FileSandbox.around_folders([inside], [inside / "out.json"]).activate()
ways = {
    "open": lambda: open(outside / "secret"), "link": lambda: open(inside / "link"), "os": lambda: os.open(outside, 0),
    "dots": lambda: (inside / ".." / "outside" / "secret").read_bytes(), "list": lambda: os.listdir(outside),
    "scan": lambda: list(outside.iterdir()), "numpy": lambda: numpy.fromfile(outside / "secret"),
    "sqlite": lambda: sqlite3.connect(outside / "x.db"), "proc": lambda: open("/proc/self/environ"),
    "sqlite uri": lambda: sqlite3.connect(f"file:{outside}/secret?mode=ro", uri=True),
    "write": lambda: open(outside / "new", "w"), "inside": lambda: open(inside / "new", "w"),
    "rename": lambda: os.rename(outside / "secret", inside / "out.json"), "mkdir": lambda: (outside / "d").mkdir(),
    "unlink": lambda: (outside / "secret").unlink(),
    "copy": lambda: shutil.copy(outside / "secret", inside / "out.json"),
    "rmtree": lambda: shutil.rmtree(outside), "symlink": lambda: (outside / "l").symlink_to(inside),
    "etc": lambda: open("/etc/passwd"), "bytes": lambda: open(os.fsencode(outside / "secret")),
}
through = []
for name, way in ways.items():
    try: way()
    except PermissionError: continue
    except Exception as error: name += f" ({error!r})"
    through.append(name)
(inside / "out.json").write_text("fine")
print(json.dumps(through))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(inside), str(outside)],
        env={**os.environ, "TTMEM_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == []
    assert (inside / "out.json").read_text() == "fine"
    assert [path.name for path in outside.iterdir()] == ["secret"]
