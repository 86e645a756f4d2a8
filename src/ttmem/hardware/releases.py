# SPDX-License-Identifier: Apache-2.0
"""Memory that each ttnn release reserves, per architecture: the bank tables (``releases.toml``).

Measured with the published wheels on a mock cluster. The L1 base moves with almost every release, so a size is only
right together with its release; a build of one's own (profiler, print region) differs again: learn it from evidence.
"""

from dataclasses import dataclass
from typing import Any

from ttmem.base import toml
from ttmem.base.errors import BadInputError
from ttmem.hardware._registry import Registry
from ttmem.hardware.architectures import Architecture


@dataclass(frozen=True, slots=True)
class Reserved:
    """Memory that a release reserves on one chip: everything below the two bases."""

    dram_base_address: int
    l1_base_address: int
    """First L1 byte for circular buffers and tensors; below are firmware, mailboxes and the kernel config ring."""
    kernel_config_bytes: int
    """The part below the L1 base that `worker_l1_size` may eat (and then no program fits: measured)."""


@dataclass(frozen=True, slots=True)
class Release:
    """A ttnn release: bank tables and the conventions that change its numbers and texts."""

    name: str
    reserved: tuple[tuple[str, Reserved], ...]
    """By architecture name; an architecture that is missing was not measured for this release."""
    trace_region_is_total: bool
    """True: `trace_region_size` is spread over the DRAM banks. False: every bank loses that much."""
    full_stop_after_oom: bool
    """True if the out-of-memory message ends in a full stop and, for L1_SMALL, is followed by advice."""
    aliases: tuple[str, ...] = ()

    def find_reserved(self, architecture: Architecture) -> Reserved:
        """Return the bank table of an architecture; raises BadInputError where none was measured."""
        tables = dict(self.reserved)
        if architecture.name in tables:
            return tables[architecture.name]
        measured = [release.name for release in RELEASES if architecture.name in dict(release.reserved)]
        raise BadInputError(
            f"no bank table for {architecture.name} in ttnn {self.name}",
            hint=f"measured releases for {architecture.name}: {', '.join(measured)}; "
            "or learn the sizes from a log, a capture or an error message",
        )

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return f"ttnn {self.name}"


def _fold(name: str) -> str:
    return name.strip().lower().removeprefix("ttnn").lstrip(" =-v")


def _release(reserved: dict[str, list[int]], **facts: Any) -> Release:
    return Release(reserved=tuple((name, Reserved(*figures)) for name, figures in reserved.items()), **facts)


_RECORDS = toml.load_packaged("ttmem.hardware", "releases.toml")["release"]
RELEASES: Registry[Release] = Registry("ttnn release", (_release(**record) for record in _RECORDS), fold=_fold)
DEFAULT_RELEASE = next(iter(RELEASES))
"""The newest one: what ``ttmem device install`` installs, what options default to, what the tests compare with."""
