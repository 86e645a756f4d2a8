# SPDX-License-Identifier: Apache-2.0
"""The stored reports as the first page of ``ttmem serve``."""

from collections.abc import Sequence
from typing import Any

from ttmem.reports.kit import page_bundle


def render(folder: str, reports: Sequence[dict[str, Any]], follows: str = "") -> str:
    """Find, open, compare, delete; ``follows`` names a log that the server follows."""
    data = {"part": "store", "title": "ttmem", "folder": folder, "reports": list(reports), "follows": follows}
    return page_bundle.data_frame("store", "Stored reports", data, served=True)
