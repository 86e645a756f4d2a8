# SPDX-License-Identifier: Apache-2.0
"""``ttmem cb simulate | profile | analyze`` as typed: JSON contract, exit codes, reports."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import ROOT, Result
from support.page import blocks

Run = Callable[..., Result]

CLASH = (
    "TT_THROW @ program.cpp:2624: tt::exception\ninfo:\nStatically allocated circular buffers in program 38 clash with "
    "L1 buffers on core range [0-0 - 7-7]. L1 buffer allocated at 875008 and static circular buffer region ends at "
    "949664\n"
)
PROGRAM_LOG = (
    "DEBUG: num_tiles=16, mesh_devices=2, tiles_per_shard=8\n"
    "DEBUG: Scalable CB allocation - CB0:4, CB1:4, CB2+CB16:4 tiles. Total:12 tiles (48KB/48KB)\n"
    "Distributed elementwise add verification: 14343 / 16384 passed\n"
)


def test_simulate_json_has_the_contract_s_keys(run_cb: Run) -> None:
    found = run_cb("simulate", 16, 16, "--json")
    assert (found.code, found.err) == (0, "")
    document = json.loads(found.out)
    assert document["workload"] == {"tiles_per_shard": 16, "r_tiles": 16, "class": "medium"}
    assert list(document["strategies"]) == ["fixed", "adaptive-guide", "adaptive-program"]
    expected = {
        "fixed": ({"cb0": 4, "cb1": 4, "cb2": 4, "cb16": 4}, 65536, 75.0, "MEDIUM", 87.5),
        "adaptive-guide": ({"cb0": 6, "cb1": 6, "cb2": 2, "cb16": 2}, 65536, 62.5, "MEDIUM", 100.0),
        "adaptive-program": ({"cb0": 4, "cb1": 4, "cb2": 2, "cb16": 2}, 49152, 75.0, "MEDIUM", 100.0),
    }
    for name, figures in expected.items():
        one = document["strategies"][name]
        assert (
            tuple(one[key] for key in ("tiles", "bytes", "miss_rate_percent", "risk", "utilisation_percent")) == figures
        )
        low, high = one["stall_percent"]
        assert 0 < low < one["pressure_score"] < high < 100
    assert set(document["origins"].values()) == {"computed", "simulated", "heuristic"}


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("fixed", ["fixed"]),
        ("adaptive", ["adaptive-guide", "adaptive-program"]),
        ("adaptive-program", ["adaptive-program"]),
    ],
)
def test_a_strategy_can_be_chosen(run_cb: Run, word: str, names: list[str]) -> None:
    document = json.loads(run_cb("simulate", 4, 4, "--strategy", word, "--json").out)
    assert list(document["strategies"]) == names


def test_multi_runs_seven_workloads(run_cb: Run) -> None:
    found = run_cb("simulate", "--multi", "--json", "--strategy", "fixed")
    document = json.loads(found.out)
    counts = [one["workload"]["tiles_per_shard"] for one in document["workloads"]]
    assert (found.code, counts) == (0, [1, 2, 4, 8, 16, 17, 32])
    misses = [one["strategies"]["fixed"]["miss_rate_percent"] for one in document["workloads"]]
    assert misses == [0.0, 0.0, 0.0, 50.0, 75.0, 76.47, 87.5]
    risks = [one["strategies"]["fixed"]["risk"] for one in document["workloads"]]
    assert risks == ["LOW", "LOW", "LOW", "MEDIUM", "MEDIUM", "HIGH", "HIGH"]
    assert document["critical"]["fixed"] == {
        "by_guide": {"tiles_per_shard": 17, "r_tiles": 17},
        "by_simulation": None,
        "loss_percent": 2.0,
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("simulate",), "give TILES_PER_SHARD and R_TILES, or --multi alone"),
        (("simulate", 16), "give TILES_PER_SHARD and R_TILES"),
        (("simulate", 16, 16, "--multi"), "--multi alone"),
        (("simulate", 0, 16), "tiles per shard must be from 1"),
        (("simulate", "--", 16, -3), "R tiles must be from 1"),
        (("simulate", "x", 16), "TILES_PER_SHARD is a number of tiles, not 'x'"),
        (("simulate", 16, "1e3"), "R_TILES is a number of tiles"),
        (("simulate", 16, 16, 16), "unexpected extra argument"),
        (("simulate", 16, 16, "--strategy", "fixd"), "unknown strategy 'fixd'"),
        (("simulate", 16, 16, "--strategy", "none.toml"), "none.toml: cannot be read"),
        (("simulate", 16, 16, "--board", "n15"), "did you mean 'n150'"),
        (("simulate", 16, 16, "--dtype", "foo"), "data type"),
        (("simulate", 16, 16, "--compute-cycles", "fast"), "--compute-cycles takes one number"),
        (("simulate", 16, 16, "--compute-cycles", "nan"), "--compute-cycles must be between"),
        (("profile",), "Missing argument"),
        (("profile", "none.log"), "no such file or stored report 'none.log'"),
        (("analyze",), "nothing to analyze"),
        (("analyze", 16), "'16' alone is no workload"),
        (("analyze", 16, 16, "--multi"), "not both"),
        (("analyze", 16, 16, "none.log"), "no such file or stored report"),
        (("analyze", "none.cpp"), "none.cpp: no such file or folder"),
        (("wrong",), "no verb"),
    ],
)
def test_bad_input_exits_2_and_says_what(run_cb: Run, arguments: tuple[object, ...], complaint: str) -> None:
    found = run_cb(*arguments)
    assert (found.code, found.out) == (2, "")
    assert complaint in found.err
    assert "Traceback" not in found.err


def test_a_strategy_that_hangs_or_does_not_fit_exits_1(run_cb: Run, tmp_path: Path) -> None:
    (tmp_path / "shallow.toml").write_text("[tiles]\ncb0 = 4\ncb1 = 4\ncb2 = 1\ncb16 = 4\n")
    (tmp_path / "huge.toml").write_text("[tiles]\ncb0 = 400\ncb1 = 4\ncb2 = 2\ncb16 = 4\n")
    hangs = run_cb("simulate", 16, 16, "--strategy", "shallow.toml")
    assert hangs.code == 1
    assert "shallow: hangs." in hangs.out
    assert "reserve_back(cb2, 1)" in " ".join(hangs.out.split())
    huge = run_cb("simulate", 16, 16, "--strategy", "huge.toml", "--json")
    one = json.loads(huge.out)["strategies"]["huge"]
    assert (huge.code, one["l1"]["fits"]) == (1, False)
    assert "beyond max L1 size of 1499136 B" in one["l1"]["failure"]
    assert json.loads(run_cb("simulate", 16, 16, "--strategy", "shallow.toml", "--json").out)["strategies"]["shallow"][
        "stall_percent"
    ] == [100.0, 100.0]


def test_batches_that_do_not_divide_the_depth_break_a_rule(run_cb: Run) -> None:
    # GIVEN cb1 = 6 by the guide and 4 by the program
    found = run_cb("simulate", 16, 16, "--strategy", "adaptive", "--tiles-per-barrier", 4, "--json")
    strategies = json.loads(found.out)["strategies"]
    assert found.code == 1
    assert strategies["adaptive-guide"]["broken_rules"] == [
        "R2: pushes of 4 do not fill the 6 tiles of cb1 evenly and run past its end"
    ]
    assert strategies["adaptive-program"]["broken_rules"] == []
    odd = run_cb("simulate", 16, 15, "--strategy", "fixed", "--tiles-per-barrier", 4)
    assert odd.code == 1
    assert "R2: 15 B tiles leave a push of 3 after those of 4" in " ".join(odd.out.split())


def test_kernels_that_do_not_fit_the_ring_exit_1(run_cb: Run) -> None:
    assert run_cb("simulate", 4, 4, "--kernel-bytes", 70384).code == 0
    assert run_cb("simulate", 4, 4, "--kernel-bytes", 70385).code == 1


def test_the_terminal_says_what_is_simulated_and_what_is_heuristic(run_cb: Run) -> None:
    text = run_cb("simulate", 16, 16).out
    for words in (
        "16 x 16 tiles (medium workload)",
        "Predicted (simulated)",
        "Allocated (computed)",
        "As the guide counts (heuristic: not a slowdown)",
        "Depths within 2 % of unlimited depth (simulated)",
        "Throughput over depth",
        "assumed: 103 to 412 cycles",
        "recommended",
    ):
        assert words in text
    assert max(len(line) for line in text.splitlines()) <= 100


def test_the_plot_is_a_drawing_and_the_page_is_offline(run_cb: Run, tmp_path: Path) -> None:
    assert run_cb("simulate", 8, 8, "--plot", "depth.svg", "--html", "page.html").code == 0
    root = ElementTree.fromstring((tmp_path / "depth.svg").read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall("{http://www.w3.org/2000/svg}circle")) == 8 + 6 + 4 + 2
    page = (tmp_path / "page.html").read_text()
    assert 'id="ttmem-report"' in page
    drawn = {section["key"]: section["drawing"] for section in blocks(page)[0].header["sections"]}
    assert drawn["depth"]["type"] == "lines"
    assert "http" not in page.replace("http-equiv", "")


def test_one_file_cannot_be_two_outputs(run_cb: Run) -> None:
    assert run_cb("simulate", 8, 8, "--plot", "a", "--html", "a").code == 2


def test_profile_of_a_program_s_log(run_cb: Run, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(PROGRAM_LOG + CLASH)
    document = json.loads(run_cb("profile", "run.log", "--json").out)
    assert document["source"] == {"name": "run.log", "kind": "log", "lines": 6, "debug_lines": 0}
    assert document["facts"]["tiles"][0]["cb1"] == 4
    (failure,) = document["failures"]
    assert (failure["class"], failure["line"]) == ("buffers/clash", 6)
    assert failure["numbers"]["overlap_bytes"] == 949664 - 875008
    assert (document["has_events"], document["has_facts"]) == (False, True)
    assert "cannot contain such events" in document["verdict"]


def test_profile_says_plainly_what_a_release_log_cannot_hold(run_cb: Run, tmp_path: Path) -> None:
    (tmp_path / "release.log").write_text(
        "2025-08-18 19:08:58.663 | info     |           Metal | opened (a.cpp:1)\n" * 3
    )
    found = run_cb("profile", "release.log")
    text = " ".join(found.out.split())
    assert found.code == 0
    assert "No debug line" in text
    assert "Release builds and wheels are" in text
    assert "ttmem run SCRIPT" in text


def test_profile_of_a_capture_and_of_a_table(run_cb: Run, tmp_path: Path) -> None:
    nodes = [
        {"node_type": "function_start", "params": {"name": "ttnn.add"}},
        {
            "node_type": "circular_buffer_allocate",
            "params": {"size": 4096, "address": 0, "core_range_set": "{[0-0 - 7-7]}", "globally_allocated": "0"},
        },
        {"node_type": "function_end", "params": {"name": "ttnn.add"}},
    ]
    (tmp_path / "capture.json").write_text(json.dumps(nodes))
    document = json.loads(run_cb("profile", "capture.json", "--json").out)
    assert (document["source"]["kind"], document["peak_bytes_per_core"]) == ("graph-capture", 4096)
    (tmp_path / "ops.csv").write_text(
        "OP CODE,DEVICE KERNEL DURATION [ns],DEVICE COMPUTE CB WAIT FRONT [ns],DEVICE COMPUTE CB RESERVE BACK [ns]\n"
        "Add,1000,300,100\n"
    )
    document = json.loads(run_cb("profile", "ops.csv", "--json").out)
    assert document["measured_stall"]["stall_percent"] == 40.0
    assert document["measured_stall"]["origin"] == "measured"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"\x00\x01\x02binary\x00", "neither text nor a capture"),
        (b'{"a": 1}', "no graph capture"),
        (b'[{"node_type": ', "begins like JSON but is none"),
    ],
)
def test_profile_refuses_what_is_no_evidence(run_cb: Run, tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "x").write_bytes(content)
    found = run_cb("profile", "x")
    assert found.code == 2
    assert complaint in found.err


def test_a_stored_profile_tells_its_fullest_operation(run_cb: Run) -> None:
    from ttmem.commands.program import main

    capture = ROOT / "tests" / "data" / "captures" / "n150-report.json.gz"
    assert main(["profile", str(capture), "--name", "captured", "--json", "-o", "profile.json"]) == 0
    document = json.loads(run_cb("profile", "captured", "--json").out)
    assert document["source"]["kind"] == "profile"
    parts = document["profile_peak"]["parts"]
    expected = json.loads(Path("profile.json").read_text())["memories"]["L1"]
    assert parts == expected["parts"]
    assert sum(parts.values()) == expected["peak_with_programs_bytes_per_core"]


def test_a_log_of_bracketed_times_is_no_json(run_cb: Run, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("[2025-05-01 12:00:00.123] [debug] [file.cpp:12] [Op] CB 1 :: PS = 4, NP = 2\n")
    assert json.loads(run_cb("profile", "x.log", "--json").out)["facts"]["buffer"][0]["bytes"] == 8


def test_analyze_says_what_the_parts_say_of_each_other(run_cb: Run, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(PROGRAM_LOG)
    found = run_cb("analyze", 16, 16, "run.log", "--html", "report.html")
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith("# Circular buffers\n\n## Cross-checks\n")
    assert "line 2 says cb0=4 cb1=4 for 8 tiles per shard: as fixed" in found.out
    assert "adaptive-program with 8 B tiles" in found.out
    # wrong results are never put down to pressure
    assert "2,041 wrong results. Shallow buffers slow a program down, they do not change its numbers" in found.out
    assert "## Evidence: run.log" in found.out
    roles = [section["role"] for section in blocks((tmp_path / "report.html").read_text())[0].header["sections"]]
    assert "depth-chart" in roles


def test_analyze_json_holds_the_documents_of_its_parts(run_cb: Run, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(PROGRAM_LOG)
    document = json.loads(run_cb("analyze", "--multi", "run.log", "--json", "--strategy", "fixed").out)
    assert len(document["simulation"]["workloads"]) == 7
    assert document["evidence"][0]["source"]["kind"] == "log"
    assert document["sources"] == []
    assert any("at no workload of the table would deeper buffers save" in line for line in document["cross_checks"])


def test_hostile_names_stay_text(run_cb: Run, tmp_path: Path) -> None:
    (tmp_path / "evil.toml").write_text(
        'name = "<script>alert(1)</script>|x"\n[tiles]\ncb0 = 1\ncb1 = 2\ncb2 = 2\ncb16 = 1\n'
    )
    found = run_cb("analyze", 4, 4, "--strategy", "evil.toml", "--html", "evil.html")
    assert found.code == 0
    assert "<script>alert" not in found.out
    assert "<script>alert" not in (tmp_path / "evil.html").read_text()


_CPP = """
void build(Program& program, CoreRange core, uint32_t tiles_per_shard, uint32_t r_tiles) {
    constexpr uint32_t tile_bytes = 4096;
    RULES
    auto format = tt::DataFormat::Float32;
    CreateCircularBuffer(
        program, core, CircularBufferConfig(cb0 * tile_bytes, {{0, format}}).set_page_size(0, tile_bytes));
    CreateCircularBuffer(
        program, core, CircularBufferConfig(cb1 * tile_bytes, {{1, format}}).set_page_size(1, tile_bytes));
}
"""


def test_two_versions_of_a_program_side_by_side(run_cb: Run, tmp_path: Path) -> None:
    pytest.importorskip("tree_sitter_cpp", reason="the scan of C++ code needs ttmem[cpp]")
    # GIVEN a customer's fixed depths and the guide's adaptive ones
    (tmp_path / "customer.cpp").write_text(_CPP.replace("RULES", "constexpr uint32_t cb0 = 4, cb1 = 4;"))
    rules = "uint32_t cb0 = std::min(6u, tiles_per_shard + 2); uint32_t cb1 = std::min(r_tiles, 6u);"
    (tmp_path / "fixed.cpp").write_text(_CPP.replace("RULES", rules))
    # WHEN both are analyzed with a workload, whose counts are bound
    document = json.loads(run_cb("analyze", 16, 16, "customer.cpp", "fixed.cpp", "--json").out)
    # THEN
    assert [(one["name"], one["strategies"], one["known_bytes"]) for one in document["sources"]] == [
        ("customer.cpp", {"fixed": 2}, 2 * 4 * 4096),
        ("fixed.cpp", {"adaptive": 2}, 2 * 6 * 4096),
    ]
    # AND without one the sizes stay expressions
    text = run_cb("analyze", "customer.cpp", "fixed.cpp").out
    assert "## Source code side by side" in text
    assert "| Adaptive sizes | 0 | 2 |" in text
    assert "| Sizes left open | 0 | 2 |" in text
