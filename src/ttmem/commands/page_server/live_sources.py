# SPDX-License-Identifier: Apache-2.0
"""Live sources: a log that is being written, and the counters of running processes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from ttmem.analysis.states import state_column
from ttmem.base.errors import TtmemError
from ttmem.base.formatting import pluralize
from ttmem.commands.live import watch_counters
from ttmem.profile.model import MEMORIES, VIEW_ALLOCATED, VIEW_TOTAL, Profile
from ttmem.readers.runtime_log.reader import follow
from ttmem.reports.live import describe_empty_devices
from ttmem.reports.profile_timeline import downsample

_MOST_POINTS = 600


class FollowedLog:
    """A log that is read as it grows, in a thread that ends with the server."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.profile: Profile | None = None
        self.problem = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        try:
            self._update(follow(self.path, name=self.path.stem, on_update=self._update, stop=self._stopped.is_set))
        except TtmemError as error:
            self.problem = str(error)

    def _update(self, profile: Profile) -> None:
        self.profile = profile

    def samples(self, since: float) -> dict[str, Any]:
        """Return the states after operation ``since``, thinned without losing a peak."""
        profile = self.profile
        if profile is None or not profile.timelines:
            return {"samples": [], "note": self.problem or f"waiting for memory states in {self.path.name}"}
        timeline = profile.timelines[0]
        column = state_column(profile, timeline, "DRAM")
        places = timeline.state_operation[column.state]
        later = places > since
        chosen = column.state[later][downsample(column.value[later], _MOST_POINTS)].tolist()
        text = f"{len(timeline):,} operations in {self.path.name}"
        return {"samples": [_build_sample(profile, state, text) for state in chosen], "note": text}


def _build_sample(profile: Profile, state: int, text: str) -> dict[str, Any]:
    timeline = profile.timelines[0]
    lines = []
    for column, memory in enumerate(MEMORIES):
        view = int(timeline.state_view[state, column])
        if view >= 0:
            held, total = (int(profile.views[view, at]) for at in (VIEW_ALLOCATED, VIEW_TOTAL))
            chart = f"{memory}, bytes per bank"
            lines.append({"chart": chart, "name": "allocated", "bytes": held, "of": total or None})
    return {"at": int(timeline.state_operation[state]), "lines": lines, "told": text}


def sample_counters() -> dict[str, Any]:
    """Return the counters of every chip now; the page draws a chip from when it holds something."""
    seen = next(watch_counters(1))
    lines: list[dict[str, Any]] = []
    running = []
    for device in seen.devices:
        chart = f"Device {device.device} (chip {device.chip_unique_id}), bytes of all banks"
        for name in ("dram", "l1", "l1_small", "trace", "circular_buffer"):
            held = getattr(device.total, f"{name}_bytes")
            line = {"chart": chart, "name": name.replace("_", " "), "bytes": held, "of": None}
            lines.append({**line, "mock": device.is_mock})
        running += [
            f"{process.name} ({process.pid}{', mock' if process.mock else ''})"
            for process in device.processes
            if process.running
        ]
    if not seen.devices:
        return {"samples": [], "note": f"no process publishes counters in {seen.folder}"}
    empty = describe_empty_devices(seen.devices)
    devices = pluralize(len(seen.devices), "device") + (f", {empty}" if empty else "")
    text = f"{devices}; processes: {', '.join(running) or 'none running'}"
    return {"samples": [{"at": seen.taken_ns / 1e9, "lines": lines, "told": text}], "note": text}
