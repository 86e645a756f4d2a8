# SPDX-License-Identifier: Apache-2.0
"""What each operation does to memory: `run_call(device, Call("relu", (spec,)), [buffer], ProgramCache())`."""

from ttmem.allocator.operations.plan import BOUNDED, EXACT, UNKNOWN, Allocate, Call, Free, Launch, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord
from ttmem.allocator.operations.registry import NO_RECORD, RECORDS, confidence_in, plan_call
from ttmem.allocator.operations.run import ProgramCache, Result, run_call
from ttmem.allocator.operations.written import WrittenCall, call_of, read_call, record_of, write_call

__all__ = [
    "BOUNDED",
    "EXACT",
    "NO_RECORD",
    "RECORDS",
    "UNKNOWN",
    "Allocate",
    "Argument",
    "Call",
    "Choose",
    "Free",
    "Launch",
    "OperationRecord",
    "Plan",
    "PlanWriter",
    "ProgramCache",
    "Result",
    "WrittenCall",
    "call_of",
    "confidence_in",
    "plan_call",
    "read_call",
    "record_of",
    "run_call",
    "write_call",
]
