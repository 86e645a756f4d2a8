# SPDX-License-Identifier: Apache-2.0
"""python -m loggen: write a log, and with --truth what is true of it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from loggen.generation import generate
from loggen.options import FAILURES, FEATURES, MODULE_CHOICES, OOM_CAUSES, OptionError, Options, check
from loggen.process import GenerationError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loggen",
        description="Synthetic tt-mlir/TT-XLA runtime logs with known truth.",
        epilog="example: python -m loggen --mb 100 --seed 42 --ansi --leak 4096 -o big.log --truth big.json",
    )
    parser.add_argument("-o", "--output", required=True, help="the log ('-' for stdout)")
    parser.add_argument("--truth", help="write the truth as JSON here")
    size = parser.add_argument_group("size")
    size.add_argument("--mb", type=float, help="repeat runs until the log has this many million bytes")
    size.add_argument("--ops", type=int, help="repeat runs until this many ops were executed")
    size.add_argument("--runs", type=int, help="number of runs (default 3)")
    size.add_argument("--layers", type=int, default=2, help="transformer blocks (default 2)")
    size.add_argument("--graphs", type=int, default=1, help="one prefill graph and N-1 decode graphs")
    size.add_argument("--ranks", type=int, default=0, help="MPI ranks, tagged and interleaved line by line")
    size.add_argument("--unique-ops", action="store_true", help="one long run in which no op text repeats")
    size.add_argument("--seed", type=int, default=1)
    size.add_argument("--arch", choices=("wormhole", "blackhole"), default="wormhole")
    look = parser.add_argument_group("look of the lines")
    look.add_argument("--ansi", action="store_true", help="colour codes, as the runtime always writes them")
    look.add_argument("--level", choices=("debug-blocks",), help="blocks at DEBUG level, as in November 2025")
    look.add_argument("--submit", action="store_true", help="blocks before and after submit too (memory level any)")
    look.add_argument("--ops-off", action="store_true", help="INFO only: blocks without op lines")
    look.add_argument("--blocks-off", action="store_true", help="op lines without blocks")
    look.add_argument(
        "--interleave", type=float, default=0.0, metavar="P", help="foreign line between op and block or inside a block"
    )
    look.add_argument("--noise", type=float, default=0.0, metavar="P", help="foreign line between ops")
    look.add_argument("--bad-utf8", action="store_true", help="some lines are not UTF-8 (more of them with --noise)")
    look.add_argument("--crlf", action="store_true")
    look.add_argument("--ci-prefix", action="store_true", help="GitHub Actions timestamps")
    look.add_argument("--vllm-prefix", action="store_true", help="'(EngineCore pid=..) ' on Python lines")
    look.add_argument("--pytest-capture", action="store_true", help="stdout and stderr in two sections")
    look.add_argument("--warmup", action="store_true", help="call the first run a warm-up")
    content = parser.add_argument_group("content")
    content.add_argument(
        "--leak", type=int, default=0, metavar="BYTES", help="DRAM bytes per bank that each run leaves behind"
    )
    content.add_argument("--modules", choices=MODULE_CHOICES, default="all", help="module dumps (default all stages)")
    content.add_argument("--dense-mb", type=float, default=0.0, help="megabytes of dense constants in the dumps")
    content.add_argument("--jax", action="store_true", help="public @main, no ttir.name, callsite and fused locations")
    content.add_argument("--local-shape", action="store_true", help="two chips: local shapes, mesh_shard, collectives")
    content.add_argument("--retained", action="store_true", help="deallocations of retained tensors")
    content.add_argument("--trace", action="store_true", help="trace capture, then replay without op lines")
    content.add_argument("--bfp8", action="store_true", help="weights in block float 8")
    content.add_argument("--old-grammar", nargs="?", const="tt", default="", choices=("tt", "exact-grid"))
    content.add_argument(
        "--without", action="append", default=[], choices=FEATURES, help="leave a feature out (repeatable)"
    )
    content.add_argument("--plain", action="store_true", help="leave all optional features out")
    content.add_argument(
        "--regress", type=float, metavar="PCT", help="one op's output lifts the DRAM peak by about PCT percent"
    )
    end = parser.add_argument_group("how it ends")
    end.add_argument("--oom", choices=FAILURES, help="end in this failure")
    end.add_argument("--oom-cause", choices=OOM_CAUSES, default="capacity")
    end.add_argument("--oom-memory", choices=("DRAM", "L1"), default="DRAM")
    end.add_argument("--exception-then-run", action="store_true", help="the first run throws inside a nested program")
    end.add_argument("--cut", type=int, metavar="BYTES", help="truncate the log here (the truth is of the whole)")
    return parser


def _options(args: argparse.Namespace) -> Options:
    return Options(
        seed=args.seed,
        arch=args.arch,
        runs=args.runs,
        mb=args.mb,
        ops=args.ops,
        layers=args.layers,
        graphs=args.graphs,
        ranks=args.ranks,
        without=frozenset(FEATURES if args.plain else args.without),
        unique_ops=args.unique_ops,
        leak_bytes_per_bank_per_run=args.leak,
        regress_pct=args.regress,
        ansi=args.ansi,
        debug_blocks=args.level == "debug-blocks",
        submit=args.submit,
        ops_off=args.ops_off,
        blocks_off=args.blocks_off,
        interleave=args.interleave,
        noise=args.noise,
        bad_utf8=args.bad_utf8,
        crlf=args.crlf,
        ci_prefix=args.ci_prefix,
        vllm_prefix=args.vllm_prefix,
        pytest_capture=args.pytest_capture,
        warmup=args.warmup,
        modules=args.modules,
        dense_mb=args.dense_mb,
        jax=args.jax,
        local_shape=args.local_shape,
        retained=args.retained,
        trace=args.trace,
        bfp8=args.bfp8,
        old_grammar=args.old_grammar,
        oom=args.oom,
        oom_cause=args.oom_cause,
        oom_memory=args.oom_memory,
        exception_then_run=args.exception_then_run,
        cut_bytes=args.cut,
    )


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    started = time.perf_counter()
    try:
        options = check(_options(args))
        if args.output == "-":
            truth = generate(options, sys.stdout.buffer)
        else:
            with Path(args.output).open("wb") as stream:
                truth = generate(options, stream)
    except (OptionError, GenerationError, OSError) as error:
        print(f"loggen: {error}", file=sys.stderr)
        return 2
    truth = {"log": Path(args.output).name} | truth
    if args.truth:
        Path(args.truth).write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    seconds = time.perf_counter() - started
    rate = truth["log_bytes"] / 1e6 / seconds
    print(
        f"loggen: {truth['log_bytes']} bytes, {truth['op_count']} ops, {seconds:.1f} s, {rate:.0f} MB/s",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
