# SPDX-License-Identifier: Apache-2.0
"""A profile in a cell of a notebook: what it is, its peaks, how it failed, and the page in small.

The table stays when a notebook is shown where frames are not allowed.
"""

from ttmem.profile.model import Profile
from ttmem.reports.kit import templates
from ttmem.reports.kit.pages import LONGEST_NAME
from ttmem.reports.kit.units import counted, one_line, operation_label, short
from ttmem.reports.profile import html, tables
from ttmem.reports.profile.analyses import analyses
from ttmem.reports.profile.sentences import runs_text


def render(profile: Profile) -> str:
    """A fragment that needs no style sheet; the page in it is a document of its own, cut off from the notebook."""
    known = analyses(profile)
    failure = known.failure
    place = ""
    if failure and failure.operation_index is not None:
        place = f" at {operation_label(failure.operation_index, failure.operation_name)}"
    return templates.render(
        "notebook.html.j2",
        name=short(profile.name, LONGEST_NAME),
        about=f"{profile.source.kind}, {counted(known.distribution.executed, 'operation')}, {runs_text(known)}",
        peaks=tables.peaks(known).only("Memory", "Peak", "% of bank", "Bank", "Banks", "Caused by"),
        longest_name=LONGEST_NAME,
        failure=f"{failure.failure_class}{place}: {one_line(failure.message)[:400]}" if failure else "",
        page=html.render(profile, small=True) if known.peaks else "",
    )
