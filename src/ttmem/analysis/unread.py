# SPDX-License-Identifier: Apache-2.0
"""Memory figures of a source that could not be read: the peak of a memory is not known for sure."""

from dataclasses import dataclass

from ttmem.profile.model import UNREAD, Profile


@dataclass(frozen=True, slots=True)
class Unread:
    """What is missing of a memory's figures; false when nothing is."""

    text: str = ""
    """With the lines."""
    contradicts: bool = False
    """Figures that were read contradict each other. Else a peak that was read is a lower bound of the true one."""

    def __bool__(self) -> bool:
        return bool(self.text)


NOTHING_UNREAD = Unread()


def unread(profile: Profile, memory: str) -> Unread:
    """What of a memory's figures could not be read."""
    found = profile.facts.get(UNREAD)
    entries = [found[key] for key in (memory, "") if key in found] if isinstance(found, dict) else []
    entries = [entry for entry in entries if isinstance(entry, dict)]
    return Unread("; ".join(str(one.get("text")) for one in entries), any(one.get("contradicts") for one in entries))
