# SPDX-License-Identifier: Apache-2.0
"""Operations that look at one element at a time: unary, binary, typecast, clone."""

from dataclasses import replace

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.plan import BOUNDED, Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import BFLOAT16, DATA_TYPES, DataType, Memory
from ttmem.tensors import TILE, InvalidSpecError, Shard, TensorSpec, paging_of, round_up

_NO_ROWS_IN_PLACE = "Optional output tensor with Row Major input is not supported right now for Elementwise operations"


def result_like(spec: TensorSpec, memory: Memory | None = None, dtype: DataType | None = None) -> TensorSpec:
    """The spec of a result: as its input, unless the caller asked for another memory or type."""
    sharded = spec.shard if memory is None else None
    return replace(spec, memory=memory or spec.memory, dtype=dtype or spec.dtype, shard=sharded)


def double_buffered_tiles(*specs: TensorSpec) -> list[int]:
    """Two tiles per stream, in tile bytes even when the tensors are row-major."""
    return [2 * spec.dtype.tile_bytes(spec.tile) for spec in specs]


def double_buffered_rows(plan: PlanWriter, paged: TensorSpec, *specs: TensorSpec) -> list[int]:
    """Two pages of a row-major tensor, aligned for the memories of all that take part."""
    alignment = max(plan.memory_map.page_alignment_bytes(spec.memory) for spec in specs)
    return [2 * round_up(paging_of(paged).page_bytes, alignment)]


def unary(call: Call, plan: PlanWriter) -> Plan:
    """One input, one result of the same shape: two tiles in, two tiles out."""
    source = call.inputs[0]
    result = result_like(source, call.memory)
    if result.shard is None:
        return plan.one_program(result, double_buffered_tiles(source, result))
    # Both streams borrow the shards where these are even.
    return plan.one_program(
        result, [], at_least="" if has_even_shards(source) else "elementwise on uneven or row-major shards"
    )


def has_even_shards(spec: TensorSpec) -> bool:
    """Every core of the grid holds one full shard of tiles: only then do kernels work on the shards in place."""
    shard = spec.shard
    if not isinstance(shard, Shard) or spec.layout is not TILE:
        return False
    paging = paging_of(spec)
    if paging.physical_height % shard.height or paging.physical_width % shard.width:
        return False
    return (paging.physical_height // shard.height) * (paging.physical_width // shard.width) == shard.cores


def typecast(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    result = result_like(source, call.memory, DATA_TYPES.find(str(call.arguments["dtype"])))
    if result.shard is not None:
        return plan.one_program(result, [], at_least="typecast of shards")
    return plan.one_program(result, double_buffered_tiles(source, result))


def cast(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> int:
    """The typecast that other operations insert around themselves."""
    slot = plan.allocate(result)
    plan.launch(double_buffered_tiles(source, result))
    return slot


def clone(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    result = result_like(source, call.memory)
    if source.shard is not None:
        return plan.one_program(result, [], at_least="clone of shards")
    if source.layout is TILE:
        return plan.one_program(result, double_buffered_tiles(source))
    return plan.one_program(result, double_buffered_rows(plan, source, source))


def broadcast_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(first), len(second))
    one = (1,) * (rank - len(first)) + first
    two = (1,) * (rank - len(second)) + second
    for a, b in zip(one, two, strict=True):
        if a != b and 1 not in (a, b):
            raise BadInputError(f"shapes {list(first)} and {list(second)} cannot be broadcast")
    return tuple(max(a, b) if 0 not in (a, b) else 0 for a, b in zip(one, two, strict=True))


def _on_shards(plan: PlanWriter, static: list[int], *specs: TensorSpec) -> Plan:
    """Streams borrow the shards when all tensors, the result the last of them, are cut alike."""
    alike = all(spec.shard == specs[0].shard and spec.shape == specs[0].shape for spec in specs)
    if alike and has_even_shards(specs[0]) and all(spec.dtype is specs[0].dtype for spec in specs):
        return plan.one_program(specs[-1], static, CIRCULAR)
    return plan.one_program(specs[-1], [], CIRCULAR, at_least="shards of different shape, or uneven ones")


def binary(call: Call, plan: PlanWriter) -> Plan:
    """Two tensors, or a tensor and a number. A broadcast inside the last two dimensions needs one more stream."""
    first = call.inputs[0]
    if call.in_place and len(call.inputs) > 1 and any(spec.layout is not TILE for spec in call.inputs):
        raise InvalidSpecError(_NO_ROWS_IN_PLACE)
    if call.name in ("divide", "div") and not first.dtype.is_float:
        plan.doubt(BOUNDED, "division of integers converts its inputs first")
    if call.arguments.get("rounding_mode") is not None:
        plan.doubt(BOUNDED, "a division that rounds is followed by another operation")
    if len(call.inputs) == 1:
        if not first.dtype.is_float:
            plan.doubt(BOUNDED, "an integer tensor and a number may be converted first")
        result = result_like(first, call.memory)
        # The number travels as one tile; block floats take it as bfloat16.
        number = BFLOAT16 if first.dtype.is_block_float else first.dtype
        number_bytes = number.tile_bytes(first.tile)
        if first.shard is not None:
            return _on_shards(plan, [number_bytes], first, result)
        before, after = double_buffered_tiles(first, result)
        return plan.one_program(result, [before, number_bytes, after], CIRCULAR)
    second = call.inputs[1]
    shape = broadcast_shape(first.shape, second.shape)
    result = replace(result_like(first, call.memory), shape=shape)
    if first.shard is not None or second.shard is not None:
        return _on_shards(plan, [], first, second, result)
    streams = double_buffered_tiles(first, second, result)
    tail = [(1, 1, *spec.shape)[-2:] for spec in (first, second)]
    if tail[0] != tail[1]:
        streams += double_buffered_tiles(first)
    mixed = "the two inputs have different data types" if first.dtype is not second.dtype else ""
    return plan.one_program(result, streams, CIRCULAR, at_least=mixed)


def _draw_unary(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.tensor(choose) if choose.integer(0, 3) else draws.sharded_tensor(choose)
    placed, named = draws.options(record, choose)
    if not choose.integer(0, 5):
        return write_call(record.name, [source], *placed, in_place=True, **named)
    return write_call(record.name, [source], *placed, memory=draws.wish(choose), **named)


def _draw_binary(record: OperationRecord, choose: Choose) -> list[Step]:
    _, named = draws.options(record, choose)
    if not choose.integer(0, 4):
        first = draws.sharded_tensor(choose)
        if choose.integer(0, 1):
            return write_call(record.name, [first, first], **named)
        return write_call(record.name, [first], 2.0)
    first = draws.tensor(choose)
    wish = draws.wish(choose)
    if not choose.integer(0, 3):
        return write_call(record.name, [first], 2.0, memory=wish, **named)
    shape = [size if choose.integer(0, 2) else 1 for size in first["shape"]]
    shorter = choose.integer(0, 1) if len(shape) > 2 else 0
    second = {**first, "shape": shape[shorter:], "memory": choose.one_of(draws.MEMORIES)}
    form = choose.integer(0, 9)
    if form == 0 and not named:
        return write_call(record.name, [first, second], in_place=True)
    if form == 1 and record.has_in_place_form and not named:
        return write_call(f"{record.name}_", [first, second])
    return write_call(record.name, [first, second] if choose.integer(0, 1) else [second, first], memory=wish, **named)


def _draw_typecast(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.tensor(choose, integers=True)
    targets = ("bfloat16", "float32", "uint32", "int32", *(["bfloat8_b"] if source["layout"] == "tile" else []))
    return write_call(record.name, [source], {"dtype": choose.one_of(targets)}, memory=draws.wish(choose))


def _draw_clone(record: OperationRecord, choose: Choose) -> list[Step]:
    return write_call(record.name, [draws.tensor(choose, integers=True)], memory=draws.wish(choose))


def _unary_record(name: str, *arguments: Argument) -> OperationRecord:
    placed = [argument.samples[0] for argument in arguments if argument.position is not None]
    example = write_call(name, [EXAMPLE_TENSOR], *placed)
    return record_of(example, unary, _draw_unary, *arguments, family="unary", is_sized_by_elements=lambda spec: True)


def _binary_record(name: str, *arguments: Argument) -> OperationRecord:
    return record_of(
        write_call(name, [EXAMPLE_TENSOR] * 2),
        binary,
        _draw_binary,
        Argument("other", 0, None),
        *arguments,
        family="binary",
        draw_bounded=_draw_binary if arguments else None,
        is_sized_by_elements=lambda spec: True,
        has_in_place_form=True,
    )


_PLAIN_UNARY = (
    "abs exp hardsigmoid hardswish identity log mish neg reciprocal relu relu6 rsqrt sigmoid sign silu sqrt square tanh"
)
RECORDS = (
    *map(_unary_record, _PLAIN_UNARY.split()),
    _unary_record("gelu", Argument("fast_and_approximate_mode", default=False, samples=(False, True))),
    _unary_record("hardtanh", *(Argument(name, default=None, samples=(0.5,)) for name in ("min_val", "max_val"))),
    _unary_record("leaky_relu", Argument("negative_slope", 0, samples=(0.1,))),
    _unary_record("softplus", *(Argument(name, default=None, samples=(1.0, 20.0)) for name in ("beta", "threshold"))),
    *map(_binary_record, ("add", "subtract", "multiply", "divide", "sub", "mul")),
    _binary_record("div", Argument("rounding_mode", default=None, samples=("floor", "trunc"))),
    record_of(
        write_call("typecast", [EXAMPLE_TENSOR], {"dtype": "bfloat8_b"}), typecast, _draw_typecast, Argument("dtype", 0)
    ),
    # The static buffers of row-major clones are as wide as their rows.
    record_of(
        write_call("clone", [EXAMPLE_TENSOR]), clone, _draw_clone, is_sized_by_elements=lambda spec: spec.layout is TILE
    ),
)
