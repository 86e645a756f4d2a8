# SPDX-License-Identifier: Apache-2.0
"""The whole log and its truth."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any, BinaryIO

from loggen.layers import draw_dims
from loggen.options import Options, check
from loggen.output import LogWriter, PytestCapture, interleave_ranks
from loggen.process import GenerationError, Process

_CALIBRATION_LAYERS = 24
_REGRESS_RUNS = 3


class _Nowhere:
    """A stream for trial runs."""

    def write(self, data: bytes) -> int:
        return len(data)


def generate(options: Options, stream: BinaryIO) -> dict[str, Any]:
    """Write the log to `stream` (opened for bytes) and return what is true of it."""
    options = check(options)
    if options.unique_ops:
        options = _with_enough_layers(options)
    planted: dict[str, Any] | None = None
    if options.regress_pct is not None and options.regress_batch is None:
        options, planted = _plant_regression(options)
    truth = _write(options, stream)
    if planted is not None:
        for part in truth.get("ranks", [truth]):
            if part["regress"] is not None:
                part["regress"] |= planted
    return truth


def _write(options: Options, stream: BinaryIO | _Nowhere) -> dict[str, Any]:
    writer = LogWriter(stream, options)  # type: ignore[arg-type]
    capture = PytestCapture() if options.pytest_capture else None

    def position() -> int:
        return capture.bytes_seen if capture else writer.position

    processes = [Process(rank_options, position) for rank_options in _rank_options(options)]
    if options.ranks:
        segments = interleave_ranks([s.output() for s in processes], Random(f"ranks {options.seed}"))
    else:
        segments = processes[0].output()
    if capture is not None:
        segments = capture.rearrange(segments, lambda: processes[-1].final_failure)
    writer.consume(segments)
    file_facts = {"log_bytes": writer.bytes_written, "log_lines": writer.lines_written, "sha256": writer.sha256}
    if not options.ranks:
        return file_facts | processes[0].truth()
    return file_facts | _merge_ranks([process.truth() for process in processes])


def _rank_options(options: Options) -> list[Options]:
    """Ranks differ (own seed, every second one a layer more), and only the last one fails."""
    if not options.ranks:
        return [options]
    last = options.ranks - 1
    return [
        replace(
            options,
            seed=options.seed + 1000 * rank,
            layers=options.layers + rank % 2,
            oom=options.oom if rank == last else None,
        )
        for rank in range(options.ranks)
    ]


def _merge_ranks(truths: list[dict[str, Any]]) -> dict[str, Any]:
    histogram: Counter[str] = Counter()
    for rank, truth in enumerate(truths):
        truth["rank"] = rank
        histogram.update(truth["op_histogram"])
    worst = {}
    for memory in ("DRAM", "L1"):
        peaks = [truth["peak_observed"][memory] for truth in truths]
        if all(peaks):
            worst[memory] = max(range(len(peaks)), key=lambda r: (peaks[r]["mb"], -r))
    return {
        "arch": truths[0]["arch"],
        "op_count": sum(truth["op_count"] for truth in truths),
        "op_histogram": dict(sorted(histogram.items())),
        "n_runs": max(truth["n_runs"] for truth in truths),
        "worst_rank": worst,
        "failure": truths[-1]["failure"],
        "oom": truths[-1]["oom"],
        "ranks": truths,
    }


def _with_enough_layers(options: Options) -> Options:
    """One long run must know its length before it starts; two short trials give bytes and ops per layer."""
    if options.mb is None and options.ops is None:
        return options
    measured = "log_bytes" if options.mb is not None else "executed_ops"
    wanted = options.target_bytes if options.mb is not None else options.ops
    assert wanted is not None
    trial = replace(options, mb=None, ops=None, oom=None, cut_bytes=None, regress_pct=None)
    few, more = (
        _write(replace(trial, layers=n), _Nowhere())[measured] for n in (_CALIBRATION_LAYERS, 2 * _CALIBRATION_LAYERS)
    )
    per_layer = (more - few) / _CALIBRATION_LAYERS
    layers = _CALIBRATION_LAYERS + round((wanted - few) / per_layer)
    return replace(options, layers=max(1, layers), mb=None, ops=None)


def _plant_regression(options: Options) -> tuple[Options, dict[str, Any]]:
    """Find the batch whose bigger tensor lifts the DRAM peak by about the asked percentage."""
    assert options.regress_pct is not None
    trial = replace(options, oom=None, cut_bytes=None, ranks=0, modules="none", dense_mb=0.0, noise=0.0, interleave=0.0)
    if not trial.unique_ops:
        trial = replace(trial, mb=None, ops=None, runs=max(_REGRESS_RUNS, options.graphs))

    def outcome(batch: int) -> tuple[int, dict[str, Any]]:
        truth = _write(replace(trial, regress_batch=batch), _Nowhere())
        return truth["peak_true_bytes"]["DRAM"], truth["regress"]

    base_batch = _baseline_batch(trial)
    base_peak, base = outcome(base_batch)
    wanted_peak = base_peak * (1 + options.regress_pct / 100)
    missing = wanted_peak - base["dram_bytes_after_op"]
    per_batch = base["tensor_bytes_per_bank"] / base_batch
    guess = base_batch + max(1, round(missing / per_batch))
    candidates = {batch: outcome(batch) for batch in range(max(base_batch + 1, guess - 1), guess + 2)}
    batch = min(candidates, key=lambda n: abs(candidates[n][0] - wanted_peak))
    peak = candidates[batch][0]
    if peak <= base_peak:
        raise GenerationError("the planted tensor is never alive at the DRAM peak")
    return replace(options, regress_batch=batch), {
        "baseline_shape": base["shape"],
        "baseline_tensor_bytes_per_bank": base["tensor_bytes_per_bank"],
        "baseline_peak_bytes": base_peak,
        "peak_bytes": peak,
        "peak_growth_pct": round((peak / base_peak - 1) * 100, 4),
    }


def _baseline_batch(options: Options) -> int:
    return draw_dims(options.seed, options.mesh_chips).batch
