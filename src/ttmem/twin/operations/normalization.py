# SPDX-License-Identifier: Apache-2.0
"""Layer, RMS, batch and group normalization.

Layer and RMS norm of shards: each core has a block of some rows, and cores that share a row exchange their sums.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT8_B, BFLOAT16, DRAM, FLOAT32, L1
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    dtype_name,
    has_padded_shard_rows,
    has_tile_padding,
    result_spec,
    spec_like,
)
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanBuilder
from ttmem.twin.operations.record import KERNEL_CONFIG, Argument, Step, has_float32_sums
from ttmem.twin.placement import compute_paging
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import TILE, CoreRange, InvalidSpecError, Shard, TensorSpec

NORM_CONFIG = "ttnn.LayerNormShardedMultiCoreProgramConfig"


@dataclass(frozen=True, slots=True)
class NormBlock:
    """A core's block of the tensor, in tiles, and the arrangement of the cores."""

    rows: int
    columns: int
    grid: CoreRange
    by_column: bool
    is_one_row: bool
    """Each core has a part of the same rows."""
    in_place: bool = False

    @property
    def cores_per_row(self) -> int:
        if self.is_one_row:
            return self.grid.cores
        return self.grid.rows if self.by_column else self.grid.columns

    def choose_stages(self, all_rows_of_cores: int) -> tuple[int, int] | None:
        """Return the cores of both gathering stages if the cores of a row fill a grid; None if there is one stage."""
        if not self.is_one_row or self.grid.columns == 1:
            return None
        if self.by_column:
            return (self.grid.rows, self.grid.columns) if self.grid.rows == all_rows_of_cores else None
        return (self.grid.columns, self.grid.rows) if self.grid.rows > 1 else None


def find_block(source: TensorSpec, config: Any) -> NormBlock | None:
    """Return the block of each core; None if the library refuses the shards or its plan is not verified."""
    shard = source.shard
    if not isinstance(shard, Shard) or shard.kind == "height" or len(shard.ranges) > 1 or source.memory is not L1:
        return None
    grid, paging = shard.ranges[0], compute_paging(source)
    rows, columns = shard.height // 32, shard.width // 32
    tiles_down, tiles_across = paging.physical_height // 32, paging.physical_width // 32
    block = NormBlock(rows, columns, grid, shard.by_column, tiles_down == rows)
    if ceil_div(tiles_across, block.cores_per_row) != columns or ceil_div(tiles_across, columns) != block.cores_per_row:
        return None
    if block.is_one_row and shard.by_column and grid.rows < grid.columns:
        return None  # some of these have no room for the first core
    lines = grid.cores // block.cores_per_row
    if ceil_div(tiles_down, lines) != rows or ceil_div(tiles_down, rows) != lines:
        return None
    if config is None:
        return block
    if not isinstance(config, Mapping) or config.get("new") != NORM_CONFIG or config.get("use_welford"):
        return None
    if (config.get("block_h"), config.get("block_w")) != (rows, columns) or columns % int(config.get("subblock_w", 1)):
        return None
    return NormBlock(rows, columns, grid, shard.by_column, tiles_down == rows, bool(config.get("inplace")))


def compute_sharded_buffers(
    block: NormBlock,
    source: TensorSpec,
    parameters: list[TensorSpec],
    rows_of_cores: int,
    *,
    is_centred: bool,
    adds_in_float32: bool,
) -> list[int]:
    """Return the static buffers; the shards themselves are used in place."""
    inner, plain = (FLOAT32 if adds_in_float32 else BFLOAT16).tile_bytes(), BFLOAT16.tile_bytes()
    stages = block.choose_stages(rows_of_cores)
    together = stages[0] if stages else block.cores_per_row
    tiles_across = compute_paging(source).physical_width // 32
    gathered = (sum(stages) - 1 if stages else ceil_div(tiles_across, block.columns)) * inner
    whole, column = block.rows * block.columns * inner, block.rows * inner
    sums = [column, column, gathered]
    sizes = [block.columns * spec.tile_bytes for spec in parameters]
    sizes += [whole, whole, *(sums if is_centred else []), plain]
    if source.shape[-1] % 32:  # mask the tile padding beyond the last column
        sizes += [*([whole] if is_centred else []), block.columns * plain]
    return [*sizes, plain, inner, *sums, ceil_div(block.rows, together) * inner, column]


_USABLE = 0.95
"""The share of the free L1 that the library plans with."""
_STREAMED_TILES = 112
_STREAMED_TILES_WITH_WEIGHTS = 56
"""The largest piece of a row that does not fit, in tiles of two-byte elements."""


@dataclass(frozen=True, slots=True)
class _RowNorm:
    """A normalization over the last dimension: its tensors and precision."""

    source: TensorSpec
    result: TensorSpec
    weight: TensorSpec | None
    bias: TensorSpec | None
    residual: TensorSpec | None
    is_centred: bool
    """Subtracts the mean (layer norm; RMS norm does not)."""
    adds_in_float32: bool

    @property
    def block(self) -> int:
        """Return the tiles that the registers hold, half as many in four bytes."""
        return 4 if self.adds_in_float32 else 8

    @property
    def inner_bytes(self) -> int:
        return (FLOAT32 if self.adds_in_float32 else BFLOAT16).tile_bytes()

    def compute_buffers(self, width: int, *, streams: bool) -> list[int]:
        """Return the static buffers for rows, or pieces of rows, of ``width`` tiles."""
        block, inner, plain = 2 * self.block, self.inner_bytes, BFLOAT16.tile_bytes()
        has_residual = self.residual is not None
        own, made = self.source.tile_bytes, self.result.tile_bytes
        sizes = [(block if has_residual else width) * own, block * made]
        if not self.source.is_tiled:  # made into tiles and back on the way, through two blocks each
            sizes = [self.block * own, self.block * made] if streams else [width * own, width * made]
            sizes += [block * own, block * made]
        sizes += [2 * inner if self.is_centred else 0]
        sizes += [2 * plain, 2 * plain, 2 * inner]
        sizes += [width * inner if self.is_centred or has_residual or streams else 0, width * inner, 8 * inner]
        sizes += [inner if streams else 0, block * inner if self.weight or self.bias else 0]
        sizes += [width * spec.tile_bytes for spec in (self.weight, self.bias) if spec]
        if self.residual is not None:
            sizes += [width * inner if self.is_centred else 0, block * self.residual.tile_bytes]
        return [size for size in sizes if size]

    def choose_buffers(self, plan: PlanBuilder) -> list[int]:
        """Return the buffers for whole rows if they fit, else for pieces; refuse if no pieces fit."""
        width = round_up(self.source.tiles_across, self.block)
        usable = int(_USABLE * plan.l1_space())
        whole = self.compute_buffers(width, streams=False)
        by_rows = any(spec is not None and not spec.is_tiled for spec in (self.weight, self.bias))
        if (by_rows and self.source.is_tiled) or sum(whole) <= usable:
            return whole
        has_much = self.weight or self.bias or self.source.dtype is FLOAT32
        most = _STREAMED_TILES_WITH_WEIGHTS if has_much else _STREAMED_TILES
        width = min(most * BFLOAT16.tile_bytes() // self.inner_bytes, width)
        while width > self.block and sum(self.compute_buffers(width, streams=True)) > usable:
            width -= self.block
        pieces = self.compute_buffers(width, streams=True)
        if sum(pieces) > usable:
            plan.refuse(
                f"LayerNorm streaming circular buffers require {sum(pieces)} bytes, but only {usable} bytes of the "
                "allocator's L1 span are available"
            )
        if by_rows:
            plan.refuse(
                "The LayerNorm large-tensor path does not support row-major gamma/beta; pass gamma/beta in TILE layout"
            )
        return pieces


def normalize_rows(call: Call, plan: PlanBuilder) -> Plan:
    """Normalize whole rows if their buffers fit the L1 that the result leaves free, else pieces of rows."""
    source = call.inputs[0]
    if source.shard is not None:
        return _normalize_shards(call, plan)
    if not source.is_tiled and call.name == "rms_norm":
        plan.refuse("ttnn::rms_norm does not support ROW_MAJOR input tensors. Use TILE layout.")
    if not source.shape or call.arguments["program_config"] is not None:
        return plan.unknown(f"{call.name} of a single number, or with a program config for tensors without shards")
    result = result_spec(call, source)
    weight, bias, residual = (call.tensor(name) for name in ("weight", "bias", "residual_input_tensor"))
    is_centred, is_precise = _read_precision(call)
    norm = _RowNorm(source, result, weight, bias, residual, is_centred, is_precise)
    slot = plan.allocate(result)
    if any(spec is not None and not _is_as_wide(spec, source) for spec in (weight, bias)):
        return plan.unknown(f"{call.name} with weights of another width")
    if not source.is_tiled and source.shape[-1] % 32:
        return plan.unknown(f"{call.name} of row-major rows that are not whole tiles, which the library refuses")
    buffers = norm.choose_buffers(plan)
    if not source.is_tiled:
        _check_rows(plan, norm)
    if source.dtype not in (FLOAT32, BFLOAT16, BFLOAT8_B):
        plan.refuse(f"Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B, got: {dtype_name(source.dtype)}")
    plan.launch(buffers)
    return plan.finish(slot, result)


def _check_rows(plan: PlanBuilder, norm: _RowNorm) -> None:
    """Refuse row-major inputs as the library does."""
    if norm.residual is not None and not norm.residual.is_tiled:
        plan.refuse("Residual tensor must have TILE layout, got: Layout::ROW_MAJOR")
    if norm.residual is not None and has_tile_padding(norm.residual):
        shape, padded = list(norm.source.shape), list(norm.residual.padded)
        plan.refuse(
            f"Input and residual logical and padded shapes must match, got input: logical=Shape({shape}) "
            f"padded=Shape({shape}) vs residual: logical=Shape({shape}) padded=Shape({padded})"
        )
    if norm.source.dtype is FLOAT32 and not norm.adds_in_float32:
        plan.refuse(
            "ROW_MAJOR float32 input requires fp32_dest_acc_en=True in the compute kernel config (SRCA is 16-bit when "
            "fp32_dest_acc_en=False, silently truncating float32 to bfloat16 during tilize)"
        )


def _read_precision(call: Call) -> tuple[bool, bool]:
    """Return whether the mean is subtracted, and whether sums are in four bytes."""
    is_centred = call.name == "layer_norm"
    return is_centred, is_centred if call.arguments["compute_kernel_config"] is None else has_float32_sums(call)


def _normalize_shards(call: Call, plan: PlanBuilder) -> Plan:
    source, result = call.inputs[0], result_spec(call, call.inputs[0])
    parameters = [spec for name in ("weight", "bias") if (spec := call.tensor(name)) is not None]
    residual = call.tensor("residual_input_tensor")
    block = find_block(source, call.arguments["program_config"])
    if not source.is_tiled:
        if call.name == "layer_norm":
            plan.allocate(replace(result, layout=TILE))
        plan.refuse(
            "Input tensor must have TILE layout (ROW_MAJOR is only supported for non-sharded tensors), got: "
            "Layout::ROW_MAJOR"
        )
    _check_sharded_result(plan, source, result)
    if (
        block is None
        or result.shard != source.shard
        or (residual is not None and residual != source)
        or any(not _is_as_wide(spec, source) for spec in parameters)
    ):
        return plan.unknown(f"{call.name} of shards that are not blocks of a grid, or with a result elsewhere")
    shard, grid = source.shard, plan.memory_map.grid
    if (
        isinstance(shard, Shard)
        and shard.by_column
        and grid.rows != grid.columns
        and any(one.end_y == grid.rows - 1 for one in shard.ranges)
    ):
        return plan.unknown(f"{call.name} of column-major shards on the last row: the library refuses some")
    is_centred, is_precise = _read_precision(call)
    slot = -1 if block.in_place else plan.allocate(result)
    rows = plan.memory_map.grid.rows
    plan.launch(
        compute_sharded_buffers(block, source, parameters, rows, is_centred=is_centred, adds_in_float32=is_precise)
    )
    return plan.finish(slot, result)


def _check_sharded_result(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> None:
    """Refuse a result that is not in shards of the same kind; the library allocates it before the check."""
    kind, memory = source.shard_kind, source.memory
    is_known = source.dtype in (FLOAT32, BFLOAT16, BFLOAT8_B)
    if is_known and kind != "height" and kind == result.shard_kind and memory is result.memory:
        return
    plan.allocate(result)
    if not is_known:
        plan.refuse(f"Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B, got: {dtype_name(source.dtype)}")
    if kind == "height":
        plan.refuse("Height sharded inputs are not supported.")
    if result.shard is None or result.shard_kind == "height":
        plan.refuse("Sharded inputs require sharded outputs.")
    raise NoRuleError(
        "norms of shards into shards of another kind or memory, which the library refuses with various messages"
    )


def _is_as_wide(weight: TensorSpec, source: TensorSpec) -> bool:
    """Return whether a weight is as wide as the input: as tiles, or as sticks of 32 elements."""
    if not weight.is_tiled:
        if has_padded_shard_rows(weight):
            return False
        return weight.shape[-1] == 32 and weight.elements == round_up(source.shape[-1], 32)
    return bool(weight.shape) and weight.shape[-1] == source.shape[-1]


def batch_norm(call: Call, plan: PlanBuilder) -> Plan:
    """Normalize with given statistics: two tiles of each of nine streams, in the wider type if types are mixed."""
    source, rank = call.inputs[0], len(call.inputs[0].shape)
    if rank < 4:
        plan.refuse(f"batch_norm not supported for tensors with rank < 4. (rank={rank})")
    if call.arguments["training"]:
        return plan.unknown("batch_norm in training computes its statistics with other operations")
    given = {name: call.tensor(name) for name in ("running_mean", "running_var", "weight", "bias")}
    mean, variance = given["running_mean"], given["running_var"]
    if mean is None or variance is None:
        plan.refuse("running_mean and running_var must be defined in evaluation mode")
    if any(spec is not None and spec.dtype is not mean.dtype for spec in given.values()):
        return plan.unknown("batch_norm with parameters of different types")
    result = replace(result_spec(call, source), layout=TILE)
    slot = plan.allocate(result)
    if source.shard is not None:
        plan.refuse("Input tensor must be interleaved")
    if result.shard is not None:
        plan.refuse("Output tensor to eltwise binary must be interleaved")
    for name, parameter in given.items():
        if parameter is not None and parameter.shard is not None:
            plan.refuse(f"{_BATCH_NAMES.get(name, name)} tensor must be interleaved")
    for spec in (source, mean):
        if spec.dtype not in (BFLOAT16, FLOAT32):
            plan.refuse(f"batch_norm only supports bfloat16, float32. Got: {dtype_name(spec.dtype)}")
    if any(spec is not None and not spec.is_tiled for spec in (source, *given.values())):
        plan.refuse("Input tensor must be must be tilized")
    own, other, plain = (2 * dtype.tile_bytes() for dtype in (source.dtype, mean.dtype, BFLOAT16))
    wide = max(own, other)
    extras = [other if given[name] else plain for name in ("weight", "bias")]
    copied = [own] if own != wide else []
    plan.launch([own, other, wide, other, wide, *extras, wide, wide, *copied])
    return plan.finish(slot, result)


_BATCH_NAMES = {"running_mean": "batch_mean", "running_var": "batch_var"}


def group_norm(call: Call, plan: PlanBuilder) -> Plan:
    """Normalize groups of [N, 1, rows, channels] on one core, which holds several copies of a group's columns."""
    source, config = call.inputs[0], call.arguments["core_grid"]
    is_one_core = isinstance(config, Mapping) and (config.get("x"), config.get("y")) == (1, 1)
    if len(call.inputs) > 1 or not is_one_core or call.arguments["inplace"] or source.dtype is not BFLOAT16:
        return plan.unknown("group_norm on several cores, in place, with scale and shift, or of other types")
    if not source.is_tiled or source.shard is not None or len(source.shape) != 4:
        return plan.unknown("group_norm of row-major or sharded tensors")
    groups, channels = int(call.arguments["num_groups"]), source.shape[-1]
    if channels % 32 or not 0 < groups <= channels or channels % groups:
        raise InvalidSpecError(f"{channels} channels are not whole tiles, or not {groups} equal groups")
    of_a_group = channels // groups
    wide = max(ceil_div(group * of_a_group % 32 + of_a_group, 32) for group in range(groups))
    blocks = call.arguments["num_out_blocks"]
    if blocks is not None and int(blocks) < 1:
        return plan.unknown("group_norm in as many blocks as the library chooses")
    rows = source.shape[1] * ceil_div(source.shape[2], 32)
    if blocks is not None and int(blocks) > rows:
        raise InvalidSpecError(f"num_out_blocks ({blocks}) must be in [1, block_h ({rows})]")
    high = max(rows // int(blocks or 1), 1)  # the remainder is a smaller block
    tile = BFLOAT16.tile_bytes()
    masks = 2 * wide * (2 if source.shape[2] % 32 else 1) * tile
    block = high * wide * tile
    return plan.finish_with_program(
        replace(spec_like(source, call.memory or DRAM), shard=call.shard),
        [*[block] * 3, *[tile] * 3, masks, *[block] * 4, *[tile] * 6],
        CIRCULAR,
    )


ONE_CORE: Step = {"new": "ttnn.CoreGrid", "kwargs": {"y": 1, "x": 1}}
_STATISTICS = {**EXAMPLE_TENSOR, "shape": [1, 64, 1, 1]}
*_MADE, _CALL = format_call(
    "batch_norm",
    [{**EXAMPLE_TENSOR, "shape": [1, 64, 32, 32]}, _STATISTICS, _STATISTICS],
    running_mean={"tensor": "t1"},
    running_var={"tensor": "t2"},
)

RECORDS = (
    *(
        build_record(
            format_call(name, [EXAMPLE_TENSOR]),
            normalize_rows,
            Argument("epsilon", default=None, samples=(1e-6,)),
            Argument("program_config", default=None),
            KERNEL_CONFIG,
            family="row norm",
            verified_low_rank_and_rare_types=True,
        )
        for name in ("layer_norm", "rms_norm")
    ),
    build_record(
        [*_MADE, {**_CALL, "args": _CALL["args"][:1]}],
        batch_norm,
        Argument("eps", default=None, samples=(1e-5,)),
        Argument("momentum", default=None),
        Argument("training", default=False),
    ),
    build_record(
        format_call(
            "group_norm",
            [{**EXAMPLE_TENSOR, "shape": [1, 1, 64, 64]}],
            num_groups=2,
            core_grid=ONE_CORE,
            inplace=False,
        ),
        group_norm,
        Argument("num_groups"),
        Argument("core_grid", default=None),
        Argument("inplace", default=True),
        Argument("num_out_blocks", default=None),
        Argument("epsilon", default=None, samples=(1e-6,)),
    ),
)
