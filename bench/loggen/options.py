# SPDX-License-Identifier: Apache-2.0
"""What to generate. Every switch is independent unless `check` says otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace

FAILURES = ("v1", "v2", "v3", "dep", "outside", "clash", "clash-df", "overflow", "fatal")
ALLOCATOR_FAILURES = ("v1", "v2", "v3", "dep", "outside")
OOM_CAUSES = ("too-big", "capacity", "fragmented")
FEATURES = (
    "kv-cache",
    "resident-weight",
    "call",
    "cpu-call",
    "multi-result",
    "scalar",
    "view",
    "sharded",
    "conv",
    "device-output",
)
MODULE_CHOICES = ("all", "ttnn", "none")
GRAMMAR_OF_FLAG = {"": "head", "tt": "tt", "exact-grid": "exact-grid"}


class OptionError(ValueError):
    """A combination that has no meaning, said in one line."""


@dataclass(frozen=True, slots=True)
class Options:
    """The fields are the command line's switches; see `python -m loggen --help` for each."""

    seed: int = 1
    arch: str = "wormhole"
    runs: int | None = None
    mb: float | None = None
    ops: int | None = None
    layers: int = 2
    graphs: int = 1
    ranks: int = 0
    without: frozenset[str] = frozenset()
    unique_ops: bool = False
    leak_bytes_per_bank_per_run: int = 0
    regress_pct: float | None = None
    regress_batch: int | None = None
    """Set by the generator once it has worked out which batch gives the asked growth."""

    ansi: bool = False
    debug_blocks: bool = False
    submit: bool = False
    ops_off: bool = False
    blocks_off: bool = False
    interleave: float = 0.0
    noise: float = 0.0
    bad_utf8: bool = False
    crlf: bool = False
    ci_prefix: bool = False
    vllm_prefix: bool = False
    pytest_capture: bool = False
    warmup: bool = False

    modules: str = "all"
    dense_mb: float = 0.0
    jax: bool = False
    local_shape: bool = False
    retained: bool = False
    trace: bool = False
    bfp8: bool = False
    old_grammar: str = ""

    oom: str | None = None
    oom_cause: str = "capacity"
    oom_memory: str = "DRAM"
    exception_then_run: bool = False
    cut_bytes: int | None = None

    def has(self, feature: str) -> bool:
        return feature not in self.without

    @property
    def grammar(self) -> str:
        return GRAMMAR_OF_FLAG[self.old_grammar]

    @property
    def mesh_chips(self) -> int:
        return 2 if self.local_shape else 1

    @property
    def target_bytes(self) -> int | None:
        return None if self.mb is None else int(self.mb * 1_000_000)


def check(options: Options) -> Options:
    """The same options with what follows from them filled in, or an OptionError."""
    o = options
    if o.arch not in ("wormhole", "blackhole"):
        raise OptionError(f"unknown arch '{o.arch}'; expected wormhole or blackhole")
    if o.oom is not None and o.oom not in FAILURES:
        raise OptionError(f"unknown failure '{o.oom}'; expected one of {', '.join(FAILURES)}")
    if o.oom_cause not in OOM_CAUSES:
        raise OptionError(f"unknown cause '{o.oom_cause}'; expected one of {', '.join(OOM_CAUSES)}")
    if o.oom_memory not in ("DRAM", "L1"):
        raise OptionError(f"unknown memory '{o.oom_memory}'; expected DRAM or L1")
    if o.modules not in MODULE_CHOICES:
        raise OptionError(f"unknown modules '{o.modules}'; expected one of {', '.join(MODULE_CHOICES)}")
    if o.old_grammar not in GRAMMAR_OF_FLAG:
        raise OptionError(f"unknown grammar '{o.old_grammar}'; expected tt or exact-grid")
    unknown = sorted(o.without - set(FEATURES))
    if unknown:
        raise OptionError(f"unknown feature '{unknown[0]}'; expected one of {', '.join(FEATURES)}")
    for name in ("layers", "graphs"):
        if getattr(o, name) < 1:
            raise OptionError(f"{name} must be at least 1")
    for name in ("interleave", "noise"):
        if not 0 <= getattr(o, name) <= 1:
            raise OptionError(f"{name} is a probability: 0 to 1")
    if o.ranks < 0 or o.leak_bytes_per_bank_per_run < 0 or o.dense_mb < 0:
        raise OptionError("ranks, leak and dense-mb cannot be negative")
    if sum(x is not None for x in (o.mb, o.ops, None if o.unique_ops else o.runs)) > 1:
        raise OptionError("choose one of --mb, --ops and --runs")
    if o.unique_ops:
        if o.trace or o.graphs > 1 or o.ranks or o.runs not in (None, 1):
            raise OptionError("unique ops means one long run of one graph: no --trace, --graphs, --ranks or --runs")
        o = replace(o, without=o.without | {"call"}, runs=1)
    elif o.mb is None and o.ops is None and o.runs is None:
        o = replace(o, runs=3)
    if o.runs is not None and o.runs < 1:
        raise OptionError("runs must be at least 1")
    if o.oom_memory == "L1" and o.oom_cause != "too-big":
        o = replace(o, oom_cause="too-big")
    return o
