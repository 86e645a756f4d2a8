# SPDX-License-Identifier: Apache-2.0
"""The pictures of docs/page.md: real pages of the examples, taken by the system's Chromium.

python tools/gallery.py            # writes docs/images/page-*.png
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import ttmem
from ttmem.reports import profile_files

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES, CAPTURES = ROOT / "docs" / "examples", ROOT / "tests" / "data" / "captures"
PICTURES = {
    "overview": ("oom", "", 1160, "light"),
    "timeline": ("five", "#memory=DRAM&view=timeline", 1160, "light"),
    "tensors": ("oom", "#tensor=0&view=tensors", 1160, "dark"),
    "lifetimes": ("capture", "#memory=DRAM&view=lifetimes", 1160, "light"),
    "stacked": ("five", "#memory=DRAM&view=lifetimes", 1160, "light"),
    "map": ("capture", "#op=12&memory=L1&view=map", 1160, "dark"),
    "operations": ("five", "#op=170&memory=DRAM&view=operations", 1160, "light"),
    "compare": ("compare", "#view=compare", 1160, "light"),
    "phone": ("five", "#memory=DRAM&view=timeline", 390, "light"),
}
"""File -> source, place on its page, width, colours."""


def _generated(layers: int) -> ttmem.Profile:
    """A small transformer's log, with so many layers."""
    sys.path.insert(0, str(ROOT / "bench"))
    from loggen.__main__ import main as generate

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / f"{layers}-layers.log"
        generate(["--layers", str(layers), "--runs", "2", "--seed", "3", "-o", str(log)])
        return ttmem.read(log)


def main() -> int:
    """Take all of them."""
    from playwright.sync_api import sync_playwright

    five, oom = (ttmem.read(EXAMPLES / name) for name in ("transformer-five-runs.log.gz", "blackhole-oom-ansi.log.gz"))
    pages = {
        "five": profile_files.render_html(five),
        "oom": profile_files.render_html(oom),
        "capture": profile_files.render_html(ttmem.read(CAPTURES / "n150-report.json.gz")),
        "compare": ttmem.diff(*(_generated(layers) for layers in (2, 3))).to_html(),
    }
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("no chromium on this machine", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, (source, place, width, colours) in PICTURES.items():
            file = Path(folder) / f"{source}.html"
            file.write_text(pages[source], "utf-8")
            page = browser.new_page(viewport={"width": width, "height": 760}, color_scheme=colours)
            page.goto(f"{file.as_uri()}{place}")
            page.wait_for_selector("#ttmem-report[data-ready=true]", state="attached")
            if name == "stacked":
                page.click("[data-mode=stacked]")
            page.wait_for_timeout(400)  # what comes into sight is drawn then
            target = ROOT / "docs" / "images" / f"page-{name}.png"
            page.screenshot(path=target)
            print(f"wrote {target.relative_to(ROOT)} ({target.stat().st_size // 1000} kB)")
            page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
