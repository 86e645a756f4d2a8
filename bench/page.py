# SPDX-License-Identifier: Apache-2.0
"""The page at scale, in the system's Chromium: a million operations, 100,000 buffers, beside the same data in plotly.

python bench/page.py            # 1,000,000 operations
python bench/page.py --quick    # 100,000

plotly is measured where `npm ci` was run in web/; it draws the DRAM curve alone, without decoding and tables.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import ttmem
from measure import Row, print_table
from profile_speed import make_log
from ttmem.profile.model import BEFORE_OPERATION, MEMORIES, BufferTable, Profile, Source, Timeline
from ttmem.profile.operation_forms import OperationForms
from ttmem.profile.tensor_type import TensorType
from ttmem.reports import profile_files

PLOTLY = Path(__file__).parents[1] / "web" / "node_modules" / "plotly.js-basic-dist-min" / "plotly-basic.min.js"
THREAD = "the page's thread"
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
PRESS = """key => new Promise(done => {
  const start = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
})"""
ZOOM_PLOTLY = """range => new Promise(done => {
  const start = performance.now();
  Plotly.relayout("plot", { "xaxis.range": range }).then(() =>
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start))));
})"""


def repeated(profile: Profile, operations: int) -> Profile:
    """A decode loop that goes on: the runs of a profile again and again, until there are so many operations."""
    timeline = profile.timelines[0]
    count, states, programs = len(timeline), len(timeline.state_kind), len(timeline.programs)
    runs = max(program.run for program in timeline.programs) + 1
    times = -(-operations // count)

    def shifted(column: Any, by: int) -> Any:
        copies = [np.where(column >= 0, column + n * by, column) for n in range(times)]
        return np.concatenate(copies).astype(column.dtype)

    longer = [
        replace(
            one,
            parent=one.parent + n * programs if one.parent >= 0 else -1,
            run=one.run + n * runs,
            caller=one.caller + n * count if one.caller >= 0 else -1,
            first_operation=one.first_operation + n * count,
            end_operation=one.end_operation + n * count,
            first_state=one.first_state + n * states,
            end_state=one.end_state + n * states,
        )
        for n in range(times)
        for one in timeline.programs
    ]
    long = replace(
        timeline,
        form=np.tile(timeline.form, times),
        line=np.concatenate([timeline.line + n * int(timeline.line[-1]) for n in range(times)]),
        program=shifted(timeline.program, programs),
        state_kind=np.tile(timeline.state_kind, times),
        state_operation=shifted(timeline.state_operation, count),
        state_cause=shifted(timeline.state_cause, count),
        state_view=np.tile(timeline.state_view, (times, 1)),
        state_line=np.tile(timeline.state_line, times),
        programs=tuple(longer),
        lookups=(),
        retained=frozenset(),
    )
    return replace(profile, timelines=(long,), name=f"{count * times} operations of a loop")


def never_alike(operations: int) -> Profile:
    """The worst case: no operation like another, a level of memory that jumps at random, a location each."""
    random = np.random.default_rng(1)
    values = [f"%{n}=%{n - 1} %{n // 2}".encode() for n in range(operations)]
    places = [f"model.layers.{n % 80}.block_{n}.fusion.{n * 7}".encode() for n in range(operations)]
    forms = OperationForms(
        name=random.integers(0, 60, operations, np.int32),
        names=tuple(f"ttnn.operation_{n}" for n in range(60)),
        signature=np.zeros(operations, np.int32),
        signatures=(((0, 0), (0,)),),
        ssa_end=np.cumsum([len(text) for text in values]),
        ssa_pool=b"".join(values),
        location_end=np.cumsum([len(text) for text in places]),
        location_pool=b"".join(places),
        note=np.zeros(operations, np.int32),
        notes=(("", False),),
    )
    levels = (random.integers(0, 1 << 18, operations) * 2048).astype(np.int64)
    total = np.full(operations, 1 << 30, np.int64)
    views = np.stack([np.full(operations, 12), total, levels, total - levels, (total - levels) // 2], axis=1)
    type_ = TensorType((1, 32, 32), "bfloat16", "tile", "DRAM", "interleaved", 2048, 2048, 2048, 0)
    timeline = _timeline(np.arange(operations, dtype=np.int32), np.arange(operations, dtype=np.int32))
    return Profile("no operation like another", Source("bench", "bench"), (type_,), forms, views, (timeline,))


def many_buffers(buffers: int) -> Profile:
    """A capture in which buffers of many sizes come and go at changing addresses."""
    random = np.random.default_rng(2)
    operations = buffers // 2
    first = np.sort(random.integers(0, operations - 1, buffers)).astype(np.int32)
    last = np.minimum(first + random.integers(1, 400, buffers), operations - 1).astype(np.int32)
    taken = (random.integers(1, 64, buffers) * 2048).astype(np.int64)
    levels = np.zeros(operations + 1, np.int64)
    np.add.at(levels, first, taken)
    np.add.at(levels, last + 1, -taken)
    levels = np.cumsum(levels)[:operations]
    table = BufferTable(
        address=(random.integers(0, 500_000, buffers) * 2048 + 1_048_640).astype(np.int64),
        memory=np.zeros(buffers, np.int8),
        bytes_per_bank=taken,
        total_bytes=taken * 12,
        first_state=first,
        last_state=last,
        producer=first,
        last_use=last,
        tensor_type=np.zeros(buffers, np.int32),
        name=random.integers(0, 100, buffers).astype(np.int32),
        names=tuple(f"tensor_{n}" for n in range(100)),
    )
    small = never_alike(8)
    total = np.full(operations, 1_072_693_184, np.int64)
    views = np.stack([np.full(operations, 12), total, levels, total - levels, (total - levels) // 2], axis=1)
    places = np.arange(operations, dtype=np.int32)
    timeline = replace(_timeline(places % 8, places), buffers=table)
    facts = {"system": "wormhole_b0"}
    return replace(small, name=f"{buffers} buffers", views=views, timelines=(timeline,), facts=facts)


def _timeline(form: Any, views: Any) -> Timeline:
    operations = len(form)
    number = np.arange(operations, dtype=np.int32)
    state_view = np.full((operations, len(MEMORIES)), -1, np.int32)
    state_view[:, 0] = views
    return Timeline(
        rank=-1,
        first_index=0,
        form=form,
        line=number.astype(np.int64) + 1,
        program=np.full(operations, -1, np.int32),
        state_kind=np.full(operations, BEFORE_OPERATION, np.int8),
        state_operation=number,
        state_cause=number - 1,
        state_view=state_view,
        state_line=number.astype(np.int64) + 1,
    )


class Looker:
    """A browser that tells how long things take: by the clock, and in the time of the page's thread alone.

    The second is what the work costs, whatever else the machine does.
    """

    def __init__(self, browser: Any, folder: Path) -> None:
        self._browser, self._folder = browser, folder
        self._session: Any = None

    def _cpu_seconds(self) -> float:
        found = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in found if one["name"] == "TaskDuration"))

    def first_view(self, text: str, ready: str) -> tuple[Any, float, float]:
        """The page; seconds from opening it until it is ready and drawn, by the clock and of its thread."""
        file = self._folder / "page.html"
        file.write_text(text, "utf-8")
        page = self._browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        start = time.perf_counter()
        page.goto(file.as_uri())
        page.wait_for_selector(ready, state="attached")
        page.evaluate(FRAMES)
        return page, time.perf_counter() - start, self._cpu_seconds()

    def slowest(self, page: Any, keys: str) -> tuple[float, float]:
        """Milliseconds of the slowest of these keys, the median of three rounds: by the clock, of the thread."""
        rounds = []
        for _ in range(3):
            spent = []
            for key in keys.split():
                before = self._cpu_seconds()
                wall = page.evaluate(PRESS, key)
                spent.append((wall, 1000 * (self._cpu_seconds() - before)))
            rounds.append(tuple(map(max, zip(*spent, strict=True))))
        wall, thread = (statistics.median(column) for column in zip(*rounds, strict=True))
        return wall, thread


def plotly_page(profile: Profile) -> str:
    """The DRAM curve of the same profile, as a page of plotly's would hold it."""
    timeline = profile.timelines[0]
    levels = profile.views[timeline.state_view[:, 0], 2]
    data = json.dumps({"x": timeline.state_operation.tolist(), "y": levels.tolist()})
    return (
        f"<!doctype html><div id=plot></div><script>{PLOTLY.read_text('utf-8')}</script><script>const d = {data};"
        "Plotly.newPlot('plot', [{...d, mode: 'lines', line: {shape: 'hv'}}], {width: 1200, height: 400})"
        ".then(() => { document.body.id = 'ready' })</script>"
    )


def rows(folder: Path, *, quick: bool) -> list[Row]:
    """All figures of this benchmark."""
    from playwright.sync_api import sync_playwright

    operations = 100_000 if quick else 1_000_000
    loop = repeated(ttmem.read(make_log(folder, "repeating", 30)), operations)
    found: list[Row] = []
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = driver.chromium.launch(executable_path=chromium, args=options)
        looker = Looker(browser, Path(place))
        for name, profile in (("a loop", loop), ("none alike", never_alike(operations))):
            start, worked = time.perf_counter(), time.process_time()
            text = profile_files.render_html(profile)
            spent, worked = time.perf_counter() - start, time.process_time() - worked
            page, seconds, thread = looker.first_view(text, "#ttmem-report[data-ready=true]")
            what = f"{operations:,} operations, {name}"
            found += [
                Row(f"{what}: page written", spent, "s"),
                Row(f"{what}: page written, processor time", worked, "s", 30),
                Row(f"{what}: file", len(text) / 1e6, "MB", 10),
                Row(f"{what}: first view", seconds, "s", 2),
                Row(f"{what}: first view, {THREAD}", thread, "s"),
            ]
            for act, keys in (("zoom", "+ + - 0"), ("cursor", "n ArrowRight p")):
                wall, thread = looker.slowest(page, keys)
                found += [Row(f"{what}: {act}", wall, "ms", 200), Row(f"{what}: {act}, {THREAD}", thread, "ms")]
            page.close()
        if PLOTLY.is_file():
            text = plotly_page(loop)
            page, seconds, _ = looker.first_view(text, "#ready")
            zooms = [page.evaluate(ZOOM_PLOTLY, [n * 1000, operations // 2 + n]) for n in range(3)]
            found += [
                Row(f"{operations:,} operations, plotly, one curve: file", len(text) / 1e6, "MB"),
                Row(f"{operations:,} operations, plotly, one curve: first view", seconds, "s"),
                Row(f"{operations:,} operations, plotly, one curve: zoom", statistics.median(zooms), "ms"),
            ]
            page.close()
        else:
            print("plotly is not there to be compared with: npm ci in web/", file=sys.stderr)
        text = profile_files.render_html(many_buffers(100_000))
        page, seconds, loaded = looker.first_view(text, "#ttmem-report[data-ready=true]")
        page.evaluate("() => { location.hash = '#view=map' }")
        page.evaluate(FRAMES)
        wall, thread = looker.slowest(page, "ArrowRight n p")
        found += [
            Row("100,000 buffers: file", len(text) / 1e6, "MB", 10),
            Row("100,000 buffers: first view", seconds, "s", 2),
            Row(f"100,000 buffers: first view, {THREAD}", loaded, "s"),
            Row("100,000 buffers: one move on the map", wall, "ms", 200),
            Row(f"100,000 buffers: one move on the map, {THREAD}", thread, "ms"),
        ]
        browser.close()
    return found


if __name__ == "__main__":
    raise SystemExit(print_table(rows, about=__doc__, quick_means="a tenth of the operations"))
