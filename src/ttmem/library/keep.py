# SPDX-License-Identifier: Apache-2.0
"""A profile with its reports, kept in the store."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ttmem.store import store

if TYPE_CHECKING:
    from ttmem.profile import Profile


def keep(profile: Profile, *, origin: str, name: str | None = None) -> store.StoredReport:
    """Store a profile. ``origin`` says what was read (a resolved path).

    An empty origin, as of standard input, means that only equal content counts as the same source.
    """
    from ttmem.profile import storage
    from ttmem.reports.profile import stored_files

    if not origin:
        content = storage.to_bytes(profile.renamed(""))
        origin = f"content:{hashlib.blake2b(content, digest_size=16).hexdigest()}"
    return store.keep(
        lambda chosen: stored_files.files(profile.renamed(chosen)),
        stored_files.facts(profile),
        origin=origin,
        suggested_name=profile.name,
        name=name,
    )
