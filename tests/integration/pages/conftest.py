# SPDX-License-Identifier: Apache-2.0
"""A real browser without network, one for all tests of a worker. Whatever it complains about fails the test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What opens a browser is left out of the fast half (``make check``)."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    if CHROMIUM is None:
        pytest.skip("NO BROWSER: chromium is not installed, the page was not opened")
    playwright = pytest.importorskip("playwright.sync_api", reason="NO BROWSER: playwright is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield started
        started.close()


Opened = Callable[..., "Page"]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Opens a page's text from disk, networking off, and waits until it is ready."""
    complaints: list[str] = []
    contexts = []

    def show(text: str, hash: str = "", *, width: int = 1280, **more: Any) -> Page:
        file = tmp_path / f"page-{len(contexts)}.html"
        file.write_text(text, "utf-8")
        context = browser.new_context(offline=True, viewport={"width": width, "height": 900}, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda told: complaints.append(f"{told.type}: {told.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda asked: complaints.append(asked.url) if asked.url.startswith("http") else None)
        page.goto(f"{file.as_uri()}{hash}")
        page.wait_for_selector("#ttmem-report[data-ready=true]", state="attached")
        return page

    yield show
    for context in contexts:
        context.close()
    assert complaints == []
