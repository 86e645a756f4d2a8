# SPDX-License-Identifier: Apache-2.0
"""Parquet tables: ``operations.parquet``, ``states.parquet``, ``tensors.parquet``, ... in one folder.

Notebooks get the same tables from memory (``arrow_table``).
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from ttmem.base.errors import MissingPartError
from ttmem.base.extras import install_command
from ttmem.profile.model import Profile
from ttmem.reports.exports._place import new_folder
from ttmem.reports.exports.tables import INTEGER, TRUTH, Table, printable, tables


def write(profile: Profile, out: Path, *, with_source: bool = False) -> Path:
    """Write the folder; tables have no place for source files, so ``with_source`` changes nothing."""
    parquet = _pyarrow("pyarrow.parquet", extra="parquet")
    with new_folder(out) as folder:
        for table in tables(profile):
            content = arrow_table(table, extra="parquet")
            parquet.write_table(content, folder / f"{table.name}.parquet", compression="zstd")
    return out


def arrow_table(table: Table, *, extra: str) -> Any:
    """One table; ``extra`` is the part of ttmem that brings pyarrow to whoever asks."""
    arrow = _pyarrow(extra=extra)
    types = {INTEGER: arrow.int64(), TRUTH: arrow.bool_()}
    return arrow.table(
        {
            name: arrow.array(
                [printable(value) if isinstance(value, str) else value for value in column.values],
                types.get(column.kind, arrow.string()),
            )
            for name, column in table.columns.items()
        }
    )


def _pyarrow(name: str = "pyarrow", *, extra: str) -> Any:
    """The module, or how to get it."""
    try:
        return import_module(name)
    except ImportError:
        needs = "Parquet needs pyarrow" if extra == "parquet" else "tables in Python need pyarrow"
        raise MissingPartError(f"{needs}, which is not installed", hint=install_command(extra)) from None
