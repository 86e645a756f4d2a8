# SPDX-License-Identifier: Apache-2.0
"""Hand-written ports of tt-metal beside what fit says of the torch models that they were written for.

    python bench/real_code.py CHECKOUT --python PATH --work FOLDER --parts models       # captures them, unedited
    python bench/fit_ports.py --checkout CHECKOUT --torch-python PATH                    # the interval of each
    python bench/fit_ports.py --checkout CHECKOUT --torch-python PATH --captures FOLDER --write

PATH is an interpreter with torch, transformers, torchvision and timm. ``--captures`` takes the peaks from the results
of ``real_code.py`` instead of from ``fit/measured.toml``; ``--write`` puts figures there and the table into
docs/fit.md. Exit 1 when the facts that fit tells of its interval are not those that were found.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import ttmem  # noqa: E402
from ttmem.base import toml  # noqa: E402

PAGE, DATA = ROOT / "docs" / "fit.md", ROOT / "src" / "ttmem" / "prediction" / "measured.toml"
MODELS = str(Path(__file__).with_name("port_models.py"))
_BEGINS, _ENDS = "<!-- ports: written by bench/fit_ports.py -->", "<!-- end of ports -->"
_BANKS, _MB = 12, 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """One port."""

    port: dict[str, Any]
    captured_mb: float
    stays_mb: float
    upper_mb: float
    as_loaded_mb: float

    def low_mb(self, excess_percent: float) -> float:
        return self.stays_mb / (1 + excess_percent / 100)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--torch-python")
    parser.add_argument("--captures", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    os.environ["PORTS_CHECKOUT"] = str(asked.checkout.resolve())
    told = toml.load_packaged("ttmem.prediction", "measured.toml")
    captured = _captures(asked.captures) if asked.captures else {}
    rows = [_row(port, captured.get(port["capture"], port["captured_mb"]), asked.torch_python) for port in told["port"]]
    found = _facts(rows)
    for line in _table(rows, found):
        print(line)
    print(found)
    if asked.write:
        _write(rows, found)
    return 0 if asked.write or found == told["interval"] else 1


def _captures(folder: Path) -> dict[str, float]:
    """Of each model the peak of the test that needs most."""
    found = {}
    for file in sorted((folder / "models").glob("*.json")):
        result = json.loads(file.read_text())
        peaks = [test["dram_peak_bytes_per_bank"] for test in result.get("tests", ()) if test.get("operations")]
        if peaks:
            found[result["name"]] = round(max(peaks) * _BANKS / _MB, 2)
    return found


def _row(port: dict[str, Any], captured_mb: float, torch_python: str | None) -> Row:
    target, inputs = (port.get(name, "").replace("ports::", f"{MODELS}::") for name in ("target", "inputs"))
    request = {**port["request"], **({"size": tuple(port["request"]["size"])} if "size" in port["request"] else {})}
    found = ttmem.fit(
        target, board="n150", engine="twin", advice=False, inputs=inputs, torch_python=torch_python, **request
    ).prediction
    _, high = found.interval_bytes or (0, 0)
    stays = found.weights_bytes + found.constants_bytes
    row = Row(port, captured_mb, stays / _MB, high / _MB, found.as_loaded_bytes / _MB)
    print(
        f"{port['model']:28} captured {captured_mb:7.1f}, stays {row.stays_mb:7.1f}, at most {row.upper_mb:7.1f},"
        f" as loaded {row.as_loaded_mb:7.1f} more",
        flush=True,
    )
    return row


def _facts(rows: list[Row]) -> dict[str, Any]:
    """What fit tells of its interval."""
    excess = math.ceil(max(100 * (row.stays_mb / row.captured_mb - 1) for row in rows))
    above = [row.captured_mb / row.upper_mb for row in rows if row.captured_mb > row.upper_mb]
    return {
        "lower_end_excess_percent": float(max(excess, 0)),
        "ports": len(rows),
        "within": len(rows) - len(above),
        "as_loaded": sum(row.captured_mb <= row.upper_mb + row.as_loaded_mb for row in rows),
        "most_times": math.ceil(10 * max(above, default=1.0)) / 10,
    }


def _table(rows: list[Row], found: dict[str, Any]) -> list[str]:
    lines = ["| port | captured DRAM | fit says | in it | why |", "|---|--:|---|---|---|"]
    for row in rows:
        low = row.low_mb(found["lower_end_excess_percent"])
        verdict = "yes" if low <= row.captured_mb <= row.upper_mb else _above(row)
        mark = " *" if row.port.get("held_out") else ""
        cells = (f"{row.port['model']}{mark}", f"{row.captured_mb:.1f} MB", f"{low:.1f} to {row.upper_mb:.1f} MB")
        lines.append(f"| {' | '.join(cells)} | {verdict} | {row.port['remark']} |")
    return lines


def _above(row: Row) -> str:
    high = row.upper_mb + row.as_loaded_mb
    return f"{'as loaded' if row.captured_mb <= high else 'no'}: up to {high:.1f} MB"


def _write(rows: list[Row], found: dict[str, Any]) -> None:
    text = DATA.read_text()
    for row in rows:
        name = re.escape(f'capture = "{row.port["capture"]}"')
        text = re.sub(rf"({name}\n(?:.+\n)*?captured_mb = )[\d.]+", rf"\g<1>{row.captured_mb}", text)
    for name, value in found.items():
        text = re.sub(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
    DATA.write_text(text)
    page = PAGE.read_text()
    before, _, rest = page.partition(_BEGINS)
    table = "\n".join(_table(rows, found))
    PAGE.write_text(f"{before}{_BEGINS}\n{table}\n{_ENDS}{rest.partition(_ENDS)[2]}")


if __name__ == "__main__":
    sys.exit(main())
