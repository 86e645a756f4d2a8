# SPDX-License-Identifier: Apache-2.0
"""Parquet tables: ``operations.parquet``, ``states.parquet``, ``tensors.parquet``, ... in one folder."""

from __future__ import annotations

from pathlib import Path

from ttmem.exports._place import new_folder
from ttmem.exports.arrow_tables import arrow_table, pyarrow
from ttmem.exports.tables import tables
from ttmem.profile import Profile


def write(profile: Profile, out: Path, *, with_source: bool = False) -> Path:
    """Write the folder; tables have no place for source files, so ``with_source`` changes nothing."""
    parquet = pyarrow("pyarrow.parquet", extra="parquet")
    with new_folder(out) as folder:
        for table in tables(profile):
            content = arrow_table(table, extra="parquet")
            parquet.write_table(content, folder / f"{table.name}.parquet", compression="zstd")
    return out
