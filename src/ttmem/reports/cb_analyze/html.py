# SPDX-License-Identifier: Apache-2.0
"""The whole report as one offline page, with the drawing."""

from ttmem.circular_buffers.analyze import Analysis
from ttmem.reports.cb_analyze.sections import sections
from ttmem.reports.kit.pages import page

_FOOT = (
    "measured: on a card · computed: exact · simulated: a range over what is assumed · heuristic: as the guide counts"
    " · KB means 1024 bytes"
)
_MOST_NAMES = 12


def render(analysis: Analysis) -> str:
    """Whatever parts there are."""
    names = [str(one.workload) for one in analysis.simulations]
    names += [scan.path for scan in analysis.sources] + [evidence.name for evidence in analysis.evidence]
    subtitle = " · ".join(names[:_MOST_NAMES])
    return page(title="Circular buffers", subtitle=subtitle, sections=sections(analysis), foot=_FOOT)
