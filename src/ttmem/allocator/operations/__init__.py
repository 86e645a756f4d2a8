# SPDX-License-Identifier: Apache-2.0
"""What each operation does to memory: `run_call(device, Call("relu", (spec,)), [buffer], ProgramCache())`."""

from ttmem.allocator.operations.plan import BOUNDED, EXACT, UNKNOWN, Allocate, Call, Free, Launch, Plan, PlanWriter
from ttmem.allocator.operations.run import ProgramCache, Result, run_call
from ttmem.allocator.operations.table import RULES, Rule, plan_call, rule_for

__all__ = [
    "BOUNDED",
    "EXACT",
    "RULES",
    "UNKNOWN",
    "Allocate",
    "Call",
    "Free",
    "Launch",
    "Plan",
    "PlanWriter",
    "ProgramCache",
    "Result",
    "Rule",
    "plan_call",
    "rule_for",
    "run_call",
]
