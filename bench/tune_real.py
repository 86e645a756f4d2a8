# SPDX-License-Identifier: Apache-2.0
"""tt-metal's own scripts and models, unedited: captured on a mock, tuned, verified, patched, and the patched ones run.

    python bench/tune_real.py CHECKOUT [--python PATH] [--board n150] [--work FOLDER]

CHECKOUT is a checkout of tt-metal (fetched for the measurement, never committed), PATH an interpreter with ttnn and
torch.
Scripts are copied to FOLDER, so that a patch changes nothing of the checkout; models are run by ``tune_models.py``.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import ttmem
from ttmem.commands.tune import Tuned
from ttmem.engines.run_script import ScriptRun
from ttmem.tuning.captured_run import read_captured_run
from ttmem.tuning.edited_run import UNKNOWN, start_edits
from ttmem.tuning.figures import Figures, compute_figures
from ttmem.tuning.verify import Verification, find_certainty

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
    "ttnn/tutorials/basic_python/ttnn_mlp_inference_mnist.py",
)
DRIVER = Path(__file__).with_name("tune_models.py")
HEAD = "| script | operations | edits | in the patch | DRAM and L1 before | promised | on the mock | patched and run |"
_DIGITS, _PIXELS = 10_000, 28


def peaks(found: Figures | Verification) -> str:
    """Bytes per bank."""
    return f"{found.dram_peak_bytes_per_bank:,} / {found.l1_peak_bytes_per_bank:,} B"


def row(title: str, script: str, arguments: Sequence[str], board: str, python: str | None) -> str:
    """One script, in the current folder."""
    nowhere = os.open(os.devnull, os.O_WRONLY)

    def captured() -> ScriptRun:
        return ttmem.run(script, arguments, board=board, python=python, output=nowhere, timeout=240)

    run = captured()
    count = sum(map(len, run.profile.timelines))
    if not count or (run.status and (run.profile.to_json()["failure"] or {}).get("class") != "none"):
        return f"| {title} | {count} | - | - | - | - | - | ended with status {run.status} |"
    found: Tuned = ttmem.tune(run.profile, verify=True, python=python, output=nowhere)
    patch = found.patch()
    applied = len(found.steps) - len(patch.left_out)
    measured = peaks(found.verified) if found.verified else "-"
    if found.verified is not None and found.verified.agrees is not True:
        measured += ", not all edits made" if found.verified.not_made else f", agrees: {found.verified.agrees}"
    patched = "nothing to patch"
    if patch.text:
        edits = [one.edit for one in found.applied if str(one.edit) not in patch.left_out]
        promised = peaks(ttmem.whatif(run.profile, edits).after)
        Path("tune.diff").write_bytes(patch.text.encode())
        subprocess.run(["patch", "-p1", "-i", "tune.diff"], check=True, capture_output=True)
        again = captured()
        peak = peaks(compute_figures(start_edits(read_captured_run(again.profile))))
        kept = "as promised" if peak == promised else f"not {promised}"
        if find_certainty([one for one in found.applied if one.edit in edits]) == UNKNOWN:
            kept = f"no promise, {promised} was a guess"
        patched = f"status {again.status}, {peak}, {kept}"
    cells = (count, len(found.steps), applied, peaks(found.before), peaks(found.after), measured, patched)
    return f"| {title} | {' | '.join(map(str, cells))} |"


def digits(folder: Path) -> None:
    """Random pictures in the files of the data set that a tutorial reads."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    for name in ("train", "t10k"):
        images = struct.pack(">IIII", 2051, _DIGITS, _PIXELS, _PIXELS) + draw.randbytes(_DIGITS * _PIXELS * _PIXELS)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(images)
        labels = struct.pack(">II", 2049, _DIGITS) + bytes(draw.randrange(10) for _ in range(_DIGITS))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(labels)


def models() -> dict[str, str]:
    """What the driver knows; it is not imported, for it needs ttnn."""
    for node in ast.parse(DRIVER.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODELS":
            return dict(ast.literal_eval(node.value))
    return {}


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
    digits(Path("data/MNIST/raw"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(checkout))))
    print(HEAD, "|---" * HEAD.count(" | ") + "|---|", sep="\n")
    for name in SCRIPTS:
        shutil.copy(checkout / name, Path(name).name)
        print(row(Path(name).name, Path(name).name, (), options.board, options.python), flush=True)
    shutil.copy(DRIVER, DRIVER.name)
    for name, file in models().items():
        shutil.copy(checkout / file, Path(file).name)
        print(row(f"{name} ({Path(file).name})", DRIVER.name, [name], options.board, options.python), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
