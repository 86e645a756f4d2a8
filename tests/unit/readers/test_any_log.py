# SPDX-License-Identifier: Apache-2.0
"""Whatever happened to a log, it gives a profile that answers every question, or a clean error."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.examples import examples
from support.log_lines import profile_of_bytes
from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.distribution import distribution
from ttmem.analysis.failure import failure, failures
from ttmem.analysis.fragmentation import fragmentation
from ttmem.analysis.growth import growth
from ttmem.analysis.load_phase import load_phase
from ttmem.analysis.padding import padding_at_peak
from ttmem.analysis.peaks import peaks
from ttmem.analysis.weights import weights
from ttmem.base.errors import TtmemError
from ttmem.profile.model import MEMORIES, Profile
from ttmem.profile.profile_file import decode, encode
from ttmem.profile.runs import count_runs, find_runs, select
from unit.readers.some_logs import some_logs

pytestmark = pytest.mark.slow

LOGS = sorted(some_logs())


def ask_everything(profile: Profile) -> None:
    """Every question; what the answers must obey whatever the log was."""
    for memory, peak in peaks(profile).items():
        live = alive_at_peak(profile, memory)
        assert live is not None
        attributed = sum(life.bytes_per_bank for life in live.tensors)
        assert attributed + live.unattributed_bytes_per_bank == peak.peak_bytes_per_bank
    for memory in MEMORIES:
        load_phase(profile, memory)
    padding = padding_at_peak(profile)
    assert padding.logical_bytes is None or padding.logical_bytes >= 0
    assert padding.padded_bytes is None or padding.padded_bytes >= 0
    failure(profile)
    assert len(failures(profile)) >= (failure(profile) is not None)
    assert weights(profile).count <= len(profile.arguments)
    assert distribution(profile).executed == sum(map(len, profile.timelines))
    growth(profile)
    fragmentation(profile)
    assert count_runs(profile) <= len(find_runs(profile))
    for run in {run.number for run in find_runs(profile)}:
        select(profile, run=run)
    json.dumps(profile.to_json())
    decode(encode(profile))


def check(content: bytes) -> None:
    try:
        profile = profile_of_bytes(content)
    except TtmemError as error:
        refused = error
    else:
        assert profile.source.bytes == len(content)
        ask_everything(profile)
        return
    assert refused.message
    assert refused.hint


@pytest.mark.parametrize("name", LOGS)
def test_the_logs_themselves(name: str) -> None:
    check(some_logs()[name])


@examples(80)
@given(st.sampled_from(LOGS), st.integers(0, 1 << 20), st.integers(0, 1 << 20))
def test_cut_anywhere(name: str, first: int, last: int) -> None:
    content = some_logs()[name]
    check(content[first % len(content) if first % 3 else 0 :][: last % len(content) + 1])


@examples(80)
@given(st.sampled_from(LOGS), st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=60))
def test_flipped_bytes(name: str, flips: list[tuple[int, int]]) -> None:
    content = bytearray(some_logs()[name])
    for place, value in flips:
        content[place % len(content)] = value
    check(bytes(content))


@examples(80)
@given(st.sampled_from(LOGS), st.integers(0, 1 << 30), st.floats(0, 0.5), st.floats(0, 0.3))
def test_lines_deleted_and_duplicated(name: str, seed: int, deleted: float, duplicated: float) -> None:
    random = Random(seed)
    kept = []
    for line in some_logs()[name].splitlines(keepends=True):
        if random.random() >= deleted:
            kept += [line] * (1 + (random.random() < duplicated))
    check(b"".join(kept))


@examples(60)
@given(st.sampled_from(LOGS), st.integers(0, 1 << 30), st.integers(2, 40))
def test_lines_shuffled(name: str, seed: int, reach: int) -> None:
    random = Random(seed)
    lines = some_logs()[name].splitlines(keepends=True)
    order = sorted(range(len(lines)), key=lambda at: at + random.randrange(reach))
    check(b"".join(lines[at] for at in order))


@examples(60)
@given(st.sampled_from(LOGS), st.integers(0, 1 << 30))
def test_lines_in_no_order_at_all(name: str, seed: int) -> None:
    lines = some_logs()[name].splitlines(keepends=True)
    Random(seed).shuffle(lines)
    check(b"".join(lines))


@examples(80)
@given(st.sampled_from(LOGS), st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(max_size=40)), max_size=20))
def test_random_bytes_inserted(name: str, insertions: list[tuple[int, bytes]]) -> None:
    content = some_logs()[name]
    for place, inserted in insertions:
        at = place % len(content)
        content = content[:at] + inserted + content[at:]
    check(content)


ALPHABET = [
    *(b"%", b"%arg", b"#", b"0", b"9" * 30, b"9" * 5000, b"-1", b".", b"x", b" : (", b") -> ", b"(", b")", b"<", b">"),
    *(b"[", b"]", b"{", b"}", b'"', b"\\", b" loc(", b"tensor<", b"memref<", b"!ttcore.tile<0x0, bfp_bf8>", b"\r"),
    *(b"\n", b" | ", b"MemoryView{", b"Executing operation: ", b"RuntimeError: x", b"[1,7]<stdout>:", b"\x1b[0m"),
    *(b"module @m", b"func.func @main(", b"MLIR Module ttnn:", b" MB", b"numBanks: ", b"\xff", b"\x00", b"0x0x"),
]


@examples(120)
@given(
    st.sampled_from(LOGS),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.sampled_from(ALPHABET), st.integers(0, 12)), max_size=25),
)
def test_pieces_of_the_grammar_in_the_wrong_place(name: str, edits: list[tuple[int, bytes, int]]) -> None:
    content = some_logs()[name]
    for place, inserted, overwritten in edits:
        at = place % len(content)
        content = content[:at] + inserted + content[at + overwritten :]
    check(content)


@examples(100)
@given(st.lists(st.sampled_from(ALPHABET), max_size=60))
@example(
    [b"                 Always |     INFO | Device DRAM memory state: ", b"MemoryView{", b"numBanks: ", b"9" * 5000]
)
@example([b"            RuntimeTTNN |    DEBUG | ", b"Executing operation: ", b"%", b"9" * 5000, b" = "])
@example([b"            RuntimeTTNN |    DEBUG | ", b"Executing operation: ", b'%1:999999 = "ttnn.sort"(%0)'])
def test_nothing_but_pieces_of_the_grammar(pieces: list[bytes]) -> None:
    check(b"".join(pieces))


@examples(60)
@given(st.binary(max_size=2000))
def test_random_bytes(content: bytes) -> None:
    check(content)
