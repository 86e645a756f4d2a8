# SPDX-License-Identifier: Apache-2.0
"""``ttmem reports``: list, find, remove."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from support.command_line import BLACKHOLE_OOM, FIVE_RUNS, Result

Run = Callable[..., Result]


def test_an_empty_store_says_how_to_fill_it(run: Run, home: Path) -> None:
    expected = f"no reports in {home / 'reports'}; 'ttmem profile LOG' makes one\n"
    assert run("reports") == Result(0, "", expected)
    listed = {"schema": "ttmem.reports/1", "folder": str(home / "reports"), "reports": []}
    assert json.loads(run("reports", "--json").out) == listed


def test_the_list(run: Run, home: Path) -> None:
    run("profile", FIVE_RUNS, "--name", "gpt")
    run("profile", BLACKHOLE_OOM, "--name", "vit")
    listed = json.loads(run("reports", "--json").out)["reports"]
    assert [entry["name"] for entry in listed] == ["gpt", "vit"]
    profile = json.loads(run("profile", "gpt", "--json").out)
    assert listed[0]["operations_executed"] == profile["operations"]["executed"]
    assert listed[0]["peak_dram_bytes_per_bank"] == profile["memories"]["DRAM"]["peak_bytes_per_bank"]
    assert listed[0]["peak_dram_percent"] == profile["memories"]["DRAM"]["peak_percent"]
    assert listed[0]["kind"] == profile["source"]["kind"]
    assert listed[0]["origin"] == str(FIVE_RUNS)
    header, first, second = run("reports").out.splitlines()
    assert header.split("  ")[0] == "Name"
    assert first.split()[0] == "gpt"
    assert second.split()[0] == "vit"
    assert f"{profile['operations']['executed']:,}" in first.split()


def test_the_list_shows_how_full_l1_was_and_what_failed(run: Run, home: Path) -> None:
    run("profile", FIVE_RUNS, "--name", "gpt")
    run("profile", BLACKHOLE_OOM, "--name", "vit")
    gpt, vit = json.loads(run("reports", "--json").out)["reports"]
    profile = json.loads(run("profile", "vit", "--json").out)
    l1 = profile["memories"]["L1"]
    assert (vit["peak_l1_bytes_per_bank"], vit["peak_l1_percent"]) == (l1["peak_bytes_per_bank"], l1["peak_percent"])
    assert gpt["status"] == "fits"
    assert vit["status"] == f"{profile['failure']['class']} in {profile['failure']['memory']}"
    shown = run("reports").out
    assert f"({l1['peak_percent']:.1f}%)" in shown.splitlines()[2]
    assert vit["status"] in shown.splitlines()[2]
    assert "columns left out" not in shown


def test_path(run: Run, home: Path) -> None:
    run("profile", FIVE_RUNS, "--name", "gpt")
    assert run("reports", "path", "gpt") == Result(0, f"{home / 'reports' / 'gpt'}\n", "")
    expected = "ttmem: error: no stored report 'gtp'\n  hint: stored reports: gpt\n"
    assert run("reports", "path", "gtp") == Result(2, "", expected)


def test_rm_removes_all_or_none(run: Run, home: Path) -> None:
    for name in ("a", "b", "c"):
        run("profile", FIVE_RUNS, "--name", name)
    refused = run("reports", "rm", "a", "nowhere")
    assert refused.code == 2
    assert len(json.loads(run("reports", "--json").out)["reports"]) == 3
    assert run("reports", "rm", "a", "b", "a").code == 0
    assert [entry["name"] for entry in json.loads(run("reports", "--json").out)["reports"]] == ["c"]
    assert run("reports", "rm", "../..").code == 2
    assert home.exists()
    assert FIVE_RUNS.exists()
