# SPDX-License-Identifier: Apache-2.0
"""The rules of circular buffers: violation, reason, remedy and check of each.

A new rule is a `ScanRule` in one of these files, an entry in `RULES`, and a planted mistake in the tests. It reports
only where the numbers (or the difference of two expressions) are certain, and for every declaration that a kernel may
mean. A violation that shipping kernels have too is a warning.
"""

from ttmem.circular_buffers.scan.cpp.expressions import Bindings
from ttmem.circular_buffers.scan.cpp.polynomials import Amounts
from ttmem.circular_buffers.scan.host.programs import ProgramTotals
from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedProgram
from ttmem.circular_buffers.scan.model import ERROR, Kernel, ScanFinding
from ttmem.circular_buffers.scan.rules import counts, deadlock, sides, sizes
from ttmem.circular_buffers.scan.rules.scan_rule import L1Space as L1Space
from ttmem.circular_buffers.scan.rules.scan_rule import ScanRule as ScanRule

_IN_ORDER = (
    *(counts.COUNT_WITHIN_CAPACITY, counts.EVEN_LAPS, counts.CUMULATIVE_WAIT, counts.AMOUNTS_MEET, counts.SELF_FEEDING),
    *(sides.ONE_KERNEL_PER_SIDE, sides.BOTH_HALVES, sides.FIRST_PAGES, deadlock.SKEW, sizes.CONFIGURATION),
    *(counts.COUNTER_RANGE, sides.TRANSFER_DONE, sizes.FITS_L1),
)
RULES = {rule.identifier: rule for rule in _IN_ORDER}
"""The rules by identifier, R1 to R13."""


def check_kernel(kernel: Kernel, bindings: Bindings) -> list[ScanFinding]:
    """Return the violations of a kernel, independent of its host."""
    amounts = Amounts(bindings)
    return [one for rule in RULES.values() if rule.kernel for one in rule.findings(rule.kernel(kernel, amounts))]


def check_program(program: ProgramTotals, space: L1Space) -> list[ScanFinding]:
    """Return the violations of host code, independent of its kernels."""
    return [one for rule in RULES.values() if rule.program for one in rule.findings(rule.program(program, space))]


def check_joined(joined: JoinedProgram) -> list[ScanFinding]:
    """Return the violations of a program and its kernels together."""
    found: list[ScanFinding] = []
    for rule in sorted(RULES.values(), key=lambda rule: rule.only_without_errors):
        if rule.joined and not (rule.only_without_errors and any(one.severity == ERROR for one in found)):
            found += rule.findings(rule.joined(joined))
    return found
