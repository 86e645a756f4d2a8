# SPDX-License-Identifier: Apache-2.0
"""The page: offline, escaped, small, and usable in a real browser."""

from __future__ import annotations

import html as entities
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from support.build_profile import ProfileBuilder, tensor
from ttmem._version import __version__
from ttmem.reports.profile import html

from .stories import ALL, hostile, many_weights, two_layers


class Outline(HTMLParser):
    """Tags that are open at the end, all tags, their attributes and the text outside scripts and styles."""

    VOID = ("meta", "input", "path", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in self.VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def cells(self) -> str:
        return " ".join(" ".join(self.text).split())


def test_the_look_of_the_page(snapshot: SnapshotAssertion) -> None:
    page = html.render(two_layers(runs=6, leak_bytes=4096, failed=True))
    body = re.sub(r"<(style|script)[^>]*>.*?</\1>", "", page, flags=re.DOTALL).replace(__version__, "VERSION")
    assert re.sub(r"\n\s*", "\n", body) == snapshot


@pytest.mark.parametrize("story", ALL)
def test_every_page_is_well_formed_and_needs_nothing_from_the_network(story: str) -> None:
    page = html.render(ALL[story]())
    outline = Outline(page)
    assert outline.open == []
    assert [attributes.get("id") for tag, attributes in outline.tags if attributes.get("id") == "ttmem-report"]
    assert [tag for tag, attributes in outline.tags if attributes.get("data-role") == "search"] == ["input"]
    assert not [tag for tag, attributes in outline.tags if {"src", "href"} & set(attributes)]
    assert not re.search(r"https?://|@import|url\(", page)


def test_text_from_the_source_is_text_on_the_page() -> None:
    outline = Outline(html.render(hostile()))
    assert [tag for tag, _ in outline.tags].count("script") == 2  # the points and our own
    assert "x</script><script>alert(1)</script>|" in outline.cells()


def test_tables_and_figures() -> None:
    outline = Outline(html.render(two_layers(runs=6, leak_bytes=4096, failed=True)))
    tables = [attributes["data-table"] for tag, attributes in outline.tags if tag == "table"]
    assert tables == [
        "peaks",
        "consumers",
        "consumers-l1",
        "operations",
        "padding",
        "weights",
        "distribution",
        "runs",
    ]
    text = outline.cells()
    assert "The run failed oom/capacity · DRAM #27 ttnn.matmul at layers.0.dot.2 line" in text
    assert "requested bytes 4,194,304" in text
    assert "Leak: DRAM starts each run" in text
    assert "layers.0.weight 1024x1024 (bf16) 0.168" in text


def test_large_profiles_make_small_pages() -> None:
    build = ProfileBuilder("large")
    for number in range(20_000):
        build.operation(
            f"ttnn.op{number % 300}",
            results={f"%{number}": tensor(32, 32)},
            location=f"layer.{number}",
            dram=number * 2048 % 999_424,
            l1=number % 1000,
        )
    assert len(html.render(build.build())) < 1_000_000
    assert len(html.render(many_weights())) < 1_000_000


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def opened(page: Path) -> str:
    """The page's document after a real browser has run its script."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    done = subprocess.run(
        [str(CHROMIUM), *options, "--dump-dom", f"--user-data-dir={page.parent / 'browser'}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER: chromium is not installed, the page was not opened")
@pytest.mark.parametrize("story", ["failed", "hostile", "without-states"])
def test_a_browser_finds_the_page_ready(story: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html.render(ALL[story]()), "utf-8")
    document = opened(page)
    assert 'id="ttmem-report" data-ready="true"' in document
    # The script counted the rows of every table, so it ran to its end.
    counts = re.findall(r'data-role="count">(\d*)<', document)
    assert counts
    assert all(counts)


@pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER: chromium is not installed, the search was not tried")
def test_the_search_field_filters_the_tables(tmp_path: Path) -> None:
    # GIVEN the page with two words typed into its search field
    typed = """<script>
      const field = document.querySelector("[data-role=search]");
      field.value = "MATMUL  dot";
      field.dispatchEvent(new Event("input"));
    </script></body>"""
    page = tmp_path / "report.html"
    page.write_text(html.render(two_layers()).replace("</body>", typed), "utf-8")
    # WHEN
    table = re.search(r'data-table="consumers".*?</table>', opened(page), re.DOTALL)
    # THEN only rows with both words are left
    assert table is not None
    rows = re.findall(r'<tr( hidden="")?>(.*?)</tr>', table[0].split("<tbody>")[1], re.DOTALL)
    shown = [entities.unescape(re.sub(r"<[^>]+>", " ", cells)) for hidden, cells in rows if not hidden]
    assert len(rows) == 2
    assert len(shown) == 1
    assert "ttnn.matmul" in shown[0]
