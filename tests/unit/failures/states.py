# SPDX-License-Identifier: Apache-2.0
"""Random states of the twin in which the next allocation or program does not fit.

Drawn from a seed: a state takes dozens of steps, and drawing each through hypothesis would cost more than the twin.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from ttmem.hardware import (
    BFLOAT4_B,
    BFLOAT8_B,
    BFLOAT16,
    DRAM,
    FLOAT32,
    L1,
    TILE_32X32,
    DataType,
    Memory,
    OpenSettings,
    open_board,
)
from ttmem.twin.device import Buffer, Device
from ttmem.twin.errors import OutOfMemoryError, StaticBuffersError
from ttmem.twin.programs import DeviceProgram, StaticBuffer
from ttmem.twin.tensor_spec import ROW_MAJOR, TILE, Shard, TensorSpec, make_core_grid

BOARDS = ("n150", "n300", "p150", "p100")
DTYPES = (BFLOAT16, FLOAT32, BFLOAT8_B, BFLOAT4_B)


def tiles(count: int, dtype: DataType, memory: Memory) -> TensorSpec:
    """A tensor of so many tiles."""
    return TensorSpec((32 * count, 32), dtype, TILE, memory)


def some_tensor(random: Random, memory: Memory, bank_bytes: int, banks: int, most_share: float) -> TensorSpec:
    """A tensor that takes some share of a bank, tiled or in rows, in L1 now and then sharded over a few cores."""
    share = random.uniform(0.001, most_share)
    if memory is L1 and random.random() < 0.2:
        columns, rows = random.randint(1, 8), random.randint(1, 7)
        height = 32 * max(1, int(share * bank_bytes) // TILE_32X32.elements // 2)
        shard = Shard("height", height, 32, make_core_grid(columns, rows))
        return TensorSpec((height * columns * rows, 32), BFLOAT16, TILE, L1, shard)
    if random.random() < 0.25:
        width = random.choice([64, 96, 512, 1000, 1024, 3072, 4096, 5000, 50304, 201088])
        rows = max(1, int(share * bank_bytes * banks) // (2 * width)) + random.randint(0, 40)
        return TensorSpec((rows, width), BFLOAT16, ROW_MAJOR, memory)
    dtype = random.choice(DTYPES)
    count = max(1, int(share * bank_bytes * banks) // dtype.tile_bytes()) + random.randint(0, 3 * banks)
    return tiles(count, dtype, memory)


@dataclass(frozen=True)
class Refused:
    """A device in some state, and the tensor that it has no room for."""

    board: str
    settings: OpenSettings
    device: Device
    live: tuple[Buffer, ...]
    spec: TensorSpec
    error: OutOfMemoryError


def _refused_allocation(seed: int, memory: Memory | None) -> Refused:
    """Allocate and free at random until something does not fit."""
    random = Random(seed)
    memory = memory or random.choice([DRAM, L1])
    board = random.choice(BOARDS)
    settings = OpenSettings(l1_small_bytes=random.choice([0, 16384, 32768, 65536]))
    device = Device(open_board(board, settings))
    pool = device.memory_map.pool(memory)
    live: list[Buffer] = []
    most_share = random.choice([0.05, 0.2, 0.4, 1.3])
    while True:
        if live and random.random() < 0.3:
            device.free(live.pop(random.randrange(len(live))))
        share = most_share if len(live) < 60 else 1.3
        spec = some_tensor(random, memory, pool.bytes_per_bank, pool.banks, share)
        try:
            live.append(device.allocate(spec))
        except OutOfMemoryError as error:
            return Refused(board, settings, device, tuple(live), spec, error)


def refused_allocations(memory: Memory | None = None) -> st.SearchStrategy[Refused]:
    """States that refuse a tensor."""
    return st.integers(0, 1 << 32).map(lambda seed: _refused_allocation(seed, memory))


@dataclass(frozen=True)
class Clashed:
    """L1 tensors, and a program whose static buffers do not fit below them."""

    board: str
    device: Device
    live: tuple[Buffer, ...]
    program: DeviceProgram
    error: StaticBuffersError


def _refused_program(seed: int) -> Clashed:
    """A few L1 tensors, then programs of growing buffers until one clashes or overflows."""
    random = Random(seed)
    board = random.choice(BOARDS)
    device = Device(open_board(board))
    pool = device.memory_map.l1
    live: list[Buffer] = []
    for _ in range(random.randint(0, 4)):
        try:
            live.append(device.allocate(some_tensor(random, L1, pool.bytes_per_bank, pool.banks, 0.3)))
        except OutOfMemoryError:
            break
    if len(live) > 1 and random.random() < 0.5:
        device.free(live.pop(random.randrange(len(live))))
    grid = make_core_grid(random.choice([1, 8]), random.choice([1, 7]))
    family = random.choice(["circular", "dataflow"])
    tiles_of_buffer = random.randint(1, 40)
    while True:
        buffers = (StaticBuffer(tiles_of_buffer * 2048, grid, 2048), StaticBuffer(random.randint(1, 5000) * 32, grid))
        program = DeviceProgram(buffers, family)
        try:
            device.launch(program)
        except StaticBuffersError as error:
            return Clashed(board, device, tuple(live), program, error)
        tiles_of_buffer *= 2


def refused_programs() -> st.SearchStrategy[Clashed]:
    """States in which a program does not fit."""
    return st.integers(0, 1 << 32).map(_refused_program)
