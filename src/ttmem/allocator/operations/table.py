# SPDX-License-Identifier: Apache-2.0
"""Every operation with a rule, in one place.

To add one: write a function that walks a PlanWriter through what the library does, list it here, and give its rule a
strategy in `tests/oracle/test_operations.py`; a test fails while a rule has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ttmem._errors import BadInputError
from ttmem.allocator.operations.elementwise import binary, clone, typecast, unary
from ttmem.allocator.operations.matrix import matmul
from ttmem.allocator.operations.movement import concat, pad, slice_, to_layout, to_memory_config
from ttmem.allocator.operations.permutation import permute, transpose
from ttmem.allocator.operations.plan import BOUNDED, EXACT, UNKNOWN, Call, Plan, PlanWriter
from ttmem.allocator.operations.reductions import reduce, softmax
from ttmem.allocator.operations.reshaping import reshape
from ttmem.hardware import DEFAULT_RELEASE, DRAM, L1, TILE_32X32, MemoryMap


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
_COMPARED_TYPES = ("bfloat16", "float32", "bfloat8_b", "uint32", "int32", "uint16")
_BY_OPERATION = {operation: rule for rule in RULES for operation in rule.operations}


def rule_for(operation: str) -> Rule | None:
    """The rule of an operation, with or without the `ttnn.` in front."""
    return _BY_OPERATION.get(operation.removeprefix("ttnn."))


def plan_call(call: Call, memory_map: MemoryMap) -> Plan:
    """What a call does to memory; an operation without a rule has an empty plan that says so."""
    rule = rule_for(call.name)
    if rule is None:
        return Plan((), None, None, UNKNOWN, f"no rule for {call.name}")
    if not call.inputs:
        raise BadInputError(f"{call.name} needs a tensor")
    try:
        plan = rule.plan(replace(call, name=call.name.removeprefix("ttnn.")), PlanWriter(memory_map))
    except KeyError as missing:
        raise BadInputError(f"{call.name} needs the argument {missing}") from None
    doubt = _outside_the_tests(call, memory_map)
    if doubt and plan.confidence == EXACT:
        return replace(plan, confidence=BOUNDED, note=doubt)
    return plan


def _outside_the_tests(call: Call, memory_map: MemoryMap) -> str:
    """Why a rule that is exact elsewhere may not be so here: nobody compared it with the library."""
    if memory_map.release is not DEFAULT_RELEASE:
        return f"the rules of operations are those of {DEFAULT_RELEASE}"
    for spec in call.inputs:
        if len(spec.shape) < 2 or not spec.elements:
            return "tensors of rank 0 and 1, or without elements, were not compared"
        if spec.tile != TILE_32X32 or spec.memory not in (DRAM, L1) or spec.dtype.name not in _COMPARED_TYPES:
            return "other tiles, memories and data types were not compared"
    return ""
