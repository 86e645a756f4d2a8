# SPDX-License-Identifier: Apache-2.0
"""The one environment in which templates are rendered.

In pages and drawings every text is escaped unless our own code vouches for it; Markdown (``.md.j2``) is plain text.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttmem._version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_FOLDER = Path(__file__).parents[1] / "templates"


def render_template(template: str, **context: Any) -> str:
    """Render a template of ``reports/templates``; a missing name is an error."""
    return _create_environment().get_template(template).render(context)


def mark_safe(text: str) -> Markup:
    """Mark our own markup (a drawing, a style sheet) as safe, never a log's text."""
    from markupsafe import Markup

    return Markup(text)


@cache
def _create_environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=lambda template: not str(template).endswith(".md.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(version=__version__)
    return environment


@cache
def read_asset(name: str) -> str:
    """Read a file of ``reports/templates``: the built app, whose source is in ``web/``."""
    return (_FOLDER / name).read_text("utf-8")
