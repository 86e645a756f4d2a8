# SPDX-License-Identifier: Apache-2.0
"""`ttmem boards`, `tensor` and `replay`: the contract of their JSON, their exit codes, what a person sees."""

from __future__ import annotations

import importlib
import json

import pytest

from ttmem.commands.command_line import Settings, run_to_exit_code

OOM = (
    "Out of Memory: Not enough space to allocate 5 B L1 buffer across 64 banks, where each bank needs to store 5 B, "
    "but bank size is 1329888 B (allocated: 0 B"
)


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")

    def invoke(verb, *arguments):
        command = importlib.import_module(f"ttmem.commands.{verb}").command
        capfd.readouterr()
        code = run_to_exit_code(command, list(map(str, arguments)), prog_name="ttmem", settings=Settings())
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return invoke


def test_tensor_answers_in_json(run):
    code, out, _ = run("tensor", "1x96x2176x1920", "--json")
    document = json.loads(out)
    wanted = [
        "logical_bytes",
        "padded_shape",
        "page_bytes",
        "aligned_page_bytes",
        "pages",
        "bytes_per_bank",
        "banks",
        "padding_ratio",
        "fits",
    ]
    assert code == 0
    assert {key: document[key] for key in wanted} == {
        "logical_bytes": 802160640,
        "padded_shape": [1, 96, 2176, 1920],
        "page_bytes": 2048,
        "aligned_page_bytes": 2048,
        "pages": 391680,
        "bytes_per_bank": 66846720,
        "banks": 12,
        "padding_ratio": 1.0,
        "fits": True,
    }
    assert document["bank_sizes_from"] == "ttnn 0.81.1"
    assert [b["board"] for b in document["boards"]][:4] == ["n150", "n300", "t3k", "galaxy"]


def test_tensor_exits_1_when_no_empty_board_could_hold_it(run):
    code, out, _ = run("tensor", "160x100x512x1x1", "--board", "n150")
    assert code == 1
    assert "DOES NOT FIT an empty board" in out
    assert "1,398,102,016 B in 12 banks" in out
    assert "cheaper         reshape: 16000x512 takes 1,366,016 B per bank" in out
    assert run("tensor", "160x100x512x1x1", "--board", "p150")[0] == 0


def test_the_bar_is_to_scale(run):
    _, out, _ = run("tensor", "1x1x32x33", "--board", "n150", "--memory", "l1")
    bar = out.splitlines()[1]
    assert bar.count("█ logical 2,112 B") == 1
    assert "▓ padding 1,984 B" in bar
    assert "░ lock step 126,976 B" in bar
    assert len(bar.split("  ")[0]) == 48


def test_shards_live_in_l1_unless_said_otherwise(run):
    code, out, _ = run("tensor", "512x512", "--shard", "height:64x512@8x8:col", "--json", "--board", "n150")
    document = json.loads(out)
    assert (code, document["memory"], document["bytes_per_bank"], document["banks"]) == (0, "L1", 65536, 8)
    code, _, err = run("tensor", "33x33", "--shard", "height:33x33@8x8")
    assert code == 2
    assert "Physical shard shape (33, 33) must be tile {32, 32} sized!" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1xtwo"], "'1xtwo' is not a shape"),
        (["1x2", "--board", "n15o"], "unknown board 'n15o'; did you mean 'n150'?"),
        (["1x2", "--dtype", "bf61"], "unknown data type 'bf61'; did you mean 'bf16'?"),
        (["1x2", "--layout", "tiles"], "unknown layout 'tiles'; did you mean 'tile'?"),
        (["1x2", "--like", "missing.log"], "--like 'missing.log': no such file"),
        (["1x2", "--like", OOM, "--l1-small", "0"], "--l1-small and --like both say how the device was opened"),
        (["1x2", "--worker-l1", "99999999"], "Worker L1 size 99999999 is larger than max size 1463968"),
    ],
)
def test_tensor_refuses_with_one_line(run, arguments, message):
    code, out, err = run("tensor", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_board_can_be_learned_from_a_message_or_a_log(run, tmp_path):
    _, out, _ = run("tensor", "64x64", "--memory", "L1", "--like", OOM, "--json")
    document = json.loads(out)
    assert (document["bank_bytes"], document["l1_small_bytes_per_bank"]) == (1329888, 65536)
    assert document["bank_sizes_from"] == "learned from an out-of-memory message"
    (tmp_path / "run.log").write_text(f"noise\n{OOM}\nnoise\n")
    assert json.loads(run("tensor", "64x64", "--memory", "L1", "--like", "run.log", "--json")[1]) == document


def test_boards_lists_every_board(run):
    code, out, _ = run("boards", "--json", "--l1-small", 32768)
    document = json.loads(out)
    n150 = document["boards"][0]
    assert code == 0
    assert (document["release"], n150["name"], n150["grid"]) == ("0.81.1", "n150", [8, 8])
    assert n150["memories"]["L1"] == {
        "banks": 64,
        "bytes_per_bank": 1360544,
        "base_address": 105824,
        "bytes": 64 * 1360544,
    }
    assert "p150" in run("boards")[1]
    assert run("boards", "p150", "--release", "0.69.0")[1].count("not measured") == 1
    assert run("boards", "p15O0")[0] == 2


def steps(*items):
    return "".join(json.dumps(item) + "\n" for item in items)


def test_replay_answers_step_by_step(run, tmp_path):
    script = tmp_path / "steps.jsonl"
    script.write_text(
        steps(
            {"alloc": "a", "shape": [1, 1, 64, 64], "memory": "L1"},
            {"alloc": "b", "shape": [160, 100, 512, 1, 1]},
            {"free": "a"},
        )
    )
    code, out, _ = run("replay", script, "--board", "n150", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["steps"][0] == {
        "ok": True,
        "address": 1497088,
        "bytes_per_bank": 2048,
        "taken_bytes_per_bank": 2048,
    }
    assert (document["steps"][1]["error"], document["steps"][1]["need"]) == ("oom", 1398102016)
    assert document["steps"][2] == {"ok": True}
    assert document["memories"]["L1"] == {
        "banks": 64,
        "bytes_per_bank": 1393312,
        "allocated": 0,
        "free": 1393312,
        "largest_free": 1393312,
    }
    assert run("replay", script, "--strict")[0] == 1
    text = run("replay", script)[1]
    assert "3 steps on n150 (wormhole, grid 8x8); bank sizes: ttnn 0.81.1" in text
    assert "step 2: Out of Memory: Not enough space to allocate 16777216000 B DRAM" in text


def test_replay_of_nonsense_says_where(run, tmp_path):
    script = tmp_path / "steps.jsonl"
    script.write_text(steps({"free": "x"}))
    code, _, err = run("replay", script)
    assert code == 2
    assert f"{script}:1: free of 'x', which is not allocated" in err
    assert run("replay", "missing.jsonl")[0] == 2


@pytest.mark.parametrize("shape", ["1xx2", "x2", "1x", "1,,2", "1x-2", "1x2.5"])
def test_a_shape_with_a_gap_is_refused_and_not_guessed(run, shape):
    code, out, err = run("tensor", "--", shape)
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) <= 2
