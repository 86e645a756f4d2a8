# SPDX-License-Identifier: Apache-2.0
"""The tables that timelines point into, filled one entry at a time: each distinct thing is kept once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ttmem.profile.model import VIEW_LARGEST_FREE, Profile, Source, Timeline
from ttmem.profile.operation_forms import OperationForms
from ttmem.profile.tensor_type import TensorType

View = tuple[int, int, int, int, int]
"""Banks, then bytes per bank: total, allocated, free, largest free."""


class ProfileTables:
    """Distinct tensor types, memory views and operation forms; what is added is answered with its number."""

    def __init__(self) -> None:
        self._types: dict[TensorType, int] = {}
        self._views: dict[View, int] = {}
        self._names: dict[str, int] = {}
        self._signatures: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self._forms: dict[tuple[int, int, str, str], int] = {}

    def type_number(self, type_: TensorType | None) -> int:
        """-1 for what has no type."""
        return -1 if type_ is None else self._types.setdefault(type_, len(self._types))

    def view_number(self, view: View) -> int:
        return self._views.setdefault(view, len(self._views))

    def form_number(
        self,
        name: str,
        *,
        location: str = "",
        operand_types: Sequence[int] = (),
        result_types: Sequence[int] = (),
        values: str = "=",
    ) -> int:
        """An operation's form; ``values`` names its results and operands (``%5=%3 %4``) where they have names."""
        signature = (tuple(operand_types), tuple(result_types))
        key = (
            self._names.setdefault(name, len(self._names)),
            self._signatures.setdefault(signature, len(self._signatures)),
            values,
            location,
        )
        return self._forms.setdefault(key, len(self._forms))

    def profile(
        self, timelines: Sequence[Timeline], *, name: str, source: Source, facts: Mapping[str, Any] | None = None
    ) -> Profile:
        """The tables and the timelines that point into them."""
        return Profile(
            name=name,
            source=source,
            tensor_types=tuple(self._types),
            forms=self._columns(),
            views=np.array(list(self._views), np.int64).reshape(-1, VIEW_LARGEST_FREE + 1),
            timelines=tuple(timelines),
            facts=dict(facts or {}),
        )

    def _columns(self) -> OperationForms:
        values = [values.encode("ascii", "replace") for _, _, values, _ in self._forms]
        locations = [location.encode("utf-8", "surrogateescape") for _, _, _, location in self._forms]
        return OperationForms(
            name=np.array([name for name, _, _, _ in self._forms], np.int32),
            names=tuple(self._names),
            signature=np.array([signature for _, signature, _, _ in self._forms], np.int32),
            signatures=tuple(self._signatures),
            ssa_end=np.cumsum([len(text) for text in values], dtype=np.int64),
            ssa_pool=b"".join(values),
            location_end=np.cumsum([len(text) for text in locations], dtype=np.int64),
            location_pool=b"".join(locations),
            note=np.zeros(len(self._forms), np.int32),
            notes=(("", False),),
        )
