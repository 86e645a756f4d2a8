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
    """One ttnn release: bank tables and the habits that change its numbers and texts."""

    name: str
    reserved: tuple[tuple[str, Reserved], ...]
    """By architecture name; an architecture that is missing was not measured for this release."""
    trace_region_is_total: bool
    """True: `trace_region_size` is spread over the DRAM banks. False: every bank loses that much."""
    full_stop_after_oom: bool
    """Whether the out-of-memory sentence ends in a full stop and, for L1_SMALL, is followed by advice."""
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

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return f"ttnn {self.name}"


def _fold(name: str) -> str:
    return name.strip().lower().removeprefix("ttnn").lstrip(" =-v")


_KERNEL_CONFIG_BYTES = 70656
_DRAM_BASE = {"wormhole": 1048640, "blackhole": 1048704}
_DRAM_BASE_BEFORE_0_72 = {"wormhole": 32, "blackhole": 64}
_QUASAR = ("quasar", Reserved(17825920, 332864, 102400))


def _release(
    name: str,
    l1_base: dict[str, int],
    *,
    dram_base: dict[str, int] = _DRAM_BASE,
    trace_region_is_total: bool = True,
    full_stop_after_oom: bool = False,
    more: tuple[tuple[str, Reserved], ...] = (),
) -> Release:
    tables = ((arch, Reserved(dram_base[arch], base, _KERNEL_CONFIG_BYTES)) for arch, base in l1_base.items())
    return Release(name, (*tables, *more), trace_region_is_total, full_stop_after_oom)


RELEASES: Registry[Release] = Registry(
    "ttnn release",
    (
        _release("0.81.1", {"wormhole": 105824, "blackhole": 111744}, full_stop_after_oom=True, more=(_QUASAR,)),
        _release("0.80.0", {"wormhole": 105696, "blackhole": 111616}),
        _release("0.79.0", {"wormhole": 105696, "blackhole": 111616}),
        _release("0.78.0", {"wormhole": 105696, "blackhole": 111616}),
        _release("0.77.0", {"wormhole": 105664, "blackhole": 111488}),
        _release("0.76.0", {"wormhole": 105664, "blackhole": 111488}),
        _release("0.75.0", {"wormhole": 105536, "blackhole": 111360}),
        _release("0.74.0", {"wormhole": 105536, "blackhole": 111360}),
        _release("0.73.1", {"wormhole": 104224, "blackhole": 111360}, trace_region_is_total=False),
        _release("0.72.0", {"wormhole": 103840, "blackhole": 111104}, trace_region_is_total=False),
        _release(
            "0.71.2",
            {"wormhole": 103744, "blackhole": 111104},
            dram_base=_DRAM_BASE_BEFORE_0_72,
            trace_region_is_total=False,
        ),
        _release("0.69.0", {"wormhole": 103712}, dram_base=_DRAM_BASE_BEFORE_0_72, trace_region_is_total=False),
    ),
    fold=_fold,
)
DEFAULT_RELEASE = next(iter(RELEASES))
"""The newest one: what ``ttmem device install`` installs, what options default to, what the tests compare with."""
