# SPDX-License-Identifier: Apache-2.0
"""Parquet tables: ``operations.parquet``, ``states.parquet``, ``tensors.parquet``, ... in one folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from ttmem._errors import MissingPartError
from ttmem.exports._place import new_folder
from ttmem.exports.tables import INTEGER, TRUTH, tables
from ttmem.profile import Profile

_INSTALL = "pip install 'ttmem[parquet]'"


def write(profile: Profile, out: Path, *, with_source: bool = False) -> Path:
    """Write the folder; tables have no place for source files, so ``with_source`` changes nothing."""
    arrow, parquet = _pyarrow()
    types = {INTEGER: arrow.int64(), TRUTH: arrow.bool_()}
    with new_folder(out) as folder:
        for table in tables(profile):
            content = arrow.table(
                {
                    name: arrow.array(_clean(column.values), types.get(column.kind, arrow.string()))
                    for name, column in table.columns.items()
                }
            )
            parquet.write_table(content, folder / f"{table.name}.parquet", compression="zstd")
    return out


def _clean(values: list[Any]) -> list[Any]:
    """A file name that is not UTF-8 holds lone surrogates, which the format cannot."""
    return [
        value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) and not value.isascii() else value
        for value in values
    ]


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise MissingPartError("Parquet needs pyarrow, which is not installed", hint=_INSTALL) from None
