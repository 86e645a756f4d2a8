# SPDX-License-Identifier: Apache-2.0
"""Logs from the generator, which knows what is true of them and shares no code with the reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO
from typing import Any

import pytest

from loggen import Options, generate
from support.log_lines import profile_of_bytes
from support.profile_questions import MIB, names, states
from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.failure import failures
from ttmem.analysis.padding import padding_at_peak
from ttmem.analysis.peaks import peaks_of
from ttmem.analysis.weights import weights
from ttmem.profile.model import MEMORIES, Profile, Timeline
from ttmem.profile.runs import find_timeline_runs, select

SEEDS = (1, 2, 3)
OPTION_SETS: dict[str, dict[str, Any]] = {
    "plain": {},
    "blackhole coloured": {"arch": "blackhole", "ansi": True},
    "one run": {"runs": 1, "layers": 1},
    "submit blocks": {"submit": True},
    "blocks at DEBUG": {"debug_blocks": True, "submit": True, "ansi": True},
    "foreign lines everywhere": {"interleave": 0.5, "noise": 0.5, "bad_utf8": True},
    "foreign lines, coloured Blackhole": {"arch": "blackhole", "interleave": 0.3, "noise": 0.3, "ansi": True},
    "dos line ends": {"crlf": True, "noise": 0.2},
    "continuous integration": {"ci_prefix": True, "noise": 0.2},
    "vllm": {"vllm_prefix": True, "noise": 0.3},
    "pytest capture": {"pytest_capture": True, "noise": 0.2},
    "three graphs": {"graphs": 3, "runs": 5},
    "no dumps": {"modules": "none", "graphs": 2},
    "ttnn dumps only": {"modules": "ttnn", "graphs": 2},
    "jax": {"jax": True, "graphs": 2},
    "sharded over chips": {"local_shape": True},
    "retained": {"retained": True},
    "trace": {"trace": True, "runs": 4},
    "trace with submit blocks": {"trace": True, "submit": True, "arch": "blackhole"},
    "block floats": {"bfp8": True, "graphs": 2},
    "grammar before 2025-06": {"old_grammar": "tt"},
    "grammar with exactGrid": {"old_grammar": "exact-grid"},
    "never repeats": {"unique_ops": True, "layers": 3},
    "leak": {"leak_bytes_per_bank_per_run": 1_048_576, "runs": 4},
    "leak with submit blocks": {"leak_bytes_per_bank_per_run": 1_048_576, "submit": True},
    "warm-up": {"warmup": True},
    "two ranks": {"ranks": 2},
    "three ranks, noise": {"ranks": 3, "noise": 0.3, "interleave": 0.2, "ansi": True},
    "no operations": {"ops_off": True, "submit": True},
    "no blocks": {"blocks_off": True},
    "exception, then a run": {"exception_then_run": True},
    "exception in a rank": {"exception_then_run": True, "ranks": 2},
    "oom v1": {"oom": "v1"},
    "oom v2": {"oom": "v2", "oom_cause": "too-big"},
    "oom v3 fragmented": {"oom": "v3", "oom_cause": "fragmented", "ansi": True},
    "oom v3 on Blackhole": {"oom": "v3", "arch": "blackhole", "noise": 0.3},
    "oom of L1": {"oom": "v3", "oom_memory": "L1"},
    "oom with dependencies": {"oom": "dep"},
    "oom outside": {"oom": "outside", "submit": True},
    "oom in pytest": {"oom": "v3", "pytest_capture": True},
    "oom in a rank": {"oom": "v3", "ranks": 2},
    "oom without blocks": {"oom": "v3", "blocks_off": True},
    "clash": {"oom": "clash"},
    "clash of dataflow buffers": {"oom": "clash-df", "arch": "blackhole"},
    "overflow": {"oom": "overflow", "ci_prefix": True},
    "fatal": {"oom": "fatal"},
    "everything": {
        "graphs": 2,
        "submit": True,
        "ansi": True,
        "noise": 0.3,
        "interleave": 0.3,
        "bad_utf8": True,
        "trace": True,
        "retained": True,
        "bfp8": True,
        "runs": 4,
    },
    "without the specials": {
        "without": frozenset(
            {
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
            }
        )
    },
}


@lru_cache(maxsize=4)
def generated(name: str, seed: int) -> tuple[Profile, dict[str, Any]]:
    stream = BytesIO()
    options = OPTION_SETS[name]
    truth = generate(Options(seed=seed, **options), stream)
    return profile_of_bytes(stream.getvalue()), truth


@pytest.fixture(scope="module", params=[(name, seed) for name in OPTION_SETS for seed in SEEDS], ids=str)
def case(request: pytest.FixtureRequest) -> tuple[Profile, dict[str, Any]]:
    return generated(*request.param)


Case = tuple[Profile, dict[str, Any]]


def processes(case: Case) -> Iterator[tuple[Profile, int, Timeline, dict[str, Any]]]:
    """Each process of the log with its own truth."""
    profile, truth = case
    truths = truth.get("ranks", [truth])
    assert len(profile.timelines) == len(truths)
    for number, (timeline, own) in enumerate(zip(profile.timelines, truths, strict=True)):
        assert timeline.rank == own.get("rank", -1)
        yield profile, number, timeline, own


def is_logged(truth: dict[str, Any]) -> bool:
    return truth["op_count"] > 0


def test_the_source(case: Case) -> None:
    profile, truth = case
    assert (profile.source.bytes, profile.source.lines) == (truth["log_bytes"], truth["log_lines"])
    assert profile.source.unrecognised_lines == 0
    assert not [warning for warning in profile.source.warnings if warning.startswith("line ")]


def test_operations(case: Case) -> None:
    for profile, _, timeline, truth in processes(case):
        counted = Counter(names(profile, timeline))
        assert counted == truth["op_histogram"]
        assert len(timeline) == truth["op_count"]
        skipped = counted["ttnn.deallocate"] + counted["ttnn.get_device"]
        assert len(timeline) - skipped == truth["op_count_without_dealloc_getdevice"]
        assert len(timeline.retained) == (truth["counts"]["retained_deallocations"] if is_logged(truth) else 0)


def test_samples(case: Case) -> None:
    for profile, _, timeline, truth in processes(case):
        own_state = {row[1]: row[3] for row in states(profile, timeline=timeline)}
        for sample in truth["samples"] if is_logged(truth) else ():
            index = sample["index"]
            number = int(timeline.form[index])
            form = profile.forms[number]
            assert (form.name, len(form.results)) == (sample["op"], sample["results"])
            assert profile.forms.location(number) == sample["loc"]
            assert timeline.programs[timeline.program[index]].name == sample["program"]
            if sample["out_shape"] is not None:
                type_ = profile.tensor_types[form.result_types[0]]
                assert type_.shape == tuple(sample["out_shape"])
            if own_state:
                assert own_state[index] == sample["dram_mb"]


def test_programs(case: Case) -> None:
    for _, _, timeline, truth in processes(case):
        if not is_logged(truth):
            continue
        assert Counter(program.name for program in timeline.programs) == truth["programs"]
        const_eval = sum("_const_eval_" in timeline.programs[number].name for number in timeline.program)
        assert const_eval == truth["counts"]["const_eval_ops"]
        hits = Counter(lookup.hit for lookup in timeline.lookups)
        assert (hits[True], hits[False]) == (truth["const_eval"]["cache_hits"], truth["const_eval"]["cache_misses"])


def test_runs(case: Case) -> None:
    for _, number, timeline, truth in processes(case):
        if not is_logged(truth):
            continue
        found = [
            (run.number, run.program, run.first_index, run.end_index - 1)
            for run in find_timeline_runs(timeline, number)
        ]
        expected = [
            (run["run"], run["program"], run["first_index"], run["last_index"])
            for run in truth["runs"]
            if run["last_index"] is not None
        ]
        assert found == expected
        finished = [run["finished"] for run in truth["runs"] if run["last_index"] is not None]
        assert [run.finished for run in find_timeline_runs(timeline, number)] == finished


def test_states(case: Case) -> None:
    for profile, _, timeline, truth in processes(case):
        counted = Counter(row[0] for row in states(profile, timeline=timeline))
        assert counted == {kind: count for kind, count in truth["blocks"].items() if count}


def test_peaks(case: Case) -> None:
    for profile, number, _, truth in processes(case):
        found = peaks_of(profile, number)
        for memory in ("DRAM", "L1"):
            expected = truth["peak_observed"][memory]
            if expected is None:
                assert memory not in found
                continue
            peak = found[memory]
            assert peak.peak_bytes_per_bank == round(expected["mb"] * MIB)
            assert abs(peak.peak_bytes_per_bank - expected["bytes"]) <= peak.error_bytes
            assert abs(peak.free_bytes_at_peak - expected["free_bytes"]) <= peak.error_bytes
            assert abs(peak.largest_free_bytes_at_peak - expected["largest_free_bytes"]) <= peak.error_bytes
            assert peak.state == expected["block"]
            if is_logged(truth):
                assert peak.at_index == expected["index"]
                assert peak.at_name == (expected["op"] or expected["where"])
                assert peak.caused_by_index == expected["caused_by_index"]
                assert peak.caused_by_name == (expected["caused_by_op"] or "")
                assert peak.caused_by_location == (expected["caused_by_loc"] or "")
        for memory in MEMORIES:
            if memory in found:
                banks = truth["banks"][memory]
                assert found[memory].banks == banks["num_banks"]
                assert abs(found[memory].bytes_per_bank - banks["bytes_per_bank"]) <= found[memory].error_bytes


@pytest.mark.parametrize("memory", ["DRAM", "L1"])
def test_live_set(case: Case, memory: str) -> None:
    for profile, _, timeline, truth in processes(case):
        expected = truth["peak_observed"][memory]
        if expected is None or not is_logged(truth):
            continue
        own = select(profile, rank=timeline.rank) if timeline.rank >= 0 else profile
        live = alive_at_peak(own, memory)
        assert live is not None
        logical = sum(life.type.logical_bytes for life in live.tensors)
        assert len(live.tensors) == expected["live_tensors"]
        assert abs(logical - expected["live_logical_bytes"]) < len(live.tensors) + 1  # fractions of block floats
        assert sum(life.type.padded_bytes for life in live.tensors) == expected["live_padded_bytes"]
        unexplained = live.unattributed_bytes_per_bank - expected["unattributed_bytes_per_bank"]
        assert abs(unexplained) <= live.peak.error_bytes
        largest = [
            (entry["index"], tuple(entry["shape"]), entry["bytes_per_bank"]) for entry in expected["largest_tensors"]
        ]
        found = [(life.producer_index, life.type.shape, life.bytes_per_bank) for life in live.tensors]
        assert sorted(entry[2] for entry in largest) == sorted(entry[2] for entry in found[: len(largest)])
        if len(found) == len(largest):
            assert sorted(found, key=str) == sorted(largest, key=str)


def test_padding(case: Case) -> None:
    for profile, _, timeline, truth in processes(case):
        expected = truth["peak_observed"]["DRAM"]
        if expected is None or not is_logged(truth):
            continue
        padding = padding_at_peak(select(profile, rank=timeline.rank) if timeline.rank >= 0 else profile)
        assert padding.padded_bytes == expected["live_padded_bytes"]
        assert padding.overhead_percent == pytest.approx(expected["padding_overhead_pct"], abs=2e-4)


def test_weights(case: Case) -> None:
    profile, truth = case
    if not profile.arguments:  # no dumps: nothing in the log names a weight
        assert weights(profile).count == 0
        return
    entries = [entry for own in truth.get("ranks", [truth]) for entry in own["weights"]["entries"]]
    expected = {(entry["name"], tuple(entry["local_shape"]), entry["local_bytes"]) for entry in entries}
    found = weights(profile)
    assert {(weight.name, weight.shape, weight.bytes) for weight in found.entries} == expected
    assert found.count == len(expected)


def test_failure(case: Case) -> None:
    for profile, _, timeline, truth in processes(case):
        expected = [*truth["exceptions"], *([truth["failure"]] if truth["failure"] else [])]
        found = [item for item in failures(profile) if item.rank == timeline.rank]
        assert len(found) == len(expected)
        for item, told in zip(found, expected, strict=True):
            if is_logged(truth):
                assert item.operation_index == told["index"]
                assert item.operation_name == (told["op"] or "")
                assert item.operation_location == (told["loc"] or "")
            assert (item.failure_class, item.memory) == (told["class"], told["memory"])
            assert {name: item.numbers[name] for name in told["numbers"]} == told["numbers"]
            if told["message"]:
                assert item.message == told["message"]
