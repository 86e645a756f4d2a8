# SPDX-License-Identifier: Apache-2.0
"""Memory figures of a source that could not be read: a peak may be higher than what was read of it."""

from ttmem.profile import UNREAD, Profile


def unread(profile: Profile, memory: str) -> str:
    """What of a memory's figures is missing, with the lines; empty when all of them were read."""
    found = profile.facts.get(UNREAD)
    if not isinstance(found, dict):
        return ""
    return "; ".join(str(found[key]) for key in (memory, "") if key in found)
