# SPDX-License-Identifier: Apache-2.0
"""What was executed, and how often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ttmem.profile import Profile, Timeline

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


def distribution(profile: Profile) -> Distribution:
    """All ranks together."""
    return _distribution(profile, profile.timelines)


def distribution_of(profile: Profile, timeline_index: int) -> Distribution:
    """One process."""
    return _distribution(profile, (profile.timelines[timeline_index],))


def is_bookkeeping(operation_name: str) -> bool:
    return operation_name.rpartition(".")[2] in _BOOKKEEPING


def _distribution(profile: Profile, timelines: tuple[Timeline, ...]) -> Distribution:
    per_form = np.zeros(len(profile.forms), dtype=np.int64)
    for timeline in timelines:
        per_form += np.bincount(timeline.form, minlength=len(profile.forms))
    per_name = np.zeros(len(profile.forms.names), dtype=np.int64)
    np.add.at(per_name, profile.forms.name, per_form)
    counts = {name: count for name, count in zip(profile.forms.names, per_name.tolist(), strict=True) if count}
    by_name = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    compute = sum(count for name, count in by_name.items() if not is_bookkeeping(name))
    return Distribution(executed=sum(by_name.values()), compute=compute, by_name=by_name)
