# SPDX-License-Identifier: Apache-2.0
"""What is known about failures, read from ``knowledge/*.toml`` when it is first needed.

One file per family of classes. ``[[class]]`` says what a class means and which status its results have,
``[[template]]`` what the library prints (``_template`` describes the language), ``[[wording]]`` what texts say that are
no failures of memory. A new entry is all that a new message needs; no code changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from ttmem.explain.text._template import Template, anchor_of


@dataclass(frozen=True, slots=True)
class FailureClass:
    """A class: what it means, for a person and as the status of a result."""

    name: str
    meaning: str
    status: str
    """One of ``results.STATUSES``."""
    title: str = ""
    """Heading for results of the class; empty where each message says something else."""
    memory: str | None = None
    """Where it happens, when the messages need not say it."""


@dataclass(frozen=True, slots=True)
class Wording:
    """Words of a text without a class: of Python, of test frameworks, of our own engines."""

    title: str
    pattern: re.Pattern[str]
    status: str = ""
    """Empty: the words do not decide it."""


def read_toml(folder: str, *, only: str = "") -> list[tuple[str, dict[str, Any]]]:
    """(file name, content) of the TOML files in a folder of this package, by name."""
    from importlib.resources import files  # here, because it is slow to import and most runs never fail

    from ttmem import _toml

    entries = files("ttmem.explain").joinpath(folder).iterdir()
    wanted = [entry for entry in entries if (entry.name == only if only else entry.name.endswith(".toml"))]
    return [
        (entry.name, _toml.loads(entry.read_text(encoding="utf-8"))) for entry in sorted(wanted, key=lambda e: e.name)
    ]


@cache
def documents() -> tuple[dict[str, Any], ...]:
    """The content of ``knowledge/``, one document per family of classes."""
    return tuple(content for _, content in read_toml("knowledge"))


@cache
def failure_classes() -> tuple[FailureClass, ...]:
    """Every class that the knowledge files describe."""
    return tuple(FailureClass(**entry) for document in documents() for entry in document["class"])


@cache
def _classes_by_name() -> dict[str, FailureClass]:
    return {known.name: known for known in failure_classes()}


def failure_class_named(name: str) -> FailureClass:
    """The class of that name."""
    return _classes_by_name()[name]


@cache
def wordings() -> tuple[Wording, ...]:
    """Every wording; the earlier one wins."""
    return tuple(
        Wording(entry["title"], re.compile(entry["words"]), entry.get("status", ""))
        for document in documents()
        for entry in document.get("wording", ())
    )


def status_of_wording(text: str) -> str:
    """What the words of a text without a class decide; empty when they do not."""
    return next((wording.status for wording in wordings() if wording.status and wording.pattern.search(text)), "")


def title_of(failure_class: str, message: str) -> str:
    """A heading for results that say the same; empty where the message is its own."""
    known = _classes_by_name().get(failure_class)
    if known is not None and known.title:
        return known.title
    return next((wording.title for wording in wordings() if wording.pattern.search(message)), "")


@cache
def templates() -> tuple[Template, ...]:
    """Every template; where two match at one place the earlier one wins, so the fuller wording comes first."""
    return tuple(_template(entry) for document in documents() for entry in document.get("template", ()))


@cache
def _by_id() -> dict[str, Template]:
    return {template.id: template for template in templates()}


def family_of(template_id: str) -> str:
    """The family of a template by its id; an id from elsewhere (``X1``) is a family of its own."""
    template = _by_id().get(template_id)
    return template_id if template is None else template.family


def rank_of(template_id: str) -> str:
    """The rank of a template by its id; asserts of unknown wording (``X1``) are errors."""
    template = _by_id().get(template_id)
    return "error" if template is None else template.rank


def _template(entry: dict[str, Any]) -> Template:
    return Template(
        id=entry["id"],
        text=entry["text"],
        anchor=anchor_of(entry["text"]),
        class_rule=entry["class"],
        family=entry.get("family", entry["id"]),
        memory=entry.get("memory"),
        rank=entry.get("rank", "error"),
        place=entry.get("place", "anywhere"),
        texts=tuple(entry.get("texts", {}).items()),
    )
