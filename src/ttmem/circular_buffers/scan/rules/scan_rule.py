# SPDX-License-Identifier: Apache-2.0
"""A rule: its texts, its severity, and its check."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ttmem.circular_buffers.scan.cpp.polynomials import Amounts
from ttmem.circular_buffers.scan.host.programs import ProgramTotals
from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedProgram
from ttmem.circular_buffers.scan.model import ERROR, Kernel, ScanFinding
from ttmem.hardware import MemoryMap


class Breach(NamedTuple):
    """A violation of a rule."""

    file: str
    line: int
    message: str
    severity: str = ""
    """Where it is not the rule's own."""


class L1Space(NamedTuple):
    """The rest of a core's L1, which buffers have to share."""

    memory_map: MemoryMap | None
    """None: no board is given."""
    tensor_bytes: int


Breaches = Iterator[Breach]


@dataclass(frozen=True, slots=True)
class ScanRule:
    """A rule; its checks say where it applies: to a kernel alone, to a program's declarations, or to both together."""

    identifier: str
    title: str
    why: str
    """The consequence of breaking it."""
    fix: str
    """The usual way out."""
    severity: str = ERROR
    warning_when: str = ""
    """When an error is a warning only; for the manual."""
    detail: str = ""
    """What the title leaves out; for the manual."""
    kernel: Callable[[Kernel, Amounts], Breaches] | None = None
    program: Callable[[ProgramTotals, L1Space], Breaches] | None = None
    joined: Callable[[JoinedProgram], Breaches] | None = None
    only_without_errors: bool = False
    """A joined check that explains nothing where another rule has found an error in the program."""

    def findings(self, breaches: Iterable[Breach]) -> list[ScanFinding]:
        """The breaches with the rule's reason and remedy."""
        return [
            ScanFinding(self.identifier, *found[:3], found.severity or self.severity, self.why, self.fix)
            for found in breaches
        ]
