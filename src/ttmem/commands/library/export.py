# SPDX-License-Identifier: Apache-2.0
"""``ttmem.export``: a profile in the format of another tool."""

from pathlib import Path

from ttmem.commands.read import Progress, Source, read
from ttmem.reports import exports


def export(
    source: Source,
    to: str,
    out: str | Path,
    *,
    run: int | str | None = None,
    rank: int | None = None,
    with_source: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a source for ``visualizer``, ``perfetto``, ``parquet`` or ``csv`` and return where it went.

    ``perfetto`` writes a file, the others a folder: one of an earlier export is replaced, any other one that is not
    empty is refused. ``with_source`` embeds the user's source files where the format has a place for them.
    """
    exports.check_place(to, Path(out))
    profile = read(source, run=run, rank=rank, jobs=jobs, progress=progress)
    return exports.export(profile, to, out, with_source=with_source)
