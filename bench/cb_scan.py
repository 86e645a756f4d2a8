# SPDX-License-Identifier: Apache-2.0
"""`ttmem cb scan` over a checkout of tt-metal: how long, how many declarations, how much of their sizes is resolved.

python bench/cb_scan.py ~/tt-metal       # or TTMEM_TT_METAL=~/tt-metal python bench/cb_scan.py

The expected counts are those of an independent count of syntax-tree nodes in commit e4f9f0bb; another commit differs.
Nothing of the checkout is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from measure import Row, run
from ttmem.circular_buffers.scan.cpp.expressions import Symbol, every_node
from ttmem.circular_buffers.scan.model import Declaration
from ttmem.circular_buffers.scan.scanning import parse_bindings, scan

CAPTURED = Path(__file__).resolve().parent.parent / "tests" / "data" / "cb" / "captured.json"
SITES = {"CircularBufferConfig": 378, "CBDescriptor": 844, "CBDescriptor fields": 111, "DataflowBufferSpec": 584}
CREATE_CB = 134
ALL_SITES = 2051
LONGEST_SECONDS = 60
FULLY, AT_ALL, STRICTLY = 22.6, 98.6, 63.0
"""Percent of the sites in ttnn/cpp: known up to the data type; as an expression or better; with known leaves only."""


def off_percent(found: int, expected: int) -> float:
    return 100 * abs(found - expected) / expected


def resolution(document: dict[str, Any], strict: int) -> list[Row]:
    """How much of the sizes the source says, against what the study found."""
    classes = document["summary"]["sites_by_class"]
    total = document["summary"]["sites"]
    fully = 100 * (classes.get("constant", 0) + classes.get("per-dtype", 0)) / total
    known = 100 * (total - classes.get("opaque", 0)) / total
    return [
        Row("sizes known up to the data type", fully, "%", FULLY, at_least=True),
        Row("sizes known as an expression or better", known, "%", AT_ALL, at_least=True),
        Row("sizes with known leaves only", 100 * strict / total, "%", STRICTLY, at_least=True),
    ]


def captured_rows(checkout: Path) -> list[Row]:
    """Scanned and bound sizes against those that the real library allocated on a mock board."""
    cases = json.loads(CAPTURED.read_text())["operators"]
    equal = 0
    for case in cases:
        factory = checkout / "ttnn" / "cpp" / "ttnn" / "operations" / case["factory"]
        bindings = parse_bindings([f"{name}={value}" for name, value in case["bindings"].items()])
        programs = scan(factory, bindings=bindings, jobs=1).programs
        program = next((one for one in programs if one.name.endswith(case["program"])), None)
        found = [one.total_bytes for one in program.buffers if one.active and not one.borrowed] if program else []
        equal += found == case["captured"]
        if found != case["captured"]:
            print(f"{case['operator']}: scanned {found}, captured {case['captured']}")
    return [
        Row("operators compared with captures", len(cases), ""),
        Row("  of which sizes differ", len(cases) - equal, "", 0),
    ]


def is_strict(site: Declaration) -> bool:
    """Every unknown is a parameter, member, getter or name: nothing depends on a function that was not read."""
    if site.total is None or site.strategy == "unknown":
        return False
    leaves = [node for node in every_node(site.total) if isinstance(node, Symbol)]
    return all(leaf.kind in ("parameter", "member", "name", "binding") for leaf in leaves)


def rows(checkout: Path) -> list[Row]:
    """All figures of this benchmark."""
    tree = checkout / "ttnn" / "cpp"
    command = [sys.executable, "-m", "ttmem", "cb", "scan", str(tree), "--json"]
    cold = run(command, repeat=1, env={})
    one = run([*command, "--jobs", "1"], repeat=1, env={})
    found = scan(tree)
    from ttmem.reports.cb_scan import build_document

    answer = build_document(found).to_json()
    sites = answer["summary"]["sites_by_api"]
    by_helper = sum(1 for one in found.declarations if one.trail and one.trail[0][0] == "create_cb")
    return [
        Row(f"cb scan --json, {answer['files']:,} files (wall)", cold.wall_seconds, "s", LONGEST_SECONDS),
        Row("  one process (wall)", one.wall_seconds, "s"),
        Row("  one process (CPU)", one.cpu_seconds, "s", LONGEST_SECONDS),
        Row("  peak resident set, one process", one.rss_mib, "MiB"),
        Row("files skipped", len(answer["skipped"]), "", 0),
        Row("declaration sites", answer["summary"]["sites"], ""),
        Row("  off the study by", off_percent(answer["summary"]["sites"], ALL_SITES), "%", 2),
        *(Row(f"  {api} off by", off_percent(sites.get(api, 0), count), "%", 2) for api, count in SITES.items()),
        Row(
            "  create_cb (with same-named helpers) off by",
            off_percent(sites["create_cb"] + by_helper, CREATE_CB),
            "%",
            2,
        ),
        *resolution(answer, sum(map(is_strict, found.sites))),
        Row("buffers in programs, helpers followed", len(answer["declarations"]), ""),
        Row("errors reported in shipping code", answer["summary"]["errors"], "", 0),
        Row("warnings reported in shipping code", answer["summary"]["warnings"], ""),
        *captured_rows(checkout),
    ]


def main() -> int:
    """Print the table; 1 when a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", nargs="?", type=Path, default=os.environ.get("TTMEM_TT_METAL"))
    parser.add_argument("--quick", action="store_true", help="the same: one tree, once")
    checkout = parser.parse_args().checkout
    if checkout is None or not (Path(checkout) / "ttnn" / "cpp").is_dir():
        print("SKIPPED: no checkout of tt-metal; name one as the argument or in TTMEM_TT_METAL", file=sys.stderr)
        return 0
    table = rows(Path(checkout))
    print(*table, sep="\n")
    return 0 if all(row.ok for row in table) else 1


if __name__ == "__main__":
    raise SystemExit(main())
