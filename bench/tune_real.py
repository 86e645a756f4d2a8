# SPDX-License-Identifier: Apache-2.0
"""tt-metal's own example scripts, unedited: captured on a mock, tuned, verified, patched, and the patched ones run.

    python bench/tune_real.py CHECKOUT [--python PATH] [--board n150] [--work FOLDER]

CHECKOUT is a checkout of tt-metal (fetched for the measurement, never committed), PATH an interpreter with ttnn and
torch.
Scripts are copied to FOLDER, so that a patch changes nothing of the checkout.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import ttmem
from ttmem.library.tune import Tuned

SCRIPTS = (
    "ttnn/ttnn/examples/usage/using_tt_lib.py",
    "ttnn/ttnn/examples/usage/get_item.py",
    "ttnn/ttnn/examples/usage/run_op_on_device.py",
    "ttnn/ttnn/examples/usage/debugging_intermediate_tensors.py",
    "ttnn/ttnn/examples/usage/program_cache.py",
    "ttnn/tutorials/basic_python/ttnn_add_tensors.py",
    "ttnn/tutorials/basic_python/ttnn_basic_operations.py",
    "ttnn/tutorials/basic_python/ttnn_basic_matrix_multiplication.py",
    "ttnn/tutorials/basic_python/ttnn_basic_conv.py",
    "ttnn/tutorials/basic_python/ttnn_multihead_attention.py",
)
HEAD = "| script | operations | edits | in the patch | DRAM peak before | promised | on the mock | patched and run |"


def row(script: Path, board: str, python: str | None) -> str:
    """One script, in the current folder."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    run = ttmem.run(script.name, board=board, python=python, output=nowhere, timeout=240)
    count = sum(map(len, run.profile.timelines))
    if run.status or not count:
        return f"| {script.name} | {count} | - | - | - | - | - | ended with status {run.status} |"
    found: Tuned = ttmem.tune(run.profile, verify=True, python=python, output=nowhere)
    patch = found.patch()
    applied = len(found.steps) - len(patch.left_out)
    before, after = found.before.dram_peak_bytes_per_bank, found.after.dram_peak_bytes_per_bank
    measured = found.verified.dram_peak_bytes_per_bank if found.verified else 0
    patched = "nothing to patch"
    if patch.text:
        promised = ttmem.whatif(
            run.profile, [one.edit for one in found.applied if str(one.edit) not in patch.left_out]
        ).after.dram_peak_bytes_per_bank
        Path("tune.diff").write_bytes(patch.text.encode())
        subprocess.run(["patch", "-p1", "-i", "tune.diff"], check=True, capture_output=True)
        again = ttmem.run(script.name, board=board, python=python, output=nowhere, timeout=240)
        peak = again.profile.to_json()["memories"].get("DRAM", {}).get("peak_bytes_per_bank")
        kept = "as promised" if peak == promised else f"not {promised:,} B"
        patched = f"status {again.status}, {peak:,} B, {kept}"
    cells = (count, len(found.steps), applied, f"{before:,} B", f"{after:,} B", f"{measured:,} B", patched)
    return f"| {script.name} | {' | '.join(map(str, cells))} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--python")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="tune-real-"))
    checkout = options.checkout.resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.chdir(work)
    print(HEAD, "|---" * HEAD.count(" | ") + "|---|", sep="\n")
    for name in SCRIPTS:
        shutil.copy(checkout / name, Path(name).name)
        print(row(Path(name), options.board, options.python), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
