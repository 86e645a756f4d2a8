# SPDX-License-Identifier: Apache-2.0
"""Matrix multiplication with a third tensor added in place."""

from dataclasses import replace

from ttmem.base.errors import BadInputError
from ttmem.hardware import DATA_TYPES
from ttmem.twin.operations.binary_programs import BinaryKind, list_streams
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import double_buffered_tiles, typecast
from ttmem.twin.operations.matmul import (
    PRODUCT_ARGUMENTS,
    build_product_spec,
    check_product,
    matmul,
    multiply,
    read_sums,
)
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument
from ttmem.twin.programs import CIRCULAR


def addmm(call: Call, plan: PlanBuilder) -> Plan:
    """Multiply, and add a third tensor of the result's shape in place; factors are programs of their own."""
    added, first, second = call.inputs[:3]
    alpha, beta = call.arguments["alpha"], call.arguments["beta"]
    if alpha == 0.0:
        raise BadInputError("alpha parameter cannot be 0")
    wanted = call.arguments["dtype"]
    dtype = first.dtype if wanted is None else DATA_TYPES.find(str(wanted))
    if len(first.shape) < 2 or len(second.shape) < 2:
        raise BadInputError("addmm takes two matrices, and a third tensor to add")
    result = build_product_spec(first, second, (False, False), call.memory, dtype)
    if added.shape != result.shape or any(not s.is_tiled for s in call.inputs) or len(call.inputs) > 3:
        return plan.unknown("addmm of row-major tensors, or with a first tensor of another shape than the result")
    if first.shard is None and second.shard is None:
        check_product(plan, first, second, result, (False, False))
        slot, result, _ = multiply(plan, first, second, result, (False, False), sums=read_sums(call, result))
    else:
        plain = {**call.arguments, **dict.fromkeys(_ONLY_OF_PRODUCTS)}
        made = matmul(replace(call, name="matmul", inputs=(first, second), arguments=plain), plan)
        if not made.results:
            return made
        ((slot, result),) = made.results
    if (alpha, beta) != (1.0, 1.0) and (result.shard or added.shard or added.dtype is not result.dtype):
        return plan.unknown("addmm with factors, sharded or with several types")
    if alpha != 1.0:
        plan.launch(list_streams(_TIMES_NUMBER, [result], result), CIRCULAR)
    if beta == 0.0:
        return plan.finish(slot, result)
    cast = 0
    if beta != 1.0:
        cast = plan.allocate(added)
        plan.launch(list_streams(_TIMES_NUMBER, [added], added), CIRCULAR)
    elif added.dtype is not result.dtype:
        ((cast, added),) = typecast(Call("typecast", (added,), {"dtype": result.dtype.name}), plan).results
    plan.launch(double_buffered_tiles(result, added, result), CIRCULAR)
    plan.free(cast)
    return plan.finish(slot, result)


_TIMES_NUMBER = BinaryKind("MUL")
_ONLY_OF_PRODUCTS = ("program_config", "transpose_a", "transpose_b", "activation", "core_grid")


RECORDS = (
    build_record(
        format_call("addmm", [{**EXAMPLE_TENSOR, "shape": [64, 64]}] * 3),
        addmm,
        Argument("alpha", default=1.0),
        Argument("beta", default=1.0),
        *PRODUCT_ARGUMENTS,
        family="matmul",
        verified_with_shards=False,
    ),
)
