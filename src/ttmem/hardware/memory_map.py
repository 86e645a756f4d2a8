# SPDX-License-Identifier: Apache-2.0
"""The four memories of the allocator: their first addresses on an open device and the sizes of their banks."""

from dataclasses import dataclass, field

from ttmem.base.errors import BadInputError
from ttmem.hardware._registry import ByName, Registry
from ttmem.hardware.architectures import Architecture
from ttmem.hardware.boards import BOARDS, Board, Grid
from ttmem.hardware.releases import DEFAULT_RELEASE, RELEASES, Release

_TRACE_PAGE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Memory(ByName):
    """A pool of the allocator, named as in ttnn's BufferType and messages."""

    __hash__ = ByName.__hash__
    name: str
    in_dram: bool
    """True: banks are DRAM channels with DRAM alignment. False: banks are the L1 of compute cores."""
    grows_down: bool
    """True: first fit from the top, so that tensors and circular buffers meet in the middle of L1."""
    description: str
    aliases: tuple[str, ...] = ()


DRAM = Memory("DRAM", in_dram=True, grows_down=False, description="tensors in device DRAM")
L1 = Memory("L1", in_dram=False, grows_down=True, description="tensors in the SRAM of the compute cores")
L1_SMALL = Memory(
    "L1_SMALL",
    in_dram=False,
    grows_down=True,
    description="small sharded buffers at the top of L1 (conv2d, pooling); 0 B unless l1_small_size is set",
    aliases=("L1 SMALL", "L1-SMALL", "L1SMALL"),
)
TRACE = Memory("TRACE", in_dram=True, grows_down=False, description="recorded traces, above the DRAM pool")

MEMORIES: Registry[Memory] = Registry("memory", (DRAM, L1, L1_SMALL, TRACE))

HOST = Memory("HOST", in_dram=False, grows_down=False, description="tensors that are not on the device")
"""No memory of the allocator: weights of convolutions are here until the operation moves them itself."""


@dataclass(frozen=True, slots=True)
class OpenSettings:
    """Arguments of `open_device` that move memory; the defaults are the library's."""

    l1_small_bytes: int = 0
    trace_region_bytes: int = 0
    """A total over all banks; per bank in releases before 0.74."""
    worker_l1_bytes: int = 0
    """0: the release's default."""
    dispatch: str | None = None
    mesh: tuple[int, int] = (1, 1)
    """Chips that are opened together; each has the same memory map."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A memory of one chip: `banks` banks of equal size that are handed out in lock step."""

    memory: Memory
    banks: int
    base_address: int
    bytes_per_bank: int

    @property
    def end_address(self) -> int:
        return self.base_address + self.bytes_per_bank

    @property
    def total_bytes(self) -> int:
        """Bytes of one chip, all banks."""
        return self.banks * self.bytes_per_bank


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """The pools of an opened device, with the evidence for their sizes."""

    board_name: str
    architecture: Architecture
    grid: Grid
    dram: Pool
    l1: Pool
    l1_small: Pool
    trace: Pool
    l1_base_address: int
    """First address of circular and dataflow buffers; the L1 pool starts here too."""
    settings: OpenSettings
    source: str
    """Origin of the sizes: a release's table or the evidence they were learned from."""
    release: Release
    """Release whose conventions apply: the table's own, or the nearest one when the sizes were learned."""
    warnings: tuple[str, ...] = field(default=())

    @property
    def pools(self) -> tuple[Pool, Pool, Pool, Pool]:
        return (self.dram, self.l1, self.l1_small, self.trace)

    def pool(self, memory: Memory) -> Pool:
        for pool in self.pools:
            if pool.memory is memory:
                return pool
        raise BadInputError(f"no memory {memory.name!r} in this map")

    def page_alignment_bytes(self, memory: Memory) -> int:
        return self.architecture.page_alignment_bytes(in_dram=memory.in_dram)

    @property
    def quantum_bytes(self) -> int:
        return self.architecture.quantum_bytes


def open_board(
    board: Board | str,
    settings: OpenSettings = OpenSettings(),  # noqa: B008 - frozen
    release: Release | str = DEFAULT_RELEASE,
) -> MemoryMap:
    """The memory map that the library reports after opening this board, checked against its own limits."""
    if isinstance(board, str):
        board = BOARDS.find(board)
    if isinstance(release, str):
        release = RELEASES.find(release)
    architecture = board.architecture
    reserved = release.find_reserved(architecture)
    quantum = architecture.quantum_bytes
    l1_bytes = architecture.l1_bytes_per_core
    warnings: list[str] = []

    l1_base = reserved.l1_base_address
    max_worker_l1_bytes = l1_bytes - l1_base + reserved.kernel_config_bytes
    if settings.worker_l1_bytes > max_worker_l1_bytes:
        raise BadInputError(f"Worker L1 size {settings.worker_l1_bytes} is larger than max size {max_worker_l1_bytes}")
    if settings.worker_l1_bytes:
        l1_base = _round_up(l1_bytes - settings.worker_l1_bytes, quantum)
        if l1_base < reserved.l1_base_address:
            ring = reserved.kernel_config_bytes - (reserved.l1_base_address - l1_base)
            warnings.append(f"worker_l1_size leaves {ring} B of the kernel config ring: programs may not fit")

    small = _round_up(settings.l1_small_bytes, quantum)
    if small and small >= l1_bytes - l1_base:
        raise BadInputError(
            f"l1_small_size {settings.l1_small_bytes}: Reserved size must be less than bank size",
            hint=f"the L1 bank has {l1_bytes - l1_base} B",
        )
    dram_bytes = architecture.dram_bytes_per_bank - reserved.dram_base_address
    trace = _round_up(settings.trace_region_bytes, quantum)
    if release.trace_region_is_total:
        trace = _round_up(-(-trace // board.dram_banks), _TRACE_PAGE_BYTES)
    if trace >= dram_bytes:
        # The library does not check: its DRAM bank size wraps to about 2^64 and everything "fits".
        raise BadInputError(
            f"trace_region_size {settings.trace_region_bytes} needs {trace} B per bank of {dram_bytes} B DRAM",
            hint="the library accepts it and then reports a wrapped bank size; pass a smaller region",
        )
    grid = board.grid(settings.dispatch)
    dram_end = reserved.dram_base_address + dram_bytes - trace
    return MemoryMap(
        board_name=board.name,
        architecture=architecture,
        grid=grid,
        dram=Pool(DRAM, board.dram_banks, reserved.dram_base_address, dram_bytes - trace),
        l1=Pool(L1, grid.cores, l1_base, l1_bytes - l1_base - small),
        l1_small=Pool(L1_SMALL, grid.cores if small else 0, l1_bytes - small, small),
        trace=Pool(TRACE, board.dram_banks, dram_end, trace),
        l1_base_address=l1_base,
        settings=settings,
        source=str(release),
        release=release,
        warnings=tuple(warnings),
    )


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
