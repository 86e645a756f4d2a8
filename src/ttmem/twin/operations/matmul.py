# SPDX-License-Identifier: Apache-2.0
"""Products of matrices: matmul and linear. Without a program config the library chooses one (``matmul_blocks``)."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import DATA_TYPES, DRAM, FLOAT32, DataType, Memory
from ttmem.hardware.boards import Grid
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import broadcast_shape, double_buffered_tiles, dtype_name, spec_like
from ttmem.twin.operations.matmul_blocks import COLUMN, SIMPLE, Sums, choose_blocks, product_of, static_buffers
from ttmem.twin.operations.matmul_configs import (
    Config,
    Configured,
    UnknownConfigError,
    config_of,
    grid_of_cores,
    register_tiles,
    unequal_batches,
    unequal_ranks,
)
from ttmem.twin.operations.matmul_grids import config_for, config_of_shards
from ttmem.twin.operations.matmul_program_config import (
    adds_bias_itself,
    configured_product,
    fuses_bias,
    is_one_number,
    unequal_widths,
)
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle, apply
from ttmem.twin.operations.record import KERNEL_CONFIG, Argument, has_float32_sums
from ttmem.twin.operations.reshape import is_view, reshape
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import TILE, NdShard, Shard, TensorSpec

_PLAIN_ACTIVATIONS = ("relu", "gelu", "silu", "sigmoid", "tanh", "exp", "sqrt", "relu6", "mish", "hardswish")
Transposed = tuple[bool, bool]
"""Whether the first and the second input are multiplied as if transposed."""


def matmul(call: Call, plan: PlanBuilder) -> Plan:
    """The product, then what the program could not do by itself: the bias, the activation."""
    first, second = call.inputs[:2]
    bias = call.tensor("bias", 2) if call.name == "linear" else None
    transposed = bool(call.arguments["transpose_a"]), bool(call.arguments["transpose_b"])
    if not first.shape or not second.shape:
        raise BadInputError("ttnn.matmul: Both arguments to matmul need to be at least 1D")
    if len(first.shape) == 1 or len(second.shape) == 1:
        return _with_a_row(call, plan, has_more=bias is not None or any(transposed))
    if bias is not None and len(bias.shape) < 2:
        bias = replace(bias, shape=(1, *bias.shape)) if bias.shape else replace(bias, shape=(1, 1))
    wanted = call.arguments["dtype"]
    dtype = first.dtype if wanted is None else DATA_TYPES.find(str(wanted))
    result = product_spec(first, second, transposed, call.memory, dtype)
    config = call.arguments["program_config"]
    if call.arguments["core_grid"] is not None and config is None:
        return _configured(call, plan, result, bias)
    if config is not None or call.shard is not None or any(spec.shard is not None for spec in call.inputs):
        return _configured(call, plan, result, bias)
    check_product(plan, first, second, result, transposed)
    slot, result, copies = product(plan, first, second, result, transposed, bias, sums_of(call, result))
    activation = call.arguments["activation"]
    if activation is not None:
        if activation not in _PLAIN_ACTIVATIONS:
            return plan.unknown(f"the activation {activation} inside {call.name}")
        slot = _replaced(plan, slot, result, double_buffered_tiles(result, result))
    plan.free(*copies)
    return plan.finish(slot, result)


def _with_a_row(call: Call, plan: PlanBuilder, *, has_more: bool) -> Plan:
    """A first input of one dimension is a row; a second one is made a column, and the result is laid down again."""
    first, second = call.inputs[:2]
    if has_more or len(first.shape) == len(second.shape) or call.arguments["program_config"] is not None:
        return plan.unknown("products of single rows with more than an activation")
    if call.shard or any(s.shard or s.dtype.is_block_float for s in (first, second)) or call.arguments["core_grid"]:
        return plan.unknown("products of single rows in shards, of block floats, or on a grid of cores")
    if len(first.shape) == 1:
        row = replace(first, shape=(1, *first.shape))
        made = matmul(replace(call, inputs=(row, second)), plan)
        return made.reshape_result((*second.shape[:-2], second.shape[-1])) if made.results else made
    if call.arguments["activation"] is not None or call.arguments["dtype"] is not None:
        return plan.unknown("products with a single column and an activation, or in another type")
    column = apply(plan, reshape, TensorHandle(-2, second), shape=(*second.shape, 1))
    result = product_spec(first, column.spec, (False, False), call.memory, first.dtype)
    check_product(plan, first, column.spec, result, (False, False))
    slot, result, _ = product(plan, first, column.spec, result, (False, False), sums=sums_of(call, result))
    flat = apply(plan, reshape, TensorHandle(slot, result), shape=first.shape[:-1])
    if flat.slot != slot:
        plan.free(slot)
    plan.free(column.slot)
    return plan.finish(flat.slot, flat.spec)


def product_spec(
    first: TensorSpec, second: TensorSpec, transposed: Transposed, memory: Memory | None, dtype: DataType
) -> TensorSpec:
    """Without a wish the result goes to DRAM, whatever the inputs."""
    one, two = (
        (*spec.shape[:-2], spec.shape[-1], spec.shape[-2]) if turned else spec.shape
        for spec, turned in zip((first, second), transposed, strict=True)
    )
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
    """What the library looks at once the result is there."""
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


def product(
    plan: PlanBuilder,
    first: TensorSpec,
    second: TensorSpec,
    result: TensorSpec,
    transposed: Transposed,
    bias: TensorSpec | None = None,
    sums: Sums | None = None,
) -> tuple[int, TensorSpec, list[int]]:
    """The steps of a product whose blocks the library chooses.

    Gives the slot of the result, its spec with the bias, and the temporaries that live on until the operation ends.
    """
    is_fused = bias is not None and _fuses(bias, first, second, result)
    grid, sums = plan.memory_map.grid, sums or _usual_sums(result)

    def choice(added: TensorSpec | None) -> tuple[str, list[int]]:
        work = product_of(first, second, result, transposed=transposed, bias=added, sums=sums)
        blocks = choose_blocks(work, grid.columns, grid.rows, plan.l1_space())
        return blocks.kind, static_buffers(work, blocks, plan.memory_map.architecture.dram_alignment_bytes)

    copies: list[int] = []
    as_given = first, second
    if any(transposed) and choice(bias)[0] == SIMPLE:
        # The simple program reads its inputs as they lie: they are transposed first, and the choice is made again. To
        # find out the library reckons with the bias even where it adds that later.
        first, second = (
            _turned_copy(plan, spec, copies) if turned else spec
            for spec, turned in zip((first, second), transposed, strict=True)
        )
        transposed = False, False
    kind, buffers = choice(bias if is_fused else None)
    slot = plan.allocate(result)
    if prod(second.shape[:-2]) > 1:
        _check_batches(plan, first, second, kind)
    if bias is not None and is_fused:
        _check_width(plan, bias, result)
    plan.launch(buffers)
    if bias is not None and not is_fused:
        slot, result = _with_bias(plan, slot, result, bias)
    elif bias is not None:
        result = _laid_out(plan, result, broadcast_shape(result.shape, bias.shape))
    if copies and bias is not None:
        result = _forgetting_transposes(plan, as_given, result, bias)
    return slot, result, copies[::-1]


def sums_of(call: Call, result: TensorSpec) -> Sums:
    config = call.arguments["compute_kernel_config"]
    if config is None:
        return _usual_sums(result)
    return Sums(has_float32_sums(call), bool(config.get("packer_l1_acc")))


def _usual_sums(result: TensorSpec) -> Sums:
    return Sums(result.dtype is FLOAT32, in_l1=True)


def _check_batches(plan: PlanBuilder, first: TensorSpec, second: TensorSpec, kind: str) -> None:
    """Batches of the second input need as many of the first, or a program that keeps a single first one."""
    if len(first.shape) != len(second.shape):
        plan.refuse(unequal_ranks(first.shape, second.shape))
    one, two = first.shape[:-2], second.shape[:-2]
    if one == two or (prod(one) == 1 and kind == COLUMN):
        return
    plan.refuse(unequal_batches(one, two))


def _fuses(bias: TensorSpec, first: TensorSpec, second: TensorSpec, result: TensorSpec) -> bool:
    """Whether the program adds the bias: one row of tiles, no batches, and everything in DRAM."""
    is_batched = any(size > 1 for spec in (bias, second) for size in spec.shape[:-2])
    is_row = bias.shape[-2] <= 32 and not is_one_number(bias, result.shape[-1])
    return not is_batched and is_row and {s.memory for s in (first, second, result)} == {DRAM}


def _check_width(plan: PlanBuilder, bias: TensorSpec, result: TensorSpec) -> None:
    """A bias that the program itself adds has as many tiles as the result is wide."""
    own, wanted = (round_up(spec.shape[-1], 32) for spec in (bias, result))
    if own != wanted:
        plan.refuse(unequal_widths(own, wanted))


def _laid_out(plan: PlanBuilder, result: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    """The product under the shape that it has with its bias, which the library asks a reshape for."""
    if is_view(result, shape):
        tiles, there = (prod(sizes[:-2]) * ceil_div(sizes[-2], 32) for sizes in (shape, result.shape))
        if tiles > there:
            plan.refuse("MeshBuffer must be large enough to hold the tensor.")
        if tiles < there:
            plan.estimate("a result that is seen as smaller than it is")
    elif prod(shape) != prod(result.shape) and (result.dtype.is_block_float or shape[-1] == result.shape[-1]):
        raise ValueError("a result that is seen as more or less than it is")
    elif prod(shape) != prod(result.shape):
        plan.refuse("Attempting to reshape between two shapes with different volumes")
    elif shape != result.shape:
        plan.estimate("a reshape to the shape of inputs that were transposed")
    return replace(result, shape=shape)


def _forgetting_transposes(
    plan: PlanBuilder, as_given: tuple[TensorSpec, TensorSpec], result: TensorSpec, bias: TensorSpec
) -> TensorSpec:
    """Once it has transposed its inputs, the library works out the shape with the bias from what they were before."""
    first, second = as_given
    believed = product_spec(first, second, (False, False), None, result.dtype).shape
    rank = max(len(believed), len(bias.shape))
    one, two = ((1,) * (rank - len(shape)) + shape for shape in (believed, bias.shape))
    if any(a != b and 1 not in (a, b) for a, b in zip(one, two, strict=True)):
        plan.refuse("Broadcast error: Invalid dimension")
    return _laid_out(plan, result, tuple(map(max, one, two)))


def _turned_copy(plan: PlanBuilder, spec: TensorSpec, copies: list[int]) -> TensorSpec:
    turned = replace(spec, shape=(*spec.shape[:-2], spec.shape[-1], spec.shape[-2]))
    copies.append(plan.allocate(turned))
    plan.launch(double_buffered_tiles(spec, turned))
    return turned


def _with_bias(plan: PlanBuilder, slot: int, result: TensorSpec, bias: TensorSpec) -> tuple[int, TensorSpec]:
    """A binary add into a new buffer."""
    added = replace(result, shape=broadcast_shape(result.shape, bias.shape))
    streams = double_buffered_tiles(result, bias, added)
    if result.shape[-2:] != bias.shape[-2:]:
        streams += double_buffered_tiles(bias if bias.shape[-2:] != added.shape[-2:] else result)
    return _replaced(plan, slot, added, streams, CIRCULAR), added


def _replaced(plan: PlanBuilder, slot: int, result: TensorSpec, buffers: list[int], family: str | None = None) -> int:
    """The next operation's result takes the place of the one before."""
    after = plan.allocate(result)
    plan.launch(buffers, *([family] if family else []))
    plan.free(slot)
    return after


def _configured(call: Call, plan: PlanBuilder, result: TensorSpec, bias: TensorSpec | None) -> Plan:
    """With the caller's own configuration; shards without one are known from below alone."""
    try:
        given = call.arguments["program_config"]
        if given is None and isinstance(call.inputs[0].shard, Shard):
            return _with_config(call, plan, result, bias, _config_of_shards(call, plan, result, call.inputs[0].shard))
        if call.arguments["core_grid"] is None:
            return _with_config(call, plan, result, bias, config_of(given or {}))
        return _with_config(call, plan, result, bias, _config_on_grid(call, plan, result, bias))
    except UnknownConfigError as unknown:
        why = f"this program config or these shards were not compared ({unknown})"
        if call.shard is not None:  # the config decides how the result is cut, not the wish
            return plan.unknown(why)
        first, second = call.inputs[:2]
        smallest = sum(spec.tile_bytes for spec in (first, second, result) if spec.shard is None)
        plan.estimate(why)
        return plan.finish_with_program(result, [smallest] if smallest else [])


def _config_of_shards(call: Call, plan: PlanBuilder, result: TensorSpec, shard: Shard) -> Config:
    first, second = call.inputs[:2]
    if len(call.inputs) > 2 or call.arguments["transpose_a"] or call.arguments["transpose_b"]:
        raise UnknownConfigError("shards with a bias or a transposed input")
    if any(not spec.is_tiled for spec in (first, second)) or second.shard is not None:
        raise UnknownConfigError("shards of rows, or a second input in shards")
    work = product_of(first, second, result, transposed=(False, False), bias=None, sums=sums_of(call, result))
    grid = _wanted_grid(call, plan)
    return config_of_shards(work, shard, grid, cuts_result=call.shard is not None, space=plan.l1_space())


def _wanted_grid(call: Call, plan: PlanBuilder) -> Grid:
    """The cores that the caller names; more than there are mean all."""
    chip = plan.memory_map.grid
    if call.arguments["core_grid"] is None:
        return chip
    wanted = Grid(*grid_of_cores(call.arguments["core_grid"]))
    return wanted if wanted.columns <= chip.columns and wanted.rows <= chip.rows else chip


def _config_on_grid(call: Call, plan: PlanBuilder, result: TensorSpec, bias: TensorSpec | None) -> Config:
    """As the library makes it for the cores that the caller names."""
    first, second = call.inputs[:2]
    if call.arguments["program_config"] is not None or call.shard is not None or any(s.shard for s in call.inputs):
        raise UnknownConfigError("a core_grid with a program config or with shards")
    turned = bool(call.arguments["transpose_a"]), bool(call.arguments["transpose_b"])
    check_product(plan, first, second, result, turned)
    grid = _wanted_grid(call, plan)
    added = bias if bias is not None and adds_bias_itself(bias, second, result.shape[-1]) else None
    work = product_of(first, second, result, transposed=turned, bias=added, sums=sums_of(call, result))
    if work.second_batch > 1 and call.arguments["activation"] is not None:
        plan.refuse("Cannot use activation with batched input b")
    return config_for(work, grid, plan.l1_space())


def _with_config(call: Call, plan: PlanBuilder, result: TensorSpec, bias: TensorSpec | None, config: Config) -> Plan:
    first, second = call.inputs[:2]
    turned = bool(call.arguments["transpose_a"]), bool(call.arguments["transpose_b"])
    wished = call.shard
    if isinstance(wished, NdShard):
        raise UnknownConfigError("a result in shards of many dimensions")
    activation = call.arguments["activation"]
    is_sharded = wished is not None or any(spec.shard is not None for spec in call.inputs)
    if is_sharded and (bias is not None or any(turned) or activation is not None):
        raise UnknownConfigError("shards with a bias, an activation or a transposed input")
    if activation is not None and activation not in _PLAIN_ACTIVATIONS:
        raise UnknownConfigError(f"the activation {activation}")
    sums = sums_of(call, result)
    kernel_config = call.arguments["compute_kernel_config"]
    shapes = [
        (*spec.shape[:-2], spec.shape[-1], spec.shape[-2]) if turn else spec.shape
        for spec, turn in zip((first, second), turned, strict=True)
    ]
    registers = register_tiles(kernel_config, in_float32=sums.in_float32)
    work = Configured(config, first, second, None, shapes[0], shapes[1], turned[0], registers)
    check_product(plan, first, second, result, turned)
    is_made_for_grid = call.arguments["core_grid"] is not None
    by_program = (
        adds_bias_itself(bias, second, work.second_shape[-1]) if bias is not None and is_made_for_grid else None
    )
    is_fused = bias is not None and (fuses_bias(work, bias) if by_program is None else by_program)
    if is_fused:
        work = replace(work, bias=bias)
    slot, result = configured_product(plan, work, result, wished, sums)
    adds_later = bias is not None and not is_fused
    if bias is not None and adds_later:
        slot, result = _with_bias(plan, slot, result, bias)
    elif bias is not None:
        result = _laid_out(plan, result, broadcast_shape(result.shape, bias.shape))
    if activation is not None and (adds_later or not is_made_for_grid):
        slot = _replaced(plan, slot, result, double_buffered_tiles(result, result))
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
            verified_with_shards=True,
        )
        for name in ("matmul", "linear")
    ),
)
