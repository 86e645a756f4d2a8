# SPDX-License-Identifier: Apache-2.0
"""The flat tables of a profile as pyarrow tables, for Parquet files and notebooks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ttmem._errors import MissingPartError
from ttmem.exports.tables import INTEGER, TRUTH, Table


def arrow_table(table: Table, *, extra: str) -> Any:
    """One table; ``extra`` is the part of ttmem that brings pyarrow to whoever asks."""
    arrow = pyarrow(extra=extra)
    types = {INTEGER: arrow.int64(), TRUTH: arrow.bool_()}
    return arrow.table(
        {
            name: arrow.array(_clean(column.values), types.get(column.kind, arrow.string()))
            for name, column in table.columns.items()
        }
    )


def pyarrow(name: str = "pyarrow", *, extra: str) -> Any:
    """The module, or how to get it."""
    try:
        return import_module(name)
    except ImportError:
        needs = "Parquet needs pyarrow" if extra == "parquet" else "tables in Python need pyarrow"
        raise MissingPartError(f"{needs}, which is not installed", hint=f"pip install 'ttmem[{extra}]'") from None


def _clean(values: list[Any]) -> list[Any]:
    """A file name that is not UTF-8 holds lone surrogates, which the format cannot."""
    return [
        value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) and not value.isascii() else value
        for value in values
    ]
