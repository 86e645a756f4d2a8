# SPDX-License-Identifier: Apache-2.0
"""What each operation does to memory: `run_call(device, Call("relu", (spec,)), [buffer], ProgramCache())`."""

from ttmem.twin.operations.call_syntax import WrittenCall, call_of, read_call, write_call
from ttmem.twin.operations.plan import BOUNDED, EXACT, UNKNOWN, Allocate, Call, Launch, Plan, no_plan
from ttmem.twin.operations.record import Argument, OperationRecord
from ttmem.twin.operations.registry import NO_RECORD, RECORDS, confidence_in, plan_call
from ttmem.twin.operations.run import ProgramCache, planned, run_call

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
    "Plan",
    "ProgramCache",
    "WrittenCall",
    "call_of",
    "confidence_in",
    "no_plan",
    "plan_call",
    "planned",
    "read_call",
    "run_call",
    "write_call",
]
