# SPDX-License-Identifier: Apache-2.0
"""The whole report as one offline page, with the drawing; looks and manners are those of the memory report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ttmem._version import __version__
from ttmem.circular_buffers.analyze import Analysis
from ttmem.circular_buffers.depths import Curve
from ttmem.circular_buffers.simulate import Simulation
from ttmem.reports.cb_analyze.sections import parts
from ttmem.reports.cb_simulate.chart import svg

_TEMPLATES = Path(__file__).parents[1] / "templates"


def render(
    analysis: Analysis | None = None, *, simulations: Sequence[Simulation] = (), curves: Sequence[Curve] = ()
) -> str:
    """The page of an analysis, or of simulations alone."""
    analysis = analysis or Analysis(simulations=tuple(simulations), curves=tuple(curves))
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("cb.html.j2").render(
        version=__version__,
        subtitle=_subtitle(analysis),
        parts=parts(analysis),
        drawing=Markup(svg(analysis.curves)) if analysis.curves else "",  # drawn by our own template, escaped there
        style=Markup((_TEMPLATES / "report.css").read_text("utf-8")),
        script=Markup((_TEMPLATES / "report.js").read_text("utf-8")),
    )


def _subtitle(analysis: Analysis) -> str:
    words = [str(one.workload) for one in analysis.simulations]
    words += [source.name for source in analysis.sources] + [evidence.name for evidence in analysis.evidence]
    return " · ".join(words[:12])
