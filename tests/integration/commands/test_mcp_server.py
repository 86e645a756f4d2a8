# SPDX-License-Identifier: Apache-2.0
"""The server as an agent meets it: a process, its stdin and its stdout."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import mcp_talk
from support.captures import unpacked_capture
from support.command_line import FIVE_RUNS, REAL_OOM, ROOT, call, command_line, environment
from ttmem.commands.program import cli
from ttmem.engines.interpreters import Interpreter

pytestmark = pytest.mark.slow

PEOPLE_ONLY = {"export", "mcp", "completion", "serve"}
"""No answer in JSON: they write for another program, or are the way in."""

needs_sdk = pytest.mark.skipif(
    importlib.util.find_spec("mcp") is None, reason="THE MCP SERVER WAS NOT TESTED: pip install mcp"
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(TTMEM_HOME=str(tmp_path / "home"), TTMEM_SHM_DIR=str(tmp_path / "shm"))


def talk(env: dict[str, str], *calls: tuple[str, dict[str, Any]], folder: Path | None = None) -> dict[str, Any]:
    """With a server that may read this project and the files of the test."""
    return mcp_talk.talk(env, *calls, folder=folder, words=["--root", ROOT, "--root", Path(env["TTMEM_HOME"]).parent])


@needs_sdk
def test_every_verb_that_answers_in_json_is_a_tool(env: dict[str, str]) -> None:
    answer = talk(env)
    tools = answer["tools"]
    assert {"profile", "diff", "check", "reports", "explain", "tensor", "boards", "replay", "live", "run"} <= set(tools)
    assert {"cb_simulate", "cb_scan", "cb_profile", "cb_analyze", "sweep_run", "sweep_limits", "ops_map"} <= set(tools)
    assert {"mcp", "completion", "export", "device_install", "reports_rm"} & set(tools) == set()
    for name in cli.lines:
        assert name in tools or any(tool.startswith(f"{name}_") for tool in tools) or name in PEOPLE_ONLY, name
    profile = tools["profile"]["schema"]
    assert profile["required"] == ["source"]
    assert profile["properties"]["rows"]["default"] == 10
    assert profile["properties"]["format"]["enum"] == ["markdown", "json", "csv"]
    assert profile["properties"]["format"]["default"] == "markdown"
    assert profile["properties"]["source"]["description"].startswith("SOURCE is a tt-mlir or TT-XLA runtime log")
    assert tools["tensor"]["schema"]["properties"]["layout"]["enum"] == ["tile", "row_major"]
    assert "p150" in json.dumps(tools["run"]["schema"]["properties"]["board"])
    assert tools["cb_scan"]["schema"]["properties"]["l1_tensors"]["minimum"] == 0
    assert all(len(tool["description"]) > 40 for tool in tools.values())
    for tool in tools.values():
        assert all(parameter["description"] for parameter in tool["schema"]["properties"].values())
    assert "per_bank" in answer["instructions"]


@needs_sdk
def test_profile_stores_answers_within_bounds_and_leads_with_its_caveats(env: dict[str, str], tmp_path: Path) -> None:
    capture = unpacked_capture("n150-report", tmp_path)
    answer = talk(
        env,
        ("profile", {"source": str(FIVE_RUNS), "format": "json"}),
        ("profile", {"source": "transformer-five-runs", "rows": 3, "format": "json"}),
        ("profile", {"source": str(capture), "run": "last", "format": "json"}),
        ("profile", {"source": "transformer-five-runs"}),
        ("reports", {}),
    )
    first, by_name, captured, markdown, reports = answer["results"]
    document = first["document"]
    assert json.loads(first["text"]) == document
    assert next(iter(document)) == "caveats"
    assert "states were printed rounded: bytes per bank may be off by 525" in document["caveats"]
    assert document["name"] == "transformer-five-runs"
    assert len(document["consumers"]) == 10
    assert document["not_listed"]["consumers"] > 0
    short = by_name["document"]
    peaks = [
        {memory: (peak["peak_bytes_per_bank"], peak["peak_at"]) for memory, peak in one["memories"].items()}
        for one in (short, document)
    ]
    assert peaks[0] == peaks[1]
    assert [len(consumers) for consumers in (short["consumers"], short["memories"]["DRAM"]["consumers"])] == [3, 3]
    assert any("omits dataflow buffers" in caveat for caveat in captured["document"]["caveats"])
    assert markdown["text"].startswith("# Memory Profile: transformer-five-runs")
    assert markdown["document"] is None
    assert "transformer-five-runs" in [report["name"] for report in reports["document"]["reports"]]
    assert not any(result["failed"] for result in answer["results"])


@needs_sdk
def test_names_of_arguments(env: dict[str, str]) -> None:
    # GIVEN calls of diff under its former names, and with names that are none
    runs = str(FIVE_RUNS)
    answer = talk(
        env,
        ("diff", {"a": runs, "b": runs}),
        ("diff", {"first": runs, "second": runs}),
        ("diff", {"before": runs, "aftr": runs}),
        ("diff", {"before": runs}),
        ("check", {"source": runs, "max_dramm": "80%"}),
        ("check", {"source": runs, "rows": "many"}),
        ("diff", {"before": runs, "after": runs, "format": "markdown"}),
    )
    former, others, close, missing, option, wrong, markdown = answer["results"]
    assert former["document"]["memories"]["DRAM"]["delta_bytes_per_bank"] == 0
    assert [one["failed"] for one in answer["results"]] == [False, True, True, True, True, True, False]
    assert "did you mean 'before' or 'after'?" in others["text"]
    assert "did you mean 'after'?" in close["text"]
    assert "needs 'after'" in missing["text"]
    assert "did you mean 'max_dram'" in option["text"]
    assert "http" not in wrong["text"]
    assert markdown["text"].startswith("# Memory Difference: transformer-five-runs -> transformer-five-runs")


@needs_sdk
def test_diff_check_and_the_twin(env: dict[str, str]) -> None:
    answer = talk(
        env,
        ("diff", {"before": str(FIVE_RUNS), "after": str(FIVE_RUNS), "fail_on": "5%"}),
        ("check", {"source": str(FIVE_RUNS), "max_dram": "0.1%"}),
        ("check", {"source": str(FIVE_RUNS), "max_dram": "80%"}),
        ("boards", {"names": ["n150"]}),
        ("boards", {}),
        ("tensor", {"shape": "1x96x2176x1920", "board": "n150"}),
        (
            "replay",
            {
                "steps": [
                    {"alloc": "a", "shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "L1"},
                    {"alloc": "b", "shape": [1, 16, 8192, 8192], "memory": "L1"},
                    {"free": "a"},
                ],
                "board": "n150",
            },
        ),
        ("live", {}),
        ("cb_simulate", {"tiles_per_shard": "16", "r_tiles": "16"}),
        ("sweep_limits", {"op": ["silu"], "shape": "1x1x32x1024", "memory": ["DRAM"]}),
        ("sweep_limits", {"op": ["silu"], "shape": "1x1x32x1024", "memory": ["DRAM"], "format": "markdown"}),
    )
    documents = [result["document"] for result in answer["results"]]
    diff, over, within, n150, boards, tensor, replay, live, simulated, limits, _ = documents
    assert diff["regression"] is False
    assert (over["ok"], over["exit_status"]) == (False, 1)
    assert (within["ok"], within["exit_status"]) == (True, 0)
    assert [board["name"] for board in n150["boards"]] == ["n150"]
    assert len(boards["boards"]) > 10
    assert (tensor["fits"], tensor["bytes_per_bank"]) == (True, 66846720)
    assert [step["ok"] for step in replay["steps"]] == [True, False, True]
    assert live["devices"] == []
    assert simulated["workload"]["tiles_per_shard"] == 16
    assert "silu" in json.dumps(limits)
    assert answer["results"][-1]["text"].lstrip().startswith("# Maximum supported sizes")
    assert all(document["ttmem"] for document in (diff, over, boards))


@needs_sdk
def test_explain_takes_the_text_itself_or_a_source(env: dict[str, str]) -> None:
    text = REAL_OOM.read_text()
    answer = talk(
        env,
        ("explain", {"text": text, "format": "json"}),
        ("explain", {"source": text, "format": "json"}),
        ("explain", {"source": str(REAL_OOM), "format": "json"}),
        ("explain", {"source": str(REAL_OOM)}),
        ("profile", {"source": text, "format": "json", "no_store": True}),
    )
    pasted, as_source, read, markdown, profile = answer["results"]
    assert not any(result["failed"] for result in answer["results"])
    classes = [[entry["class"] for entry in one["document"]["entries"]] for one in (pasted, as_source, read)]
    assert classes[0] == classes[1] == classes[2]
    assert classes[0][0].startswith("oom/")
    assert markdown["text"].startswith("# ")
    assert profile["document"]["failure"]["class"] == classes[0][0]


@needs_sdk
def test_no_value_becomes_an_option_and_no_module_of_the_folder_runs(env: dict[str, str], tmp_path: Path) -> None:
    # GIVEN a working folder with a module that says that it was loaded
    for name in ("numpy", "json", "ttmem"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'loaded')!r}, 'w').close()\n")
    target = tmp_path / "written"
    answer = talk(
        env,
        ("boards", {"names": [f"-o{target}"]}),
        ("boards", {"names": ["n150"], "release": f"x --output={target}"}),
        ("profile", {"source": f"--html={target}"}),
        ("check", {"source": str(REAL_OOM), "baseline": f"--junit={target}", "max_growth": "-o"}),
        ("tensor", {"shape": "\x00"}),
        ("tensor", {"shape": "x" * 300_000}),
        ("cb_simulate", {"r_tiles": "4"}),
        ("boards", {"names": ["n150"]}),
        folder=tmp_path,
    )
    assert [result["failed"] for result in answer["results"]] == [True] * 7 + [False]
    texts = [result["text"] for result in answer["results"]]
    assert f"unknown board '-o{target}'" in texts[0]
    assert f"no such file or stored report '--html={target}'" in texts[2]
    assert "cannot be passed on" in texts[4]
    assert "cannot be passed on" in texts[5]
    assert "'r_tiles' needs 'tiles_per_shard' too" in texts[6]
    assert not target.exists()
    assert not (tmp_path / "loaded").exists()


@needs_sdk
@pytest.mark.oracle
def test_a_script_runs_on_a_mock_board(env: dict[str, str], tmp_path: Path, ttnn_interpreter: Interpreter) -> None:
    script = tmp_path / "small.py"
    script.write_text(
        "import sys, ttnn\n"
        "device = ttnn.open_device(device_id=0)\n"
        "a = ttnn.zeros([64, 64], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)\n"
        "ttnn.add(a, a)\n"
        "sys.exit(int(sys.argv[2]))\n"
    )
    answer = talk(
        {**env, "TTMEM_TTNN_PYTHON": ttnn_interpreter.path},
        ("run", {"script": str(script), "arguments": ["--code", "0"], "format": "json", "board": "p150"}),
        ("run", {"script": str(script), "arguments": ["--code", "7"]}),
    )
    done, ended = answer["results"]
    assert (done["document"]["exit_status"], done["document"]["operations"]["by_name"]["ttnn.add"]) == (0, 1)
    assert ended["text"].startswith("# Memory Profile: small")
    assert ended["text"].endswith("Exit status: 7")


@needs_sdk
def test_a_refusal_reaches_the_agent_with_its_reason(env: dict[str, str]) -> None:
    answer = talk(
        env,
        ("profile", {"source": "/nowhere/run.log"}),
        ("tensor", {"shape": "1x2xbanana"}),
        ("replay", {"steps": [{"free": "ghost"}]}),
        ("boards", {}),
    )
    missing, shape, ghost, boards = answer["results"]
    assert missing["failed"]
    assert "no such file or stored report '/nowhere/run.log'" in missing["text"]
    assert shape["failed"]
    assert "banana" in shape["text"]
    assert ghost["failed"]
    assert "ghost" in ghost["text"]
    assert not boards["failed"]  # and the server lives on


@needs_sdk
def test_every_byte_on_stdout_is_protocol(env: dict[str, str]) -> None:
    # GIVEN a client that speaks the protocol by hand, and calls that print notes and errors of their own
    server = subprocess.Popen(
        command_line("mcp"), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    messages: list[dict[str, Any]] = []

    def send(message: dict[str, Any]) -> None:
        assert server.stdin is not None
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()

    def receive(number: int) -> dict[str, Any]:
        assert server.stdout is not None
        while True:
            message: dict[str, Any] = json.loads(server.stdout.readline())
            messages.append(message)
            if message.get("id") == number:
                return message

    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "0"}}
    send({"id": 1, "method": "initialize", "params": hello})
    assert receive(1)["result"]["serverInfo"]["name"] == "ttmem"
    send({"method": "notifications/initialized"})
    for number, (name, arguments) in enumerate(
        [("profile", {"source": str(FIVE_RUNS)}), ("profile", {"source": "nope"}), ("live", {})], start=2
    ):
        send({"id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
        assert "result" in receive(number)
    server.stdin.close()
    rest = server.stdout.read()
    server.stdout.close()
    assert server.stderr is not None
    errors = server.stderr.read()
    server.stderr.close()
    assert (server.wait(timeout=30), rest) == (0, "")
    assert "Traceback" not in errors
    assert all(message["jsonrpc"] == "2.0" for message in messages)


def test_without_the_sdk_the_command_that_installs_it_is_told(env: dict[str, str], tmp_path: Path) -> None:
    # GIVEN a package of that name that has nothing in it
    (tmp_path / "empty" / "mcp").mkdir(parents=True)
    (tmp_path / "empty" / "mcp" / "__init__.py").touch()
    path = f"{tmp_path / 'empty'}:{env['PYTHONPATH']}"
    result = call("mcp", env={**env, "PYTHONPATH": path}, stdin=subprocess.DEVNULL)
    assert (result.code, result.out) == (3, "")
    assert " -m pip install 'mcp>=" in result.err
