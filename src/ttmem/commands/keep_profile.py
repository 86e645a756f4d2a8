# SPDX-License-Identifier: Apache-2.0
"""Store a profile with its reports."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ttmem.profile import store

if TYPE_CHECKING:
    from ttmem.profile.model import Profile
    from ttmem.reports.test.document import SuiteRun


def keep(
    profile: Profile, *, origin: str, name: str | None = None, tests: SuiteRun | None = None
) -> store.StoredReport:
    """Store a profile with its reports. ``origin`` says what was read (a resolved path).

    An empty origin, as of standard input, means that only equal content counts as the same source. ``tests`` is what
    there is to say of the tests when the profile is that of a suite.
    """
    from ttmem.profile import profile_file
    from ttmem.reports.profile import stored_files

    if not origin:
        content = profile_file.to_bytes(profile.renamed(""))
        origin = f"content:{hashlib.blake2b(content, digest_size=16).hexdigest()}"
    return store.keep(
        lambda chosen: stored_files.files(profile.renamed(chosen), tests),
        stored_files.facts(profile),
        origin=origin,
        suggested_name=profile.name,
        name=name,
    )
