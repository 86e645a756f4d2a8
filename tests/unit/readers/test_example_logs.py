# SPDX-License-Identifier: Apache-2.0
"""Two long format-true logs and what is true of them: five Wormhole runs, and a Blackhole run that ends in an OOM."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.profile_questions import names, only
from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.failure import failure
from ttmem.analysis.padding import padding_at_peak
from ttmem.analysis.peaks import peaks
from ttmem.analysis.weights import weights
from ttmem.profile.model import Profile
from ttmem.profile.runs import count_runs, find_runs
from ttmem.readers import read

LOGS = Path(__file__).parents[2] / "data" / "logs"
MIB = 1 << 20


@pytest.fixture(scope="module", params=["blackhole-oom-ansi", "transformer-five-runs"])
def example(request: pytest.FixtureRequest) -> tuple[Profile, dict[str, Any]]:
    path = LOGS / f"{request.param}.log.gz"
    return read(path), json.loads((LOGS / f"{request.param}.log.truth.json").read_text())


Example = tuple[Profile, dict[str, Any]]


def test_the_source(example: Example) -> None:
    profile, truth = example
    source = profile.source
    assert (source.bytes, source.lines) == (truth["log_bytes"], truth["log_lines"])
    assert (source.unrecognised_lines, source.warnings) == (0, ())
    assert (source.kind, f"{profile.name}.log") == ("tt-mlir-log", truth["log"])


def test_operations(example: Example) -> None:
    profile, truth = example
    counted = Counter(names(profile))
    assert len(only(profile)) == truth["op_count"]
    assert counted == truth["op_histogram"]
    compute = counted.total() - counted["ttnn.deallocate"] - counted["ttnn.get_device"]
    assert compute == truth["op_count_without_dealloc_getdevice"]


def test_const_eval(example: Example) -> None:
    profile, truth = example
    timeline = only(profile)
    nested = [number for number, program in enumerate(timeline.programs) if program.parent >= 0]
    assert len(nested) == truth["const_eval"]["programs"]
    assert sum(int(number) in nested for number in timeline.program) == truth["counts"]["const_eval_ops"]
    hits = Counter(lookup.hit for lookup in timeline.lookups)
    assert (hits[True], hits[False]) == (truth["const_eval"]["cache_hits"], truth["const_eval"]["cache_misses"])


@pytest.mark.parametrize("memory", ["DRAM", "L1"])
def test_peaks(example: Example, memory: str) -> None:
    profile, truth = example
    peak, expected, banks = peaks(profile)[memory], truth["peak_observed"][memory], truth["banks"][memory]
    # Figures are printed with three decimals of a MiB; the error travels with them.
    assert peak.error_bytes == 525
    assert abs(peak.peak_bytes_per_bank - expected["bytes"]) <= peak.error_bytes
    assert peak.peak_bytes_per_bank == round(expected["mb"] * MIB)
    assert (peak.at_index, peak.at_name) == (expected["index"], expected["op"])
    assert peak.caused_by_index == expected["caused_by_index"]
    assert (peak.caused_by_name, peak.caused_by_location) == (expected["caused_by_op"], expected["caused_by_loc"])
    assert peak.banks == banks["num_banks"]
    assert abs(peak.bytes_per_bank - banks["bytes_per_bank"]) <= peak.error_bytes


def test_sizes_of_all_memories(example: Example) -> None:
    profile, truth = example
    found = peaks(profile)
    assert list(found) == ["DRAM", "L1", "L1_SMALL", "TRACE"]
    for memory, expected in truth["banks"].items():
        assert found[memory].banks == expected["num_banks"]
        assert abs(found[memory].bytes_per_bank - expected["bytes_per_bank"]) <= found[memory].error_bytes


@pytest.mark.parametrize("memory", ["DRAM", "L1"])
def test_live_set_at_the_peak(example: Example, memory: str) -> None:
    profile, truth = example
    expected = truth["peak_observed"][memory]
    live = alive_at_peak(profile, memory)
    assert live is not None
    assert sum(life.type.logical_bytes for life in live.tensors) == expected["live_logical_bytes"]
    assert sum(life.type.padded_bytes for life in live.tensors) == expected["live_padded_bytes"]
    # AND every byte of the state belongs to a tensor, up to what printing rounded away
    assert abs(live.unattributed_bytes_per_bank) <= live.peak.error_bytes


def test_padding(example: Example) -> None:
    profile, truth = example
    expected = truth["peak_observed"]["DRAM"]
    padding = padding_at_peak(profile)
    assert padding.logical_bytes == expected["live_logical_bytes"]
    assert padding.padded_bytes == expected["live_padded_bytes"]
    assert padding.overhead_percent == expected["padding_overhead_pct"]


def test_weights(example: Example) -> None:
    profile, truth = example
    found = weights(profile)
    assert (found.count, found.bytes) == (truth["weights"]["count"], truth["weights"]["bytes"])


def test_runs(example: Example) -> None:
    profile, truth = example
    assert count_runs(profile) == truth["n_runs"]
    found = [(run.number, run.program, run.first_index, run.end_index - 1, run.finished) for run in find_runs(profile)]
    expected = [(run["run"], run["program"], run["first_index"], run["last_index"], True) for run in truth["runs"]]
    if truth["oom"]:  # one more run began and failed in its first operation; the truth counts those that ended
        expected.append((truth["n_runs"], "main", truth["oom"]["index"], truth["oom"]["index"], False))
    assert found == expected


def test_failure(example: Example) -> None:
    profile, truth = example
    found, expected = failure(profile), truth["oom"]
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert (found.failure_class, found.memory) == ("oom/too-big", expected["buffer"])
    assert (found.operation_index, found.operation_name) == (expected["index"], expected["op"])
    assert found.operation_location == expected["loc"]
    assert dict(found.numbers) == {
        "requested_bytes": expected["requested_bytes"],
        "bytes_per_bank": expected["bytes_per_bank"],
        "banks": expected["num_banks"],
        "bank_bytes": expected["bank_size"],
        "allocated": expected["allocated_per_bank"],
        "free": expected["free_per_bank"],
        "largest_free": expected["largest_free_per_bank"],
    }
    assert found.survived is False


def test_samples(example: Example) -> None:
    profile, truth = example
    content = gzip.decompress((LOGS / f"{truth['log']}.gz").read_bytes())
    for sample in truth["samples"]:
        line = content[: sample["byte_offset"]].count(b"\n") + 1
        assert only(profile).line[sample["index"]] == line
