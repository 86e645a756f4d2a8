# SPDX-License-Identifier: Apache-2.0
"""The rules of circular buffers, one file each: what breaks it, why it matters, what to do, and how it is checked.

A new rule is a new file here with a `RULE` in it, and a planted mistake in the tests; nothing else lists the rules.
A rule speaks only where the numbers (or the difference of two expressions) are certain, and for every declaration that
a kernel may mean. What shipping kernels do too is a warning.
"""

import pkgutil
from importlib import import_module

from ttmem.circular_buffers.scan.cpp.expressions import Bindings
from ttmem.circular_buffers.scan.cpp.polynomials import Amounts
from ttmem.circular_buffers.scan.host.programs import ProgramTotals
from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedProgram
from ttmem.circular_buffers.scan.model import ERROR, Finding, Kernel
from ttmem.circular_buffers.scan.rules._rule import L1Space, Rule

__all__ = ["RULES", "L1Space", "Rule", "check_joined", "check_kernel", "check_program"]

_FILES = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
_IN_ORDER: list[Rule] = [import_module(f"{__name__}.{name}").RULE for name in _FILES]
RULES = {rule.identifier: rule for rule in _IN_ORDER}
"""Every rule by its identifier, in the order of the files' names."""


def check_kernel(kernel: Kernel, bindings: Bindings) -> list[Finding]:
    """What one kernel breaks, whatever its host says."""
    amounts = Amounts(bindings)
    return [one for rule in RULES.values() if rule.kernel for one in rule.findings(rule.kernel(kernel, amounts))]


def check_program(program: ProgramTotals, space: L1Space) -> list[Finding]:
    """What host code breaks, whatever its kernels do."""
    return [one for rule in RULES.values() if rule.program for one in rule.findings(rule.program(program, space))]


def check_joined(joined: JoinedProgram) -> list[Finding]:
    """What a program and its kernels break together."""
    found: list[Finding] = []
    for rule in sorted(RULES.values(), key=lambda rule: rule.only_without_errors):
        if rule.joined and not (rule.only_without_errors and any(one.severity == ERROR for one in found)):
            found += rule.findings(rule.joined(joined))
    return found
