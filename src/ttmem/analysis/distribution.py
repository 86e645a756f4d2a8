# SPDX-License-Identifier: Apache-2.0
"""Counts of executed operations."""

from dataclasses import dataclass

import numpy as np

from ttmem.profile.model import Profile

_BOOKKEEPING = ("deallocate", "get_device")
"""Operations that compute nothing; everyone's operation counts leave them out."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Executed operations by name."""

    executed: int
    compute: int
    """Without deallocations and device look-ups."""
    by_name: dict[str, int]
    """Most frequent first; equal counts by name."""


def distribution(profile: Profile, timeline: int | None = None) -> Distribution:
    """Count the operations of all processes together, or of one of them."""
    per_form = np.zeros(len(profile.forms), dtype=np.int64)
    for one in profile.timelines if timeline is None else (profile.timelines[timeline],):
        per_form += np.bincount(one.form, minlength=len(profile.forms))
    per_name = np.zeros(len(profile.forms.names), dtype=np.int64)
    np.add.at(per_name, profile.forms.name, per_form)
    counts = {name: count for name, count in zip(profile.forms.names, per_name.tolist(), strict=True) if count}
    by_name = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    compute = sum(count for name, count in by_name.items() if name.rpartition(".")[2] not in _BOOKKEEPING)
    return Distribution(executed=sum(by_name.values()), compute=compute, by_name=by_name)
