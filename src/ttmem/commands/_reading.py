# SPDX-License-Identifier: Apache-2.0
"""What every verb that takes a SOURCE does first: read it; and what those that read new evidence do last: store it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ttmem._errors import TtmemError
from ttmem.commands._output import warn
from ttmem.commands._progress import progress_bar
from ttmem.library import sources as _sources

if TYPE_CHECKING:
    from ttmem.library.sources import Located
    from ttmem.profile import Profile
    from ttmem.store.store import StoredReport


def read(
    source: str | Path,
    *,
    jobs: int | None = None,
    mlir: Sequence[str] = (),
    name: str | None = None,
    quiet: bool = False,
) -> Profile:
    """``ttmem.read`` with a progress bar."""
    with progress_bar(f"reading {source}", quiet=quiet) as progress:
        return _sources.read(source, jobs=jobs, progress=progress, mlir=mlir, name=name)


def keep(profile: Profile, located: Located, *, name: str | None) -> StoredReport | None:
    """Store the profile. A home that cannot be written to costs the copy, not the answer."""
    from ttmem.library.keep import keep as keep_profile

    try:
        return keep_profile(profile, origin=located.origin, name=name)
    except (OSError, TtmemError) as error:
        warn(f"the report was not stored: {error}; TTMEM_HOME says where, --no-store switches it off")
        return None
