# SPDX-License-Identifier: Apache-2.0
"""Evidence with a progress bar, for the verbs of ``cb`` that read sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.commands._progress import progress_bar

if TYPE_CHECKING:
    from ttmem.circular_buffers.evidence import Evidence


def collect(source: str, *, quiet: bool = False) -> Evidence:
    """What the source says about circular buffers."""
    from ttmem.library.evidence import circular_buffer_evidence

    name = "standard input" if source == "-" else source
    with progress_bar(f"reading {name}", quiet=quiet) as progress:
        return circular_buffer_evidence(source, progress=progress)
