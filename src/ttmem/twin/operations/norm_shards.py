# SPDX-License-Identifier: Apache-2.0
"""Layer and RMS norm of shards: each core has a block of some rows, and cores that share a row exchange their sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ttmem.base.arithmetic import ceil_div
from ttmem.hardware import BFLOAT16, FLOAT32, L1
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import CoreRange, Shard, TensorSpec

CONFIG = "ttnn.LayerNormShardedMultiCoreProgramConfig"


@dataclass(frozen=True, slots=True)
class Block:
    """What a core has of the tensor, in tiles, and how its cores are laid out."""

    rows: int
    columns: int
    grid: CoreRange
    by_column: bool
    is_one_row: bool
    """All cores have parts of the same rows."""
    in_place: bool = False

    @property
    def cores_of_a_row(self) -> int:
        if self.is_one_row:
            return self.grid.cores
        return self.grid.rows if self.by_column else self.grid.columns

    def stages(self, all_rows_of_cores: int) -> tuple[int, int] | None:
        """Sums are gathered along the grid, then across it, where the cores of a row fill a grid; None: at once."""
        if not self.is_one_row or self.grid.columns == 1:
            return None
        if self.by_column:
            return (self.grid.rows, self.grid.columns) if self.grid.rows == all_rows_of_cores else None
        return (self.grid.columns, self.grid.rows) if self.grid.rows > 1 else None


def block_of(source: TensorSpec, config: Any) -> Block | None:
    """None where the library refuses the shards, or nobody looked at what it does."""
    shard = source.shard
    if not isinstance(shard, Shard) or shard.kind == "height" or len(shard.ranges) > 1 or source.memory is not L1:
        return None
    grid, paging = shard.ranges[0], compute_paging(source)
    rows, columns = shard.height // 32, shard.width // 32
    tiles_down, tiles_across = paging.physical_height // 32, paging.physical_width // 32
    block = Block(rows, columns, grid, shard.by_column, tiles_down == rows)
    if (
        ceil_div(tiles_across, block.cores_of_a_row) != columns
        or ceil_div(tiles_across, columns) != block.cores_of_a_row
    ):
        return None
    if block.is_one_row and shard.by_column and grid.rows < grid.columns:
        return None  # some of these have no place for the first core
    lines = grid.cores // block.cores_of_a_row
    if ceil_div(tiles_down, lines) != rows or ceil_div(tiles_down, rows) != lines:
        return None
    if config is None:
        return block
    if not isinstance(config, Mapping) or config.get("new") != CONFIG or config.get("use_welford"):
        return None
    if (config.get("block_h"), config.get("block_w")) != (rows, columns) or columns % int(config.get("subblock_w", 1)):
        return None
    return Block(rows, columns, grid, shard.by_column, tiles_down == rows, bool(config.get("inplace")))


def buffers(
    block: Block,
    source: TensorSpec,
    parameters: list[TensorSpec],
    rows_of_cores: int,
    *,
    is_centred: bool,
    adds_in_float32: bool,
) -> list[int]:
    """Beside the shards, which are worked on in their place."""
    inner, plain = (FLOAT32 if adds_in_float32 else BFLOAT16).tile_bytes(), BFLOAT16.tile_bytes()
    stages = block.stages(rows_of_cores)
    together = stages[0] if stages else block.cores_of_a_row
    tiles_across = compute_paging(source).physical_width // 32
    gathered = (sum(stages) - 1 if stages else ceil_div(tiles_across, block.columns)) * inner
    whole, column = block.rows * block.columns * inner, block.rows * inner
    sums = [column, column, gathered]
    sizes = [block.columns * spec.tile_bytes for spec in parameters]
    sizes += [whole, whole, *(sums if is_centred else []), plain]
    if source.shape[-1] % 32:  # what lies beyond the last column must not count
        sizes += [*([whole] if is_centred else []), block.columns * plain]
    return [*sizes, plain, inner, *sums, ceil_div(block.rows, together) * inner, column]
