# SPDX-License-Identifier: Apache-2.0
"""Real captures of ttnn 0.81.1 on mock boards (tests/data/captures/README.md), unpacked where a test wants them."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from ttmem.profile.model import BEFORE_OPERATION, MEMORIES, Profile

DATA = Path(__file__).resolve().parents[1] / "data"

View = list[int]


def text(name: str) -> str:
    return gzip.decompress((DATA / f"{name}.gz").read_bytes()).decode()


def capture(name: str) -> Any:
    """The JSON of a capture."""
    return json.loads(text(f"captures/{name}.json"))


def unpacked_capture(name: str, folder: Path) -> Path:
    """The capture as a file, with what lies beside it."""
    path = folder / "capture.json"
    path.write_text(text(f"captures/{name}.json"))
    if (DATA / "captures" / f"{name}.python_io.json.gz").exists():
        (folder / "capture.python_io.json").write_text(text(f"captures/{name}.python_io.json"))
    return path


def unpacked_report(name: str, folder: Path) -> Path:
    """A ttnn-visualizer report folder."""
    with sqlite3.connect(folder / "db.sqlite") as database:
        database.executescript(text(f"visualizer/{name}.sql"))
    database.close()
    (folder / "cluster_descriptor.yaml").write_text(text(f"visualizer/{name}.cluster.yaml"))
    return folder


def truth(name: str) -> Any:
    """What the allocator itself said meanwhile."""
    return json.loads(text(f"captures/{name}.truth.json"))


def views_before_operations(profile: Profile) -> list[dict[str, View]]:
    """Per operation: banks, total, allocated, free and largest free of every memory that is shown."""
    timeline = profile.timelines[0]
    found = []
    for block in np.flatnonzero(timeline.state_kind == BEFORE_OPERATION).tolist():
        numbers = timeline.state_view[block].tolist()
        found.append({memory: profile.views[n].tolist() for memory, n in zip(MEMORIES, numbers, strict=True) if n >= 0})
    return found


def truth_before_steps(name: str) -> list[dict[str, View]]:
    """The same from the allocator."""
    return [state["views"] for state in truth(name)["states"] if state["when"] == "before"]


def operation_names(profile: Profile) -> list[str]:
    return [profile.forms.name_of(int(form)) for form in profile.timelines[0].form]
