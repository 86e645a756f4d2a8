# SPDX-License-Identifier: Apache-2.0
"""``ttmem.read``: the memory history of a source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ttmem.profile.model import Profile

Source: TypeAlias = "str | Path | Profile"
"""A path, ``-`` for standard input, the name of a stored report, or a profile that was read before."""
Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all) while a source is read."""


def read(
    source: Source,
    *,
    run: int | str | None = None,
    rank: int | None = None,
    name: str | None = None,
    mlir: Sequence[str] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Read a runtime log, a capture, a visualizer report, a saved or stored profile, ...

    ``run`` (a number from 0, ``"last"`` or ``"all"``) and ``rank`` narrow it to one part; operation indices stay those
    of the whole source. ``name`` renames the profile, ``mlir`` lists module dumps that belong to a log, ``jobs`` is the
    number of processes that read a large one. Raises ``TtmemError`` for whatever cannot be read, with the reason.
    """
    from ttmem import readers
    from ttmem.profile.model import Profile
    from ttmem.profile.runs import select
    from ttmem.readers.sources import locate

    if isinstance(source, Profile):
        profile = source
    else:
        profile = readers.read(locate(source).path, jobs=jobs, progress=progress, mlir=mlir, name=name)
    if name is not None:  # a saved profile keeps the name it was saved under unless another one is asked for
        profile = profile.rename(name)
    return profile if run is None and rank is None else select(profile, run=run, rank=rank)
