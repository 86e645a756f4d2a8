# SPDX-License-Identifier: Apache-2.0
"""Rules for the memory use of operations: `run_call(device, Call("relu", (spec,)), [buffer], ProgramCache())`."""

from ttmem.twin.operations.call_syntax import ParsedCall, build_call, format_call, parse_call
from ttmem.twin.operations.plan import BOUNDED, EXACT, UNKNOWN, Allocate, Call, Launch, Plan, no_plan
from ttmem.twin.operations.record import Argument, OperationRecord
from ttmem.twin.operations.registry import NO_RECORD, RECORDS, combine_confidence, plan_call
from ttmem.twin.operations.run import ProgramCache, plan_on_device, run_call

__all__ = [
    "BOUNDED",
    "EXACT",
    "NO_RECORD",
    "RECORDS",
    "UNKNOWN",
    "Allocate",
    "Argument",
    "Call",
    "Launch",
    "OperationRecord",
    "ParsedCall",
    "Plan",
    "ProgramCache",
    "build_call",
    "combine_confidence",
    "format_call",
    "no_plan",
    "parse_call",
    "plan_call",
    "plan_on_device",
    "run_call",
]
