# SPDX-License-Identifier: Apache-2.0
"""Products of matrices: matmul, linear, addmm. Without a program config the library chooses one (``matmul_blocks``)."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.chaining import Held, applied
from ttmem.allocator.operations.elementwise import broadcast_shape, double_buffered_tiles, result_like, spell_type
from ttmem.allocator.operations.kernel_config import KERNEL_CONFIG, adds_in_float32, draw_kernel_config
from ttmem.allocator.operations.matmul_blocks import COLUMN, SIMPLE, Sums, choose_blocks, product_of, static_buffers
from ttmem.allocator.operations.plan import BOUNDED, Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.reshaping import is_view, reshape
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import DATA_TYPES, DRAM, FLOAT32, DataType, Memory
from ttmem.tensors import TILE, TensorSpec

_MULTICAST = "ttnn.MatmulMultiCoreReuseMultiCastProgramConfig"
_PLAIN_ACTIVATIONS = ("relu", "gelu", "silu", "sigmoid", "tanh", "exp", "sqrt", "relu6", "mish", "hardswish")
_UNEQUAL_BATCHES = (
    "bmm (non-bcast matmul) expects input tensors of shapes BCMK*BCKN=BCMN or batch dimension {} mismatch: "
    "a={} vs b={} (dimension mismatch only allowed when all batch dimensions of a are size 1 and using "
    "MatmulMultiCoreReuseMultiCast1DProgramConfig with fuse_batch=false, fused_activation=none, mcast_in0=false, and "
    "non-sharded inputs for in0 reuse optimization)"
)
Transposed = tuple[bool, bool]
"""Whether the first and the second input are multiplied as if transposed."""


def matmul(call: Call, plan: PlanWriter) -> Plan:
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
    if config is not None or any(spec.shard is not None for spec in call.inputs):
        return _configured(call, plan, result, config)
    _check(plan, first, second, result, transposed)
    slot, result, copies = product(plan, first, second, result, transposed, bias, _sums(call, result))
    activation = call.arguments["activation"]
    if activation is not None:
        if activation not in _PLAIN_ACTIVATIONS:
            return plan.give_up(f"the activation {activation} inside {call.name}")
        slot = _replaced(plan, slot, result, double_buffered_tiles(result, result))
    plan.free(*copies)
    return plan.finish(slot, result)


def _with_a_row(call: Call, plan: PlanWriter, *, has_more: bool) -> Plan:
    """A first input of one dimension is a row; a second one is made a column, and the result is laid down again."""
    first, second = call.inputs[:2]
    if has_more or len(first.shape) == len(second.shape) or call.arguments["program_config"] is not None:
        return plan.give_up("products of single rows with more than an activation")
    if len(first.shape) == 1:
        row = replace(first, shape=(1, *first.shape))
        made = matmul(replace(call, inputs=(row, second)), plan)
        return made.with_shape((*second.shape[:-2], second.shape[-1])) if made.results else made
    if call.arguments["activation"] is not None or call.arguments["dtype"] is not None:
        return plan.give_up("products with a single column and an activation, or in another type")
    column = applied(plan, reshape, Held(-2, second), shape=(*second.shape, 1))
    result = product_spec(first, column.spec, (False, False), call.memory, first.dtype)
    _check(plan, first, column.spec, result, (False, False))
    slot, result, _ = product(plan, first, column.spec, result, (False, False), sums=_sums(call, result))
    flat = applied(plan, reshape, Held(slot, result), shape=first.shape[:-1])
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
    return replace(result_like(first, memory or DRAM, dtype), shape=shape, layout=TILE, shard=None)


def _check(plan: PlanWriter, first: TensorSpec, second: TensorSpec, result: TensorSpec, transposed: Transposed) -> None:
    """What the library looks at once the result is there."""
    depth, other = first.shape[-2 if transposed[0] else -1], second.shape[-1 if transposed[1] else -2]
    why = ""
    if depth != other:
        why = (
            "The width of the first tensor must be equal to the height of the second tensor. "
            f"Mismatch: width={depth} height={other}"
        )
    elif first.layout is not TILE or second.layout is not TILE:
        why = "Inputs to matmul must be tilized"
    elif not first.dtype.is_float:
        why = f"Unsupported data format for input A: {spell_type(first.dtype)}"
    if why:
        plan.allocate(result)
        plan.refuse(why)


def product(
    plan: PlanWriter,
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
    plan.launch(buffers)
    if bias is not None and not is_fused:
        slot, result = _with_bias(plan, slot, result, bias)
    elif bias is not None:
        result = replace(result, shape=broadcast_shape(result.shape, bias.shape))
    if copies and bias is not None:
        result = _forgetting_transposes(plan, as_given, result, bias)
    return slot, result, copies[::-1]


def _sums(call: Call, result: TensorSpec) -> Sums:
    config = call.arguments["compute_kernel_config"]
    if config is None:
        return _usual_sums(result)
    return Sums(adds_in_float32(call), bool(config.get("packer_l1_acc")))


def _usual_sums(result: TensorSpec) -> Sums:
    return Sums(result.dtype is FLOAT32, in_l1=True)


def _check_batches(plan: PlanWriter, first: TensorSpec, second: TensorSpec, kind: str) -> None:
    """Batches of the second input need as many of the first, or a program that keeps a single first one."""
    rank = max(len(first.shape), len(second.shape))
    one, two = ((1,) * (rank - len(spec.shape)) + spec.shape[:-2] for spec in (first, second))
    if one == two or (prod(one) == 1 and kind == COLUMN):
        return
    place = next(place for place, (a, b) in enumerate(zip(one, two, strict=True)) if a != b)
    plan.refuse(_UNEQUAL_BATCHES.format(place, one[place], two[place]))


def _fuses(bias: TensorSpec, first: TensorSpec, second: TensorSpec, result: TensorSpec) -> bool:
    """Whether the program adds the bias: one row of tiles, no batches, and everything in DRAM."""
    is_batched = any(size > 1 for spec in (bias, second) for size in spec.shape[:-2])
    return not is_batched and bias.shape[-2] <= 32 and {s.memory for s in (first, second, result)} == {DRAM}


def _forgetting_transposes(
    plan: PlanWriter, as_given: tuple[TensorSpec, TensorSpec], result: TensorSpec, bias: TensorSpec
) -> TensorSpec:
    """Once it has transposed its inputs, the library works out the shape with the bias from what they were before."""
    first, second = as_given
    believed = (*first.shape[:-1], second.shape[-1])
    rank = max(len(believed), len(bias.shape))
    one, two = ((1,) * (rank - len(shape)) + shape for shape in (believed, bias.shape))
    if any(a != b and 1 not in (a, b) for a, b in zip(one, two, strict=True)):
        plan.refuse("Broadcast error: Invalid dimension")
    shape = tuple(map(max, one, two))
    if is_view(result, shape):
        if prod(shape[:-2]) * -(-shape[-2] // 32) > prod(result.shape[:-2]) * -(-result.shape[-2] // 32):
            plan.refuse("MeshBuffer must be large enough to hold the tensor.")
    elif prod(shape) != prod(result.shape):
        plan.refuse("Attempting to reshape between two shapes with different volumes")
    elif shape != result.shape:
        plan.doubt(BOUNDED, "a reshape to the shape of inputs that were transposed")
    return replace(result, shape=shape)


def _turned_copy(plan: PlanWriter, spec: TensorSpec, copies: list[int]) -> TensorSpec:
    turned = replace(spec, shape=(*spec.shape[:-2], spec.shape[-1], spec.shape[-2]))
    copies.append(plan.allocate(turned))
    plan.launch(double_buffered_tiles(spec, turned))
    return turned


def _with_bias(plan: PlanWriter, slot: int, result: TensorSpec, bias: TensorSpec) -> tuple[int, TensorSpec]:
    """A binary add into a new buffer."""
    added = replace(result, shape=broadcast_shape(result.shape, bias.shape))
    streams = double_buffered_tiles(result, bias, added)
    if result.shape[-2:] != bias.shape[-2:]:
        streams += double_buffered_tiles(bias if bias.shape[-2:] != added.shape[-2:] else result)
    return _replaced(plan, slot, added, streams, CIRCULAR), added


def _replaced(plan: PlanWriter, slot: int, result: TensorSpec, buffers: list[int], family: str | None = None) -> int:
    """The next operation's result takes the place of the one before."""
    after = plan.allocate(result)
    plan.launch(buffers, *([family] if family else []))
    plan.free(slot)
    return after


def addmm(call: Call, plan: PlanWriter) -> Plan:
    """A product, and a third tensor of its shape that is added in place."""
    added, first, second = call.inputs[:3]
    if call.arguments["alpha"] != 1.0 or call.arguments["beta"] != 1.0:
        return plan.give_up("addmm with factors")
    wanted = call.arguments["dtype"]
    dtype = first.dtype if wanted is None else DATA_TYPES.find(str(wanted))
    if len(first.shape) < 2 or len(second.shape) < 2:
        raise BadInputError("addmm takes two matrices, and a third tensor to add")
    result = product_spec(first, second, (False, False), call.memory, dtype)
    if added.shape != result.shape or any(s.layout is not TILE or s.shard is not None for s in call.inputs):
        raise BadInputError("addmm takes interleaved tiles, and a first tensor of the product's shape")
    _check(plan, first, second, result, (False, False))
    slot, result, _ = product(plan, first, second, result, (False, False), sums=_sums(call, result))
    plan.launch(double_buffered_tiles(result, added, result), CIRCULAR)
    return plan.finish(slot, result)


def _configured(call: Call, plan: PlanWriter, result: TensorSpec, config: Mapping[str, Any] | None) -> Plan:
    """With the caller's own configuration, of which one kind was compared; sharded inputs otherwise."""
    first, second = call.inputs[:2]
    is_plain = len(call.inputs) == 2 and not any(
        call.arguments[name] for name in ("transpose_a", "transpose_b", "activation")
    )
    is_sharded = any(spec.shard is not None for spec in call.inputs)
    if config is not None and config.get("new", _MULTICAST) == _MULTICAST and is_plain and not is_sharded:
        return plan.one_program(result, _configured_buffers(first, second, result, config, _sums(call, result)))
    least = {"per_core_M": 1, "per_core_N": 1, "in0_block_w": 1}
    smallest = _configured_buffers(first, second, result, least, _sums(call, result))
    return plan.one_program(result, smallest, at_least="other program configs and sharded inputs")


def _configured_buffers(
    first: TensorSpec, second: TensorSpec, result: TensorSpec, config: Mapping[str, Any], sums: Sums
) -> list[int]:
    """Input blocks are double buffered when there is more than one along the shared dimension."""
    height, width, depth = (int(config[name]) for name in ("per_core_M", "per_core_N", "in0_block_w"))
    block_height = int(config.get("out_block_h", height))
    block_width = int(config.get("out_block_w", width))
    blocks = -(-first.shape[-1] // 32) // depth
    copies = 2 if blocks > 1 else 1
    out_tiles = block_height * block_width
    sizes = [
        copies * block_height * depth * first.dtype.tile_bytes(),
        copies * block_width * depth * second.dtype.tile_bytes(),
    ]
    sizes.append(out_tiles * result.dtype.tile_bytes())
    if (between := sums.between(result.dtype, blocks)) is not result.dtype:
        sizes.append(out_tiles * between.tile_bytes())
    return sizes


def _draw_matmul(record: OperationRecord, choose: Choose) -> list[Step]:
    return (_draw_configured if not choose.integer(0, 5) else _draw_without_config)(record, choose)


def _draw_configured(record: OperationRecord, choose: Choose) -> list[Step]:
    rows, depth, columns = (choose.one_of((1, 2, 3, 4, 6, 8)) for _ in range(3))
    first = draws.tensor(choose, [1, 1, rows * 32, depth * 32], tile_only=True)
    second = draws.tensor(choose, [1, 1, depth * 32, columns * 32], tile_only=True)
    config = {
        "compute_with_storage_grid_size": {"tuple": [8, 7]},  # the least of all boards
        "in0_block_w": choose.one_of([d for d in range(1, depth + 1) if depth % d == 0]),
        "out_subblock_h": 1,
        "out_subblock_w": 1,
        "per_core_M": choose.integer(-(-rows // 7), rows),
        "per_core_N": choose.integer(-(-columns // 8), columns),
        "transpose_mcast": False,
        "fused_activation": None,
    }
    named: dict[str, Any] = {"program_config": {"new": _MULTICAST, "kwargs": config}}
    if choose.integer(0, 1):
        named["dtype"] = {"dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b"))}
    return write_call(record.name, [first, second], memory=draws.wish(choose), **named, **draw_kernel_config(choose))


_MODEL_SIZES = (*draws.SIZES, 384, 512, 577, 768, 1024, 1536, 2048, 3072, 4096)


def _draw_without_config(record: OperationRecord, choose: Choose) -> list[Step]:
    """As models are written: weights or batches, transposes, a bias and an activation for linear."""
    batch = [choose.one_of((1, 1, 2, 4, 12)) for _ in range(choose.integer(0, 2))]
    height, depth, width = (choose.one_of(_MODEL_SIZES) for _ in range(3))
    turned = [not choose.integer(0, 3) for _ in range(2)]
    shapes = [
        size[::-1] if turn else size for size, turn in zip(([height, depth], [depth, width]), turned, strict=True)
    ]
    has_weight = record.name == "linear" and choose.integer(0, 4)
    other = [1] * choose.integer(0, len(batch)) if has_weight else batch
    if not has_weight and not choose.integer(0, 4):
        batch = [1] * len(batch)
    memories = choose.one_of((("DRAM",), ("DRAM",), ("DRAM", "L1")))
    first, second = (
        {**draws.tensor(choose, sizes, tile_only=True), "memory": choose.one_of(memories)}
        for sizes in ([*batch, *shapes[0]], [*other, *shapes[1]])
    )
    if choose.integer(0, 2):
        second["dtype"] = first["dtype"]
    elif not choose.integer(0, 2):
        second["dtype"] = "bfloat4_b"
    named: dict[str, Any] = {f"transpose_{name}": True for name, turn in zip("ab", turned, strict=True) if turn}
    if not choose.integer(0, 3):
        named["dtype"] = {"dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b"))}
    tensors = [first, second]
    if not choose.integer(0, 4):
        named["activation"] = choose.one_of(_PLAIN_ACTIVATIONS[:4])
    if record.name == "linear" and choose.integer(0, 1):
        named["bias"] = {"tensor": "t2"}
        tensors.append({**second, "shape": choose.one_of(([width], [1, width], [1, 1, width], [height, width]))})
    wish = draws.wish(choose) if "L1" in memories else None
    if not named and not choose.integer(0, 4):
        if choose.integer(0, 1):
            second["shape"] = [depth]
        else:
            first["shape"] = [depth]
    *made, call = write_call(record.name, tensors, memory=wish, **named, **draw_kernel_config(choose))
    return [*made, {**call, "args": call["args"][:2]}]


def _draw_addmm(record: OperationRecord, choose: Choose) -> list[Step]:
    height, depth, width = (choose.one_of(_MODEL_SIZES) for _ in range(3))
    dtype = choose.one_of(("bfloat16", "float32", "bfloat8_b"))
    tensors = [
        {**draws.tensor(choose, sizes, tile_only=True), "dtype": dtype}
        for sizes in ([height, width], [height, depth], [depth, width])
    ]
    return write_call(record.name, tensors, memory=draws.wish(choose), **draw_kernel_config(choose))


_COMMON = (Argument("dtype", default=None), KERNEL_CONFIG)

RECORDS = (
    *(
        record_of(
            write_call(name, [draws.EXAMPLE_TENSOR] * 2),
            matmul,
            _draw_matmul,
            Argument("program_config", default=None),
            Argument("transpose_a", default=False),
            Argument("transpose_b", default=False),
            Argument("activation", default=None),
            *_COMMON,
            family="matmul",
            is_drawn_odd=True,
        )
        for name in ("matmul", "linear")
    ),
    record_of(
        write_call("addmm", [{**draws.EXAMPLE_TENSOR, "shape": [64, 64]}] * 3),
        addmm,
        _draw_addmm,
        Argument("alpha", default=1.0),
        Argument("beta", default=1.0),
        *_COMMON,
        family="matmul",
    ),
)
