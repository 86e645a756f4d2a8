# SPDX-License-Identifier: Apache-2.0
"""Matmul and linear. Without a program config the library chooses one (``matmul_blocks``)."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import DATA_TYPES, DRAM, FLOAT32, DataType, Memory
from ttmem.hardware.boards import Grid
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import broadcast_shape, double_buffered_tiles, dtype_name, spec_like
from ttmem.twin.operations.matmul_blocks import (
    COLUMN,
    SIMPLE,
    Sums,
    build_product,
    choose_blocks,
    compute_buffers,
    transpose_shape,
)
from ttmem.twin.operations.matmul_configs import (
    Config,
    ConfiguredProduct,
    UnknownConfigError,
    choose_grid_config,
    choose_sharded_config,
    count_register_tiles,
    describe_unequal_batches,
    describe_unequal_ranks,
    read_config,
    read_grid,
)
from ttmem.twin.operations.matmul_program_config import (
    can_add_bias,
    can_fuse_bias,
    describe_unequal_widths,
    is_scalar_bias,
    launch_configured,
)
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle
from ttmem.twin.operations.record import KERNEL_CONFIG, Argument, has_float32_sums
from ttmem.twin.operations.reshape import is_view, reshape
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import TILE, NdShard, Shard, TensorSpec

_PLAIN_ACTIVATIONS = ("relu", "gelu", "silu", "sigmoid", "tanh", "exp", "sqrt", "relu6", "mish", "hardswish")
Transposed = tuple[bool, bool]
"""Flags for the first and the second input: multiplied as if transposed."""


def matmul(call: Call, plan: PlanBuilder) -> Plan:
    """Multiply; then add the bias and apply the activation, if the program does not do so itself."""
    first, second = call.inputs[:2]
    bias = call.tensor("bias", 2) if call.name == "linear" else None
    transposed = bool(call.arguments["transpose_a"]), bool(call.arguments["transpose_b"])
    if not first.shape or not second.shape:
        raise BadInputError("ttnn.matmul: Both arguments to matmul need to be at least 1D")
    if len(first.shape) == 1 or len(second.shape) == 1:
        return _multiply_vector(call, plan, has_more=bias is not None or any(transposed))
    if bias is not None and len(bias.shape) < 2:
        bias = replace(bias, shape=(1, *bias.shape)) if bias.shape else replace(bias, shape=(1, 1))
    wanted = call.arguments["dtype"]
    dtype = first.dtype if wanted is None else DATA_TYPES.find(str(wanted))
    result = build_product_spec(first, second, transposed, call.memory, dtype)
    config = call.arguments["program_config"]
    if call.arguments["core_grid"] is not None and config is None:
        return _multiply_configured(call, plan, result, bias)
    if config is not None or call.shard is not None or any(spec.shard is not None for spec in call.inputs):
        return _multiply_configured(call, plan, result, bias)
    check_product(plan, first, second, result, transposed)
    slot, result, copies = multiply(plan, first, second, result, transposed, bias, read_sums(call, result))
    activation = call.arguments["activation"]
    if activation is not None:
        if activation not in _PLAIN_ACTIVATIONS:
            return plan.unknown(f"the activation {activation} inside {call.name}")
        slot = _replace_result(plan, slot, result, double_buffered_tiles(result, result))
    plan.free(*copies)
    return plan.finish(slot, result)


def _multiply_vector(call: Call, plan: PlanBuilder, *, has_more: bool) -> Plan:
    """Multiply by a 1-D input: the first is used as a row; the second is reshaped to a column, and the result back."""
    first, second = call.inputs[:2]
    if has_more or len(first.shape) == len(second.shape) or call.arguments["program_config"] is not None:
        return plan.unknown("products of 1-D inputs with more than an activation")
    if call.shard or any(s.shard or s.dtype.is_block_float for s in (first, second)) or call.arguments["core_grid"]:
        return plan.unknown("products of 1-D inputs in shards, of block floats, or on a grid of cores")
    if len(first.shape) == 1:
        row = replace(first, shape=(1, *first.shape))
        made = matmul(replace(call, inputs=(row, second)), plan)
        return made.reshape_result((*second.shape[:-2], second.shape[-1])) if made.results else made
    if call.arguments["activation"] is not None or call.arguments["dtype"] is not None:
        return plan.unknown("products with a 1-D second input and an activation, or in another type")
    column = plan.apply(reshape, TensorHandle(-2, second), shape=(*second.shape, 1))
    result = build_product_spec(first, column.spec, (False, False), call.memory, first.dtype)
    check_product(plan, first, column.spec, result, (False, False))
    slot, result, _ = multiply(plan, first, column.spec, result, (False, False), sums=read_sums(call, result))
    flat = plan.apply(reshape, TensorHandle(slot, result), shape=first.shape[:-1])
    if flat.slot != slot:
        plan.free(slot)
    plan.free(column.slot)
    return plan.finish(flat.slot, flat.spec)


def build_product_spec(
    first: TensorSpec, second: TensorSpec, transposed: Transposed, memory: Memory | None, dtype: DataType
) -> TensorSpec:
    """Return the result's spec, in DRAM unless the caller gives a memory."""
    one, two = (transpose_shape(spec.shape, turned) for spec, turned in zip((first, second), transposed, strict=True))
    outer, other = one[:-2], two[:-2]
    if len(outer) < len(other):
        if set(other[: len(other) - len(outer)]) != {1}:
            raise BadInputError("When in1 rank greater than in0 rank front dimensions need to be 1")
        outer = (*other[: len(other) - len(outer)], *outer)
    elif len(outer) == len(other):
        outer = tuple(b if a == 1 else a for a, b in zip(outer, other, strict=True))
    shape = (*outer, one[-2], two[-1])
    return replace(spec_like(first, memory or DRAM, dtype), shape=shape, layout=TILE, shard=None)


def check_product(
    plan: PlanBuilder, first: TensorSpec, second: TensorSpec, result: TensorSpec, transposed: Transposed
) -> None:
    """Check the inputs as the library does once the result is allocated."""
    depth, other = first.shape[-2 if transposed[0] else -1], second.shape[-1 if transposed[1] else -2]
    why = ""
    if depth != other:
        why = (
            "The width of the first tensor must be equal to the height of the second tensor. "
            f"Mismatch: width={depth} height={other}"
        )
    elif not first.is_tiled or not second.is_tiled:
        why = "Inputs to matmul must be tilized"
    elif not first.dtype.is_float:
        why = f"Unsupported data format for input A: {dtype_name(first.dtype)}"
    if why:
        plan.allocate(result)
        plan.refuse(why)


def multiply(
    plan: PlanBuilder,
    first: TensorSpec,
    second: TensorSpec,
    result: TensorSpec,
    transposed: Transposed,
    bias: TensorSpec | None = None,
    sums: Sums | None = None,
) -> tuple[int, TensorSpec, list[int]]:
    """Multiply with blocks that the library chooses.

    Return the slot of the result, its spec with the bias, and the temporaries that are freed when the operation ends.
    """
    is_fused = bias is not None and _can_fuse_bias(bias, first, second, result)
    grid, sums = plan.memory_map.grid, sums or _choose_default_sums(result)

    def choose(added: TensorSpec | None) -> tuple[str, list[int]]:
        work = build_product(first, second, result, transposed=transposed, bias=added, sums=sums)
        blocks = choose_blocks(work, grid.columns, grid.rows, plan.l1_space())
        return blocks.kind, compute_buffers(work, blocks, plan.memory_map.architecture.dram_alignment_bytes)

    copies: list[int] = []
    as_given = first, second
    if any(transposed) and choose(bias)[0] == SIMPLE:
        # The simple program reads its inputs as stored: they are transposed first, and the choice is made again. The
        # first choice counts the bias even where the library adds it later.
        first, second = (
            _copy_transposed(plan, spec, copies) if turned else spec
            for spec, turned in zip((first, second), transposed, strict=True)
        )
        transposed = False, False
    kind, buffers = choose(bias if is_fused else None)
    slot = plan.allocate(result)
    if prod(second.shape[:-2]) > 1:
        _check_batches(plan, first, second, kind)
    if bias is not None and is_fused:
        _check_width(plan, bias, result)
    plan.launch(buffers)
    if bias is not None and not is_fused:
        slot, result = _add_bias(plan, slot, result, bias)
    elif bias is not None:
        result = _reshape_result(plan, result, broadcast_shape(result.shape, bias.shape))
    if copies and bias is not None:
        result = _reshape_untransposed(plan, as_given, result, bias)
    return slot, result, copies[::-1]


def read_sums(call: Call, result: TensorSpec) -> Sums:
    config = call.arguments["compute_kernel_config"]
    if config is None:
        return _choose_default_sums(result)
    return Sums(has_float32_sums(call), bool(config.get("packer_l1_acc")))


def _choose_default_sums(result: TensorSpec) -> Sums:
    return Sums(result.dtype is FLOAT32, in_l1=True)


def _check_batches(plan: PlanBuilder, first: TensorSpec, second: TensorSpec, kind: str) -> None:
    """Refuse batches of the second input that do not match the first, unless the program keeps a single first one."""
    if len(first.shape) != len(second.shape):
        plan.refuse(describe_unequal_ranks(first.shape, second.shape))
    one, two = first.shape[:-2], second.shape[:-2]
    if one == two or (prod(one) == 1 and kind == COLUMN):
        return
    plan.refuse(describe_unequal_batches(one, two))


def _can_fuse_bias(bias: TensorSpec, first: TensorSpec, second: TensorSpec, result: TensorSpec) -> bool:
    """Return whether the program can add the bias: one row of tiles, no batches, everything in DRAM."""
    is_batched = any(size > 1 for spec in (bias, second) for size in spec.shape[:-2])
    is_row = bias.shape[-2] <= 32 and not is_scalar_bias(bias, result.shape[-1])
    return not is_batched and is_row and {s.memory for s in (first, second, result)} == {DRAM}


def _check_width(plan: PlanBuilder, bias: TensorSpec, result: TensorSpec) -> None:
    """Refuse a fused bias that is not as wide in tiles as the result."""
    own, wanted = (round_up(spec.shape[-1], 32) for spec in (bias, result))
    if own != wanted:
        plan.refuse(describe_unequal_widths(own, wanted))


def _reshape_result(plan: PlanBuilder, result: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    """Reshape the product to its shape with the bias, as the library does."""
    if is_view(result, shape):
        tiles, there = (prod(sizes[:-2]) * ceil_div(sizes[-2], 32) for sizes in (shape, result.shape))
        if tiles > there:
            plan.refuse("MeshBuffer must be large enough to hold the tensor.")
        if tiles < there:
            plan.estimate("a view of the result that is smaller than the result")
    elif prod(shape) != prod(result.shape) and (result.dtype.is_block_float or shape[-1] == result.shape[-1]):
        raise ValueError("a view of the result with another number of elements")
    elif prod(shape) != prod(result.shape):
        plan.refuse("Attempting to reshape between two shapes with different volumes")
    elif shape != result.shape:
        plan.estimate("a reshape to the shape of inputs that were transposed")
    return replace(result, shape=shape)


def _reshape_untransposed(
    plan: PlanBuilder, as_given: tuple[TensorSpec, TensorSpec], result: TensorSpec, bias: TensorSpec
) -> TensorSpec:
    """Reshape as the library does after it transposed its inputs: to a shape computed from the original inputs."""
    first, second = as_given
    believed = build_product_spec(first, second, (False, False), None, result.dtype).shape
    rank = max(len(believed), len(bias.shape))
    one, two = ((1,) * (rank - len(shape)) + shape for shape in (believed, bias.shape))
    if any(a != b and 1 not in (a, b) for a, b in zip(one, two, strict=True)):
        plan.refuse("Broadcast error: Invalid dimension")
    return _reshape_result(plan, result, tuple(map(max, one, two)))


def _copy_transposed(plan: PlanBuilder, spec: TensorSpec, copies: list[int]) -> TensorSpec:
    turned = replace(spec, shape=transpose_shape(spec.shape))
    copies.append(plan.allocate(turned))
    plan.launch(double_buffered_tiles(spec, turned))
    return turned


def _add_bias(plan: PlanBuilder, slot: int, result: TensorSpec, bias: TensorSpec) -> tuple[int, TensorSpec]:
    """Add the bias into a new buffer."""
    added = replace(result, shape=broadcast_shape(result.shape, bias.shape))
    streams = double_buffered_tiles(result, bias, added)
    if result.shape[-2:] != bias.shape[-2:]:
        streams += double_buffered_tiles(bias if bias.shape[-2:] != added.shape[-2:] else result)
    return _replace_result(plan, slot, added, streams, CIRCULAR), added


def _replace_result(
    plan: PlanBuilder, slot: int, result: TensorSpec, buffers: list[int], family: str | None = None
) -> int:
    """Allocate the next operation's result, launch it and free its input."""
    after = plan.allocate(result)
    plan.launch(buffers, *([family] if family else []))
    plan.free(slot)
    return after


def _multiply_configured(call: Call, plan: PlanBuilder, result: TensorSpec, bias: TensorSpec | None) -> Plan:
    """Multiply with the caller's config; unknown configs give a lower bound."""
    try:
        given = call.arguments["program_config"]
        if given is None and isinstance(call.inputs[0].shard, Shard):
            return _multiply_with_config(
                call, plan, result, bias, _choose_sharded_config(call, plan, result, call.inputs[0].shard)
            )
        if call.arguments["core_grid"] is None:
            return _multiply_with_config(call, plan, result, bias, read_config(given or {}))
        return _multiply_with_config(call, plan, result, bias, _choose_grid_config(call, plan, result, bias))
    except UnknownConfigError as unknown:
        why = f"this program config or these shards are not verified ({unknown})"
        if call.shard is not None:  # the config decides the result's shards, not the caller
            return plan.unknown(why)
        first, second = call.inputs[:2]
        smallest = sum(spec.tile_bytes for spec in (first, second, result) if spec.shard is None)
        plan.estimate(why)
        return plan.finish_with_program(result, [smallest] if smallest else [])


def _choose_sharded_config(call: Call, plan: PlanBuilder, result: TensorSpec, shard: Shard) -> Config:
    first, second = call.inputs[:2]
    if len(call.inputs) > 2 or call.arguments["transpose_a"] or call.arguments["transpose_b"]:
        raise UnknownConfigError("shards with a bias or a transposed input")
    if any(not spec.is_tiled for spec in (first, second)) or second.shard is not None:
        raise UnknownConfigError("row-major shards, or a second input in shards")
    work = build_product(first, second, result, transposed=(False, False), bias=None, sums=read_sums(call, result))
    grid = _choose_grid(call, plan)
    return choose_sharded_config(work, shard, grid, cuts_result=call.shard is not None, space=plan.l1_space())


def _choose_grid(call: Call, plan: PlanBuilder) -> Grid:
    """Return the caller's cores; more than the chip has mean all."""
    chip = plan.memory_map.grid
    if call.arguments["core_grid"] is None:
        return chip
    wanted = Grid(*read_grid(call.arguments["core_grid"]))
    return wanted if wanted.columns <= chip.columns and wanted.rows <= chip.rows else chip


def _choose_grid_config(call: Call, plan: PlanBuilder, result: TensorSpec, bias: TensorSpec | None) -> Config:
    """Build the config that the library makes for the caller's cores."""
    first, second = call.inputs[:2]
    if call.arguments["program_config"] is not None or call.shard is not None or any(s.shard for s in call.inputs):
        raise UnknownConfigError("a core_grid with a program config or with shards")
    turned = bool(call.arguments["transpose_a"]), bool(call.arguments["transpose_b"])
    check_product(plan, first, second, result, turned)
    grid = _choose_grid(call, plan)
    added = bias if bias is not None and can_add_bias(bias, second, result.shape[-1]) else None
    work = build_product(first, second, result, transposed=turned, bias=added, sums=read_sums(call, result))
    if work.second_batch > 1 and call.arguments["activation"] is not None:
        plan.refuse("Cannot use activation with batched input b")
    return choose_grid_config(work, grid, plan.l1_space())


def _multiply_with_config(
    call: Call, plan: PlanBuilder, result: TensorSpec, bias: TensorSpec | None, config: Config
) -> Plan:
    first, second = call.inputs[:2]
    turned = bool(call.arguments["transpose_a"]), bool(call.arguments["transpose_b"])
    wished = call.shard
    if isinstance(wished, NdShard):
        raise UnknownConfigError("a result in ND shards")
    activation = call.arguments["activation"]
    is_sharded = wished is not None or any(spec.shard is not None for spec in call.inputs)
    if is_sharded and (bias is not None or any(turned) or activation is not None):
        raise UnknownConfigError("shards with a bias, an activation or a transposed input")
    if activation is not None and activation not in _PLAIN_ACTIVATIONS:
        raise UnknownConfigError(f"the activation {activation}")
    sums = read_sums(call, result)
    kernel_config = call.arguments["compute_kernel_config"]
    shapes = [transpose_shape(spec.shape, turn) for spec, turn in zip((first, second), turned, strict=True)]
    registers = count_register_tiles(kernel_config, in_float32=sums.in_float32)
    work = ConfiguredProduct(config, first, second, None, shapes[0], shapes[1], turned[0], registers)
    check_product(plan, first, second, result, turned)
    is_made_for_grid = call.arguments["core_grid"] is not None
    by_program = can_add_bias(bias, second, work.second_shape[-1]) if bias is not None and is_made_for_grid else None
    is_fused = bias is not None and (can_fuse_bias(work, bias) if by_program is None else by_program)
    if is_fused:
        work = replace(work, bias=bias)
    slot, result = launch_configured(plan, work, result, wished, sums)
    adds_later = bias is not None and not is_fused
    if bias is not None and adds_later:
        slot, result = _add_bias(plan, slot, result, bias)
    elif bias is not None:
        result = _reshape_result(plan, result, broadcast_shape(result.shape, bias.shape))
    if activation is not None and (adds_later or not is_made_for_grid):
        slot = _replace_result(plan, slot, result, double_buffered_tiles(result, result))
    return plan.finish(slot, result)


PRODUCT_ARGUMENTS = (Argument("dtype", default=None), KERNEL_CONFIG)

RECORDS = (
    *(
        build_record(
            format_call(name, [EXAMPLE_TENSOR] * 2),
            matmul,
            Argument("program_config", default=None),
            Argument("transpose_a", default=False),
            Argument("transpose_b", default=False),
            Argument("activation", default=None),
            Argument("core_grid", default=None),
            *PRODUCT_ARGUMENTS,
            family="matmul",
            verified_low_rank_and_rare_types=True,
        )
        for name in ("matmul", "linear")
    ),
)
