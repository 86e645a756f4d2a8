# SPDX-License-Identifier: Apache-2.0
"""One tensor of a run and how long it stayed."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.profile import TensorType


@dataclass(frozen=True, slots=True)
class TensorLife:
    """One tensor on the device, from its producer to the operation that freed it."""

    name: str
    """A weight's own name, else the SSA name inside its program."""
    type: TensorType
    producer_index: int | None
    """None: it was there before the run, uploaded outside any program."""
    producer_name: str
    location: str
    program: str
    first_index: int
    last_index: int
    """The last operation before which it was still allocated."""
    last_use_index: int | None
    weight: bool
    bytes_per_bank: int
