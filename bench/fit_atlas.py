# SPDX-License-Identifier: Apache-2.0
"""``ttmem fit --list`` with two workers here and with two workers of a Dask cluster: 8 models on 2 boards.

    python bench/fit_atlas.py [--quick]

Both are asked in turn, each into new folders, and the fastest of each counts: other work on the machine slows both.
Goal: the cluster takes at most 1.3 times as long, and gives the same rows. Needs torch, transformers and distributed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]

from measure import Row, print_table  # noqa: E402
from ttmem.prediction.model_matrix import ListedModel, MatrixRow, make_matrix  # noqa: E402
from ttmem.prediction.request import Request  # noqa: E402

MODELS = (
    *(("ViTConfig", "224"), ("ResNetConfig", "224"), ("ConvNextConfig", "224"), ("DeiTConfig", "224")),
    *(("BertConfig", ""), ("DistilBertConfig", ""), ("GPT2Config", ""), ("SwinConfig", "224")),
)
BOARDS = ("n150", "p150")
_START = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--nworkers", "2", "--no-dashboard"]


def measured(folder: Path, *, quick: bool) -> list[Row]:
    from distributed import LocalCluster

    models = [_listed(*model) for model in MODELS[: 2 if quick else None]]
    with tempfile.TemporaryDirectory(dir=folder) as place, LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        workers = subprocess.Popen([*_START, cluster.scheduler_address], stderr=subprocess.DEVNULL)
        try:
            here, there, same = _in_turn(models, Path(place), cluster.scheduler_address, 1 if quick else 3)
        finally:
            workers.terminate()
            workers.wait()
    rows = len(models) * len(BOARDS)
    return [
        Row(f"{rows} rows, two workers here", here, "s"),
        Row(f"{rows} rows, two Dask workers", there, "s"),
        Row("the cluster's time to that here", there / here, "times", None if quick else 1.3),
        Row("rows that differ", sum(one != other for one, other in same), "rows", 0),
    ]


def _listed(name: str, size: str) -> ListedModel:
    sizes = {"size": (int(size), int(size))} if size else {"sequence": 128}
    return ListedModel(name, Request(f"hf:{name}", **sizes))  # type: ignore[arg-type]


def _in_turn(
    models: list[ListedModel], folder: Path, scheduler: str, rounds: int
) -> tuple[float, float, list[tuple[MatrixRow, MatrixRow]]]:
    seconds: dict[str, list[float]] = {"here": [], "there": []}
    found: dict[str, list[MatrixRow]] = {}
    for number in range(rounds):
        for name in seconds:
            started = time.perf_counter()
            where = {"workers": 2} if name == "here" else {"scheduler": scheduler}
            rows = make_matrix(models, BOARDS, folder / f"{name}-{number}", **where)  # type: ignore[arg-type]
            seconds[name].append(time.perf_counter() - started)
            found[name] = [replace(row, seconds=0.0) for row in rows]
            print(f"{name}: {seconds[name][-1]:.1f} s", *{row.reason for row in rows}, file=sys.stderr)
    return min(seconds["here"]), min(seconds["there"]), list(zip(found["here"], found["there"], strict=True))


if __name__ == "__main__":
    sys.exit(print_table(measured, about=__doc__, quick_means="two models, once"))
