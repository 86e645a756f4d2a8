# SPDX-License-Identifier: Apache-2.0
"""Calls that are given a tensor only to free it: no use of it."""

import numpy as np

from ttmem.profile.model import Profile, Timeline

_FREES = ("deallocate",)


def freeing_operations(profile: Profile, timeline: Timeline) -> set[int]:
    """The operations of a timeline that free their argument."""
    names = [number for number, name in enumerate(profile.forms.names) if name.rpartition(".")[2] in _FREES]
    forms = np.flatnonzero(np.isin(profile.forms.name, names))
    positions = np.flatnonzero(np.isin(timeline.form, forms))
    return set((positions + timeline.first_index).tolist())
