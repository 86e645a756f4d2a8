# SPDX-License-Identifier: Apache-2.0
"""The server as an agent meets it: a process, its stdin and its stdout."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from captures.fixtures import unpacked_capture
from support.command_line import FIVE_RUNS, REAL_OOM, call, command_line, environment
from ttmem.commands import cli

needs_sdk = pytest.mark.skipif(
    importlib.util.find_spec("mcp") is None, reason="THE MCP SERVER WAS NOT TESTED: pip install mcp"
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(TTMEM_HOME=str(tmp_path / "home"), TTMEM_SHM_DIR=str(tmp_path / "shm"))


def talk(env: dict[str, str], *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """What the SDK's own client gets."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("talk.py"))],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        env=env,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@needs_sdk
def test_every_verb_that_there_is_is_a_tool_with_a_schema(env: dict[str, str]) -> None:
    answer = talk(env)
    wanted = {"profile", "diff", "check", "reports", "explain", "tensor", "boards", "replay", "live"} & set(cli.lines)
    assert set(answer["tools"]) == wanted
    assert answer["tools"]["profile"]["schema"]["required"] == ["source"]
    assert answer["tools"]["profile"]["schema"]["properties"]["rows"]["default"] == 10
    assert all(len(tool["description"]) > 40 for tool in answer["tools"].values())
    assert "per_bank" in answer["instructions"]


@needs_sdk
def test_profile_stores_answers_within_bounds_and_leads_with_its_caveats(env: dict[str, str], tmp_path: Path) -> None:
    capture = unpacked_capture("n150-report", tmp_path)
    answer = talk(
        env,
        ("profile", {"source": str(FIVE_RUNS)}),
        ("profile", {"source": "transformer-five-runs", "rows": 3}),
        ("profile", {"source": str(capture), "run": "last"}),
        ("profile", {"source": "transformer-five-runs", "markdown": True}),
        ("reports", {}),
    )
    first, by_name, captured, markdown, reports = answer["results"]
    document = json.loads(first["text"])
    assert next(iter(document)) == "caveats"
    assert "states were printed rounded: bytes per bank may be off by 525" in document["caveats"]
    assert document["name"] == "transformer-five-runs"
    assert len(document["consumers"]) == 10
    assert document["not_listed"]["consumers"] > 0
    short = json.loads(by_name["text"])
    assert short["memories"] == document["memories"]
    assert len(short["consumers"]) == 3
    assert any("omits dataflow buffers" in caveat for caveat in json.loads(captured["text"])["caveats"])
    assert markdown["text"].startswith("# Memory Profile: transformer-five-runs")
    assert "transformer-five-runs" in [report["name"] for report in json.loads(reports["text"])["reports"]]
    assert not any(result["failed"] for result in answer["results"])


@needs_sdk
def test_diff_check_and_the_twin(env: dict[str, str]) -> None:
    answer = talk(
        env,
        ("diff", {"before": str(FIVE_RUNS), "after": str(FIVE_RUNS), "fail_on": "5%"}),
        ("check", {"source": str(FIVE_RUNS), "max_dram": "0.1%"}),
        ("check", {"source": str(FIVE_RUNS), "max_dram": "80%"}),
        ("boards", {"names": ["n150"]}),
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
    )
    diff, over, within, boards, tensor, replay, live = (json.loads(result["text"]) for result in answer["results"])
    assert diff["regression"] is False
    assert (over["within_budget"], within["within_budget"]) == (False, True)
    assert [board["name"] for board in boards["boards"]] == ["n150"]
    assert (tensor["fits"], tensor["bytes_per_bank"]) == (True, 66846720)
    assert [step["ok"] for step in replay["steps"]] == [True, False, True]
    assert live["devices"] == []
    assert all(document["ttmem"] for document in (diff, over, boards))


@needs_sdk
@pytest.mark.skipif("explain" not in cli.lines, reason="this ttmem has no verb explain yet")
def test_explain_takes_the_text_itself(env: dict[str, str]) -> None:
    (result,) = talk(env, ("explain", {"text": REAL_OOM.read_text()}))["results"]
    assert not result["failed"]
    assert '"class":"oom/' in result["text"]


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
    assert "pip install 'ttmem[mcp]'" in result.err
