# SPDX-License-Identifier: Apache-2.0
"""Profiles that ttmem saved: they come back as they were, under the name they were saved with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ttmem.readers.byte_source import Head

if TYPE_CHECKING:
    from ttmem.profile.model import Profile
    from ttmem.readers.registry import ReadOptions

KIND = "saved-profile"
TITLE = "saved profile of ttmem"


def sniff(head: Head) -> bool:
    """True for a file that ``ttmem.profile.profile_file`` wrote."""
    if head.is_folder or head.is_text:
        return False
    from ttmem.profile.profile_file import is_saved_profile

    return is_saved_profile(head.content)


def read(source: str | Path, _: ReadOptions) -> Profile:
    """The profile."""
    from ttmem.profile.profile_file import load

    return load(source)
