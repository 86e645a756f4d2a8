# SPDX-License-Identifier: Apache-2.0
"""Results of tt-metal's sweep framework as a table, with the names of its JSON."""

import csv
import io

from ttmem.base.errors import BadInputError
from ttmem.base.limits import FACT_LINE_BYTES
from ttmem.operators.sweeps.foreign._names import NoResultsError
from ttmem.operators.sweeps.foreign.sweep_json import results_of
from ttmem.operators.sweeps.result import Result
from ttmem.readers.byte_source import Head

KIND = "sweep-csv"
TITLE = "table of tt-metal's sweep framework"


def sniff(head: Head) -> bool:
    """A table that has a column for the status."""
    first = head.lines[:1] if head.is_text else []
    return any("status" in [cell.strip('"\ufeff') for cell in line.split(",")] for line in first)


def read(text: str, source: str) -> list[Result]:
    """The tests of a table."""
    csv.field_size_limit(FACT_LINE_BYTES)
    try:
        rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
        found = results_of(rows, source) if "status" in (rows.fieldnames or ()) else []
    except csv.Error as error:
        raise BadInputError(f"is not a table: {error}", where=source) from None
    if not found:
        raise NoResultsError(source)
    return found
