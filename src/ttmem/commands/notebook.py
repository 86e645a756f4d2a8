# SPDX-License-Identifier: Apache-2.0
"""What a ``Profile`` shows of itself in a notebook: a summary, drawings, tables.

The methods of ``Profile`` call these. They ask rooms to the right of ``profile/``, which only this file knows.
"""

from typing import Any

from ttmem.profile.model import Profile
from ttmem.reports.exports import tables
from ttmem.reports.exports.parquet_files import arrow_table


def summary_html(profile: Profile) -> str:
    """A few rows and the page in small; every text that came from a source is escaped."""
    from ttmem.reports.profile import notebook

    return notebook.render(profile)


def plot(profile: Profile, memory: str) -> str:
    """One memory over the operations, as SVG."""
    from ttmem.reports.profile.chart import svg

    return svg(profile, memory)


def table(profile: Profile, name: str) -> Any:
    """One of the tables that ``ttmem export --to parquet`` writes."""
    makers = {"operations": tables.operations, "states": tables.states, "tensors": tables.tensors}
    return arrow_table(makers[name](profile), extra="notebook")
