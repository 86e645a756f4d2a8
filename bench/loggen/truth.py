# SPDX-License-Identifier: Apache-2.0
"""What is true of the log, collected while it is written.

Counts are of what was printed; `executed_ops` alone counts ops whose lines were switched off too.
Indices count `Executing operation` lines from 0. A block shows the state before its op, so the state an op left
behind is in the next block, whatever program that belongs to: `caused_by` is the op executed just before. A peak
is the first block whose *printed* value is the highest; `bytes` is what the account held there, exactly.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from loggen.account import Account, Buffer, printed_mib
from loggen.program import Instruction, Program
from loggen.tensors import TensorType

_MAX_SAMPLES = 400
_LISTED_TENSORS = 20
NOT_COMPUTE = ("ttnn.deallocate", "ttnn.get_device")


def exact(sixteenths: int) -> int | float:
    return sixteenths // 16 if sixteenths % 16 == 0 else sixteenths / 16


@dataclass(frozen=True, slots=True)
class Moment:
    """Where the executor stands when a block is printed."""

    index: int | None
    instruction: Instruction | None
    program: str
    where: str
    """`before operation`, `before submit` or `after submit`."""


class PeakWatch:
    """Follows one memory through the printed blocks."""

    def __init__(self, account: Account, memory: str, *, short: bool = False) -> None:
        self._account = account
        self._short = short
        self._memory = memory
        self._pool = account.pools[memory]
        self._printed = -1.0
        self.seen_bytes = -1
        """Highest exact value so far: the executor asks only when a block exceeds it."""
        self.record: dict[str, Any] | None = None

    def observe(self, moment: Moment, previous: tuple[int, Instruction] | None, run: int, block: int) -> None:
        value = self._pool.allocated
        self.seen_bytes = value
        printed = float(printed_mib(value))
        if printed <= self._printed:
            return
        self._printed = printed
        op = moment.instruction
        if self._short:
            assert op is not None
            self.record = {"bytes": value, "mb": printed, "index": moment.index, "op": op.op, "run": run}
            return
        operations = self._account.live_sums[self._memory, "op"]
        arguments = self._account.live_sums[self._memory, "argument"]
        unattributed = self._account.live_sums[self._memory, "unattributed"]
        logical, padded = operations[1] + arguments[1], operations[2] + arguments[2]
        self.record = {
            "bytes": value,
            "mb": printed,
            "free_bytes": self._pool.free,
            "largest_free_bytes": self._pool.largest_free,
            "where": moment.where,
            "block": block,
            "index": moment.index,
            "op": op.op if op else None,
            "op_type": op.op_type if op else None,
            "loc": op.loc.display if op else None,
            "program": moment.program,
            "run": run,
            "caused_by_index": previous[0] if previous else None,
            "caused_by_op": previous[1].op if previous else None,
            "caused_by_loc": previous[1].loc.display if previous else None,
            "caused_by_loc_text": previous[1].loc.text if previous else None,
            "live_tensors": operations[0] + arguments[0],
            "live_logical_bytes": exact(logical),
            "live_padded_bytes": padded,
            "padding_overhead_pct": round((padded * 16 / logical - 1) * 100, 4) if logical else 0.0,
            "produced_logical_bytes": exact(operations[1]),
            "produced_padded_bytes": operations[2],
            "argument_count": arguments[0],
            "argument_logical_bytes": exact(arguments[1]),
            "argument_padded_bytes": arguments[2],
            "argument_bytes_per_bank": arguments[3],
            "unattributed_bytes_per_bank": unattributed[3],
            "largest_tensors": self._largest_tensors(),
        }

    def _largest_tensors(self) -> list[dict[str, Any]]:
        live = [b for b in self._account.live if b.pool is self._pool and b.type is not None]
        live.sort(key=lambda b: -b.taken)
        return [_describe(buffer) for buffer in live[:_LISTED_TENSORS]]


def _describe(buffer: Buffer) -> dict[str, Any]:
    type_ = buffer.type
    assert type_ is not None
    index, op, loc = buffer.producer or (None, None, None)
    return {
        "index": index,
        "op": op,
        "loc": loc,
        "shape": list(type_.shape),
        "dtype": type_.element,
        "storage": type_.storage,
        "role": buffer.role,
        "logical_bytes": exact(type_.logical_sixteenths),
        "padded_bytes": type_.padded_bytes,
        "bytes_per_bank": buffer.taken,
    }


@dataclass(slots=True)
class Run:
    number: int
    graph: int
    program: str
    first_index: int
    dram_bytes_before: int
    warmup: bool
    last_index: int | None = None
    finished: bool = False
    dram_bytes_after: int = 0
    dram_peak_bytes: int = 0
    """Highest block of this run, exact."""
    byte_start: int = 0
    byte_end: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": self.number,
            "graph": self.graph,
            "program": self.program,
            "first_index": self.first_index if self.last_index is not None else None,
            "last_index": self.last_index,
            "warmup": self.warmup,
            "finished": self.finished,
            "dram_bytes_before": self.dram_bytes_before,
            "dram_bytes_after": self.dram_bytes_after,
            "dram_peak_bytes": self.dram_peak_bytes,
            "byte_start": self.byte_start,
            "byte_end": self.byte_end,
        }


@dataclass(slots=True)
class Recorder:
    """Counts and moments of one process (one rank)."""

    account: Account
    histogram: Counter[str] = field(default_factory=Counter)
    const_eval_ops: int = 0
    const_eval_hits: int = 0
    const_eval_misses: int = 0
    retained_deallocations: int = 0
    trace_captures: int = 0
    trace_replays: int = 0
    blocks: Counter[str] = field(default_factory=Counter)
    programs: Counter[str] = field(default_factory=Counter)
    runs: list[Run] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    exceptions: list[dict[str, Any]] = field(default_factory=list)
    failure: dict[str, Any] | None = None
    oom: dict[str, Any] | None = None
    regressed: dict[str, Any] | None = None
    dram: PeakWatch = field(init=False)
    l1: PeakWatch = field(init=False)
    dram_compute: PeakWatch = field(init=False)
    l1_compute: PeakWatch = field(init=False)

    def __post_init__(self) -> None:
        self.dram = PeakWatch(self.account, "DRAM")
        self.l1 = PeakWatch(self.account, "L1")
        self.dram_compute = PeakWatch(self.account, "DRAM", short=True)
        self.l1_compute = PeakWatch(self.account, "L1", short=True)

    def wants_sample(self, index: int) -> bool:
        """All early ops, then ever rarer ones: powers of two and multiples of a prime."""
        return (index < 64 or index & (index - 1) == 0 or index % 9973 == 0) and len(self.samples) < _MAX_SAMPLES

    def sample(self, index: int, op: Instruction, program: Program) -> dict[str, Any]:
        out = op.results[0].type if op.results else None
        tensor = out if isinstance(out, TensorType) else None
        entry = {
            "index": index,
            "op": op.op,
            "op_type": op.op_type,
            "program": program.name,
            "loc": op.loc.display,
            "loc_text": op.loc.text,
            "results": len(op.results),
            "dram_bytes": self.account.dram.allocated,
            "l1_bytes": self.account.l1.allocated,
            "dram_mb": float(printed_mib(self.account.dram.allocated)),
            "l1_mb": float(printed_mib(self.account.l1.allocated)),
            "out_shape": list(tensor.shape) if tensor else None,
            "out_dtype": tensor.element if tensor else None,
            "out_storage": tensor.storage if tensor else None,
            "buffer": tensor.buffer if tensor else None,
            "byte_offset": 0,
        }
        self.samples.append(entry)
        return entry

    def as_dict(self) -> dict[str, Any]:
        account, histogram = self.account, self.histogram
        count = sum(histogram.values())
        skipped = sum(histogram[name] for name in NOT_COMPUTE)
        return {
            "banks": {
                name: {"num_banks": pool.banks, "bytes_per_bank": pool.size} for name, pool in account.pools.items()
            },
            "op_count": count,
            "op_count_without_dealloc_getdevice": count - skipped,
            "counts": {
                "deallocate": histogram["ttnn.deallocate"],
                "get_device": histogram["ttnn.get_device"],
                "load_cached": histogram["ttcore.load_cached"] + histogram["tt.load_cached"],
                "const_eval_ops": self.const_eval_ops,
                "retained_deallocations": self.retained_deallocations,
            },
            "op_histogram": dict(sorted(histogram.items())),
            "const_eval": {
                "programs": self.const_eval_misses,
                "cache_misses": self.const_eval_misses,
                "cache_hits": self.const_eval_hits,
            },
            "trace": {"captures": self.trace_captures, "replays": self.trace_replays},
            "blocks": {key: self.blocks[key] for key in ("before operation", "before submit", "after submit")},
            "programs": dict(sorted(self.programs.items())),
            "peak_observed": {"DRAM": self.dram.record, "L1": self.l1.record},
            "peak_observed_excluding_dealloc_views": {
                "DRAM": self.dram_compute.record,
                "L1": self.l1_compute.record,
            },
            "peak_true_bytes": {"DRAM": account.true_peak["DRAM"], "L1": account.true_peak["L1"]},
            "end_bytes_per_bank": {name: pool.allocated for name, pool in account.pools.items()},
            "padding_all_allocations": {
                "logical_bytes": exact(account.ever_logical_sixteenths),
                "padded_bytes": account.ever_padded_bytes,
                "overhead_pct": _overhead(account.ever_logical_sixteenths, account.ever_padded_bytes),
            },
            "n_runs": len(self.runs),
            "n_runs_finished": sum(run.finished for run in self.runs),
            "runs": [run.as_dict() for run in self.runs],
            "exceptions": self.exceptions,
            "failure": self.failure,
            "oom": self.oom,
            "regress": self.regressed,
            "samples": self.samples,
        }


def _overhead(sixteenths: int, padded: int) -> float:
    return round((padded * 16 / sixteenths - 1) * 100, 4) if sixteenths else 0.0
