# SPDX-License-Identifier: Apache-2.0
"""A last graph that cannot finish, and the numbers its failure prints."""

from __future__ import annotations

from loggen.account import Account, OutOfMemoryError
from loggen.chips import Chip
from loggen.failures import FailureText, buffer_clash, buffer_overflow, out_of_memory, runtime_assert
from loggen.locations import LocMaker
from loggen.options import Options
from loggen.program import FAIL, Instruction, Program, ProgramBuilder, Value
from loggen.tensors import DEVICE, TensorType, TypeFactory
from loggen.weights import get_device_attributes

_COLUMNS = 4096
_BALLAST_PARTS = 8


class FailingGraph:
    """`main` with a failing op near its end; what follows it is in the dump and never runs."""

    def __init__(
        self, options: Options, types: TypeFactory, account: Account, locs: LocMaker, module_name: str
    ) -> None:
        self.module_name = module_name
        self.functions: list[Program] = []
        self.streamed = False
        self.program = Program("main", "entry")
        self._options = options
        self._types = types
        self._account = account
        self._locs = locs
        b = ProgramBuilder(types.dialect)
        device = b.one(
            "ttnn.get_device", (), DEVICE, get_device_attributes(options.mesh_chips), loc=locs.plain("get_device")
        )
        result = self._build(b, device)
        host = types.host((1, 1, 32, 32))
        out = b.one("ttnn.from_device", (result,), host, loc=locs.plain("from_device"))
        b.finish((out,))
        self.program.instructions = b.take()
        self.types_seen = self.program.instructions

    @property
    def const_evals(self) -> list[Program]:
        return []

    def _build(self, b: ProgramBuilder, device: Value) -> Value:
        kind = self._options.oom
        if kind in ("clash", "clash-df", "overflow"):
            return self._build_l1_failure(b, device)
        if kind == "fatal":
            seed = self._full(b, device, (1, 1, 32, 32))
            return self._fail(
                b, "ttnn.upsample", seed, self._types.dram((1, 1, 64, 64)), 'mode = "nearest", scale_factor = 2 : si32'
            )
        if self._options.oom_memory == "L1":
            source = self._full(b, device, (1, 1, 8192, 1024))
            too_big = self._types.sharded((1, 1, 8192, 1024), "height_sharded", max_cores=8)
            return self._fail(b, "ttnn.to_memory_config", source, too_big, f"memory_config = {too_big.memory_config}")
        return self._build_dram_failure(b, device)

    def _build_dram_failure(self, b: ProgramBuilder, device: Value) -> Value:
        free = self._account.dram.largest_free
        cause = self._options.oom_cause
        if cause != "too-big":
            part = self._shape_of(free // _BALLAST_PARTS)
            ballast = [self._full(b, device, part) for _ in range(_BALLAST_PARTS - 1)]
            if cause == "fragmented":
                b.deallocate(*ballast[1::2])
            request = self._shape_of(free // 4)
        else:
            request = self._shape_of(self._account.dram.size + (self._account.dram.size >> 4))
        seed = self._full(b, device, (1, 1, 32, _COLUMNS))
        repeats = request[2] // 32
        return self._fail(
            b, "ttnn.repeat", seed, self._types.dram(request, "f32"), f"repeat_dims = #ttnn.shape<1x1x{repeats}x1>"
        )

    def _build_l1_failure(self, b: ProgramBuilder, device: Value) -> Value:
        source = self._full(b, device, (1, 1, 8192, 1024))
        sharded = self._types.sharded((1, 1, 8192, 1024), "height_sharded")
        moved = b.one(
            "ttnn.to_memory_config",
            (source,),
            sharded,
            f"memory_config = {sharded.memory_config}",
            loc=self._locs.plain("copy"),
        )
        return self._fail(
            b, "ttnn.max_pool2d", moved, self._types.sharded((1, 1, 2048, 1024), "height_sharded"), "ceil_mode = false"
        )

    def _full(self, b: ProgramBuilder, device: Value, shape: tuple[int, ...]) -> Value:
        type_ = self._types.dram(shape, "f32")
        attributes = (
            "dtype = #ttcore.supportedDataTypes<f32>, fill_value = 1.000000e+00 : f32, layout = #ttnn.layout<tile>, "
            f"memory_config = {type_.memory_config}, shape = #ttnn.shape<{'x'.join(str(n) for n in shape)}>"
        )
        return b.one("ttnn.full", (device,), type_, attributes, loc=self._locs.plain("constant"))

    def _fail(self, b: ProgramBuilder, op: str, operand: Value, result: TensorType, attributes: str) -> Value:
        loc = self._locs.plain("broadcast" if op == "ttnn.repeat" else "custom-call")
        return b.op(op, (operand,), (result,), attributes, loc=loc, kind=FAIL)[0]

    def _shape_of(self, bytes_per_bank: int) -> tuple[int, int, int, int]:
        """An f32 tile tensor of about that many bytes per bank."""
        tiles = bytes_per_bank // 4096 * self._account.dram.banks
        return (1, 1, max(1, tiles // (_COLUMNS // 32)) * 32, _COLUMNS)


def failure_of(
    op: Instruction, options: Options, account: Account, chip: Chip
) -> tuple[FailureText, dict[str, int | str | bool] | None]:
    """The text this op's failure prints, and for allocator failures all numbers, printed or not."""
    kind = options.oom
    old = options.grammar == "tt"
    if kind in ("clash", "clash-df"):
        address = account.lowest_l1_address(chip)
        assert address is not None
        return buffer_clash(
            kind,
            l1_address=address,
            region_end=address + 31_776,
            columns=chip.core_columns,
            rows=chip.core_rows,
            old_spelling=old,
        ), None
    if kind == "overflow":
        end = chip.l1_bytes_per_core + 528_904
        return buffer_overflow(
            region_end=end,
            l1_bytes=chip.l1_bytes_per_core,
            columns=chip.core_columns,
            rows=chip.core_rows,
            old_spelling=old,
        ), None
    if kind == "fatal":
        return runtime_assert(), None
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    assert kind is not None
    try:
        buffer = account.allocate(type_, None)
    except OutOfMemoryError:
        cores = type_.padded_bytes // type_.bytes_per_bank if type_.sharding != "interleaved" else account.dram.banks
        return allocator_failure(kind, account, str(type_.pool), type_.padded_bytes, cores, type_.bytes_per_bank)
    account.disown(buffer)
    raise AssertionError(f"the failing request of {type_.bytes_per_bank} B per bank would have fitted")


def allocator_failure(
    kind: str, account: Account, memory: str, requested: int, banks: int, per_bank: int
) -> tuple[FailureText, dict[str, int | str | bool]]:
    pool = account.pools[memory]
    text = out_of_memory(
        "v3" if kind == "outside" else kind,
        memory=memory,
        requested=requested,
        banks=banks,
        per_bank=per_bank,
        bank_size=pool.size,
        allocated=pool.allocated,
        largest=pool.largest_free,
    )
    cause = "too-big" if per_bank > pool.size else "capacity" if per_bank > pool.free else "fragmented"
    return text, {
        "kind": kind,
        "buffer": memory,
        "requested_bytes": requested,
        "num_banks": banks,
        "bytes_per_bank": per_bank,
        "bank_size": pool.size,
        "allocated_per_bank": pool.allocated,
        "free_per_bank": pool.free,
        "largest_free_per_bank": pool.largest_free,
        "fits_if_defragmented": per_bank <= pool.free,
        "cause": cause,
    }
