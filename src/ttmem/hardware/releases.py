# SPDX-License-Identifier: Apache-2.0
"""What each ttnn release keeps for itself, per architecture: the bank tables.

Measured with the published wheels on a mock cluster. The L1 base moves with almost every release, so a size is only
right together with its release; a build of one's own (profiler, print region) differs again: learn it from evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

from ttmem._errors import BadInputError
from ttmem.hardware._registry import Registry
from ttmem.hardware.architectures import Architecture


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a release keeps of one chip: everything below the two bases."""

    dram_base_address: int
    l1_base_address: int
    """First L1 byte for circular buffers and tensors; below are firmware, mailboxes and the kernel config ring."""
    kernel_config_bytes: int
    """The part below the L1 base that `worker_l1_size` may eat (and then no program fits: measured)."""


@dataclass(frozen=True, slots=True)
class Release:
    """One ttnn release: bank tables and the habits of its messages that change the numbers."""

    name: str
    reserved: tuple[tuple[str, Reserved], ...]
    """By architecture name; an architecture that is missing was not measured for this release."""
    aliases: tuple[str, ...] = ()

    def reserved_on(self, architecture: Architecture) -> Reserved:
        """The bank table of an architecture, refusing to guess where none was measured."""
        for name, reserved in self.reserved:
            if name == architecture.name:
                return reserved
        measured = [r.name for r in RELEASES if any(name == architecture.name for name, _ in r.reserved)]
        raise BadInputError(
            f"no bank table for {architecture.name} in ttnn {self.name}",
            hint=f"measured releases for {architecture.name}: {', '.join(measured)}; "
            "or learn the sizes from a log, a capture or an error message",
        )

    def __str__(self) -> str:
        return f"ttnn {self.name}"


def _fold(name: str) -> str:
    return name.strip().lower().removeprefix("ttnn").lstrip(" =-v")


_RING = 70656
_DRAM_BASE_WITH_PRINT_REGION = {"wormhole": 1048640, "blackhole": 1048704}


def _table(
    name: str, *, wormhole_l1: int, blackhole_l1: int | None = None, dram: dict[str, int] | None = None
) -> Release:
    base = dram or _DRAM_BASE_WITH_PRINT_REGION
    reserved = [("wormhole", Reserved(base["wormhole"], wormhole_l1, _RING))]
    if blackhole_l1 is not None:
        reserved.append(("blackhole", Reserved(base["blackhole"], blackhole_l1, _RING)))
    return Release(name, tuple(reserved))


_QUASAR = ("quasar", Reserved(17825920, 332864, 102400))
_CURRENT = _table("0.81.1", wormhole_l1=105824, blackhole_l1=111744)
_BARRIER_ONLY = {"wormhole": 32}

RELEASES: Registry[Release] = Registry(
    "ttnn release",
    (
        Release("0.81.1", (*_CURRENT.reserved, _QUASAR)),
        _table("0.80.0", wormhole_l1=105696),
        _table("0.79.0", wormhole_l1=105696),
        _table("0.78.0", wormhole_l1=105696),
        _table("0.77.0", wormhole_l1=105664),
        _table("0.76.0", wormhole_l1=105664),
        _table("0.75.0", wormhole_l1=105536, blackhole_l1=111360),
        _table("0.74.0", wormhole_l1=105536),
        _table("0.73.1", wormhole_l1=104224),
        _table("0.72.0", wormhole_l1=103840),
        _table("0.71.2", wormhole_l1=103744, dram=_BARRIER_ONLY),
        _table("0.69.0", wormhole_l1=103712, dram=_BARRIER_ONLY),
    ),
    fold=_fold,
)
DEFAULT_RELEASE = RELEASES.find("0.81.1")
