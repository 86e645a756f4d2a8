# SPDX-License-Identifier: Apache-2.0
"""Every operation with a rule, in one place.

To add one: write a function that walks a PlanWriter through what the library does, list it here, and give its rule a
strategy in `tests/oracle/test_operations.py`; a test fails while a rule has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ttmem.allocator.operations.elementwise import binary, clone, typecast, unary
from ttmem.allocator.operations.matrix import matmul
from ttmem.allocator.operations.movement import concat, pad, slice_, to_layout, to_memory_config
from ttmem.allocator.operations.permutation import permute, transpose
from ttmem.allocator.operations.plan import UNKNOWN, Call, Plan, PlanWriter
from ttmem.allocator.operations.reductions import reduce, softmax
from ttmem.allocator.operations.reshaping import reshape
from ttmem.hardware import MemoryMap


@dataclass(frozen=True, slots=True)
class Rule:
    """One behaviour, and the ttnn operations that share it."""

    name: str
    operations: tuple[str, ...]
    plan: Callable[[Call, PlanWriter], Plan]


RULES = (
    Rule(
        "unary",
        (
            "abs",
            "exp",
            "gelu",
            "hardsigmoid",
            "hardswish",
            "hardtanh",
            "identity",
            "leaky_relu",
            "log",
            "mish",
            "neg",
            "reciprocal",
            "relu",
            "relu6",
            "rsqrt",
            "sigmoid",
            "sign",
            "silu",
            "softplus",
            "sqrt",
            "square",
            "tanh",
        ),
        unary,
    ),
    Rule("binary", ("add", "subtract", "multiply", "divide", "sub", "mul", "div"), binary),
    Rule("typecast", ("typecast",), typecast),
    Rule("clone", ("clone",), clone),
    Rule("concat", ("concat",), concat),
    Rule("transpose", ("transpose",), transpose),
    Rule("permute", ("permute",), permute),
    Rule("slice", ("slice",), slice_),
    Rule("pad", ("pad",), pad),
    Rule("reshape", ("reshape", "view", "squeeze", "unsqueeze"), reshape),
    Rule("softmax", ("softmax",), softmax),
    Rule("reduce", ("sum", "mean", "max", "min"), reduce),
    Rule("matmul", ("matmul", "linear"), matmul),
    Rule("to_memory_config", ("to_memory_config",), to_memory_config),
    Rule("to_layout", ("to_layout",), to_layout),
)
_BY_OPERATION = {operation: rule for rule in RULES for operation in rule.operations}


def rule_for(operation: str) -> Rule | None:
    """The rule of an operation, with or without the `ttnn.` in front."""
    return _BY_OPERATION.get(operation.removeprefix("ttnn."))


def plan_call(call: Call, memory_map: MemoryMap) -> Plan:
    """What a call does to memory; an operation without a rule has an empty plan that says so."""
    rule = rule_for(call.name)
    if rule is None:
        return Plan((), None, None, UNKNOWN, f"no rule for {call.name}")
    return rule.plan(call, PlanWriter(memory_map))
