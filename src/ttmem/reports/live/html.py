# SPDX-License-Identifier: Apache-2.0
"""Pages that grow while one looks: they ask the server that they came from for samples."""

from ttmem.reports.kit import page_bundle
from ttmem.reports.live.document import SCOPE


def processes() -> str:
    """The counters of running processes."""
    return _page("Running processes", f"{SCOPE[:1].upper()}{SCOPE[1:]}.", "api/live")


def growing_log(name: str) -> str:
    """A log that is being written."""
    return _page(f"Following {name}", "Memory over operations, as the log grows.", "api/follow")


def _page(title: str, subtitle: str, api: str) -> str:
    data = {"part": "live", "title": title, "subtitle": subtitle, "api": api}
    return page_bundle.data_frame("live", title, data, served=True)
