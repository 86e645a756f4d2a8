# SPDX-License-Identifier: Apache-2.0
"""What a list of operators held."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.operators.case import Case


@dataclass(frozen=True, slots=True)
class CaseList:
    """Cases of one file, and what of it was none."""

    kind: str
    """``operators-csv``, ``master-json``, ``sweep-json``, ``variations`` or ``cases``."""
    cases: tuple[Case, ...]
    skipped: dict[str, int]
    """Why entries gave no case -> how many."""
    other_names: tuple[str, ...] = ()
    """Names that are no operators: modules, overload suffixes."""
