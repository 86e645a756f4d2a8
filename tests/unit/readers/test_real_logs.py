# SPDX-License-Identifier: Apache-2.0
"""Excerpts of public logs: each parses to exactly what a person reads in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.profile_questions import MIB, forms, names, only, states
from ttmem.analysis.failure import failures
from ttmem.analysis.peaks import peaks
from ttmem.analysis.weights import Weight, weights
from ttmem.base.errors import BadInputError
from ttmem.failures.text.find import find_failures
from ttmem.profile.tensor_type import TensorType
from ttmem.readers import read

REAL = Path(__file__).parents[2] / "data" / "logs" / "real"
NO_STATES = (
    "there are operations but no memory states, so no peak is known: set TT_RUNTIME_MEMORY_LOG_LEVEL=operation "
    "(ttrt: --memory-log-level operation)"
)


def test_operations_between_lines_of_ttrt() -> None:
    profile = read(REAL / "tt-mlir-issue2602-ops.log")
    assert names(profile) == ["ttnn.get_device", "ttnn.reshape"]
    assert only(profile).line.tolist() == [6, 10]
    assert profile.forms.location(0) == "/home/jgrim/wh-01-src/tt-mlir/test/python/golden/test_ttir_ops.py:657:id(0)"
    assert forms(profile)[1].results == ("%1",)
    assert forms(profile)[1].operands == ("%arg0",)
    assert [profile.tensor_types[number] for number in forms(profile)[1].operand_types] == [
        TensorType((128, 128), "float32", "tile", "DRAM", "interleaved", 65536, 65536, 4096, 0)
    ]
    assert profile.source.unrecognised_lines == 1
    assert profile.source.warnings == (
        NO_STATES,
        "line 10: operation ttnn.reshape is cut: not all of its types are known",
    )


def test_a_convolution_in_the_old_layout_grammar() -> None:
    profile = read(REAL / "tt-mlir-issue3383-conv2d-l1-sharded.log")
    (form,) = forms(profile)
    assert (form.name, form.results, form.operands) == ("ttnn.conv2d", ("%35",), ("%33", "%34", "%0"))
    assert form.frees_input is True
    assert profile.forms.location(0) == "resnet50_30_samples_2.mlir.ttnn:197:15"
    activation = TensorType(
        (1, 1, 25088, 64), "bfloat16", "tile", "L1", "height_sharded", 3211264, 3248128, 2048, 53248
    )
    weight = TensorType((1, 1, 576, 64), "bfloat16", "tile", "DRAM", "interleaved", 73728, 73728, 2048, 0)
    operands = [profile.tensor_types[number] if number >= 0 else None for number in form.operand_types]
    assert operands == [activation, weight, None]
    assert [profile.tensor_types[number].shape for number in form.result_types] == [(1, 1, 25088, 64)]
    assert (profile.source.unrecognised_lines, profile.source.warnings) == (0, (NO_STATES,))


def test_a_callsite_location_and_no_prefix() -> None:
    profile = read(REAL / "tt-xla-issue494-callsite-loc.log")
    (form,) = forms(profile)
    assert (form.name, form.results, form.operands) == ("ttnn.add", ("%72",), ("%69", "%71"))
    assert profile.forms.location(0) == (
        "jit(__call__)/jit(main)/FlaxAlbertForMaskedLMModule/albert/embeddings/word_embeddings/jit(_take)/lt"
    )
    assert [profile.tensor_types[number].shape for number in form.operand_types] == [(1, 1), (1, 6)]
    assert [profile.tensor_types[number].shape for number in form.result_types] == [(1, 6)]


def test_the_first_memory_lines_ever_printed() -> None:
    profile = read(REAL / "tt-mlir-pr5967-program-level-debug.log")
    assert states(profile) == [("before submit", None, None, 0.008)]
    assert states(profile, "L1") == [("before submit", None, None, 0.0)]
    assert only(profile).state_line.tolist() == [9]
    assert profile.facts == {"grid": "8x8"}
    found = peaks(profile)
    assert list(found) == ["DRAM", "L1"]
    assert (found["DRAM"].banks, found["DRAM"].bytes_per_bank) == (12, 1024 * MIB)
    assert (found["L1"].banks, found["L1"].bytes_per_bank) == (64, 1331692)
    assert "TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG" in profile.source.warnings[0]


def test_tagged_lines_of_two_ranks() -> None:
    # GIVEN an excerpt of which the only memory line is shortened by hand: nothing of a device can be read
    with pytest.raises(BadInputError, match=r"1 memory line of DRAM could not be read: .*multihost-prefix\.log:3"):
        read(REAL / "multihost-prefix.log")


def three(needed: int, banks: int, per_bank: int, bank: int, allocated: int, free: int, largest: int) -> dict[str, int]:
    return {
        "requested_bytes": needed,
        "banks": banks,
        "bytes_per_bank": per_bank,
        "bank_bytes": bank,
        "allocated": allocated,
        "free": free,
        "largest_free": largest,
    }


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            "oom-one-liners.log",
            [
                (2, "DRAM", three(1050673152, 12, 87556096, 1073741792, 943941568, 129800224, 34201600)),
                (3, "DRAM", three(141557760, 12, 11796480, 1070773184, 1058111680, 12661504, 6266880)),
                (4, "DRAM", three(44493176832, 8, 5561647104, 4273390016, 2263928320, 2009461696, 2002774720)),
                (5, "DRAM", three(58720256, 12, 4894720, 1071821792, 888424448, 183397344, 3382944)),
                (
                    6,
                    "L1_SMALL",
                    {"requested_bytes": 2162688, "banks": 64, "bytes_per_bank": 33792, "bank_bytes": 32768},
                ),
                (
                    7,
                    "L1",
                    {"requested_bytes": 16777216, "banks": 8, "bytes_per_bank": 2097152, "bank_bytes": 1364928},
                ),
                (8, "L1", {"requested_bytes": 32768, "banks": 1, "bytes_per_bank": 32768}),
            ],
        ),
        (
            "tt-metal-issue31211-oom-v2.log",
            [
                (
                    2,
                    "DRAM",
                    {"requested_bytes": 131072000, "banks": 12, "bytes_per_bank": 10924032, "bank_bytes": 1073741792},
                )
            ],
        ),
        (
            "tt-torch-issue727-oom-v1-pytest.log",
            [(4, "DRAM", {"requested_bytes": 5805965312, "banks": 12, "bytes_per_bank": 483831808})],
        ),
        (
            "tt-xla-issue4685-oom-metal-and-pjrt.log",
            [(2, "DRAM", three(3294625792, 12, 274686208, 1071821792, 784847680, 286974112, 216504544))],
        ),
        (
            "tt-xla-issue5494-oom-backtrace.log",
            [(4, "DRAM", three(1050673152, 12, 87556096, 1070773184, 999249056, 71524128, 71231936))],
        ),
    ],
)
def test_out_of_memory(file: str, expected: list[tuple[int, str, dict[str, int]]]) -> None:
    found = failures(read(REAL / file))
    assert [(item.line, item.memory, dict(item.numbers)) for item in found] == expected
    assert {item.failure_class.partition("/")[0] for item in found} == {"oom"}
    assert {item.operation_index for item in found} == {None}


def test_clashes_with_static_buffers() -> None:
    found = failures(read(REAL / "l1-clash-one-liners.log"))
    figures = [(f.line, f.failure_class, f.numbers.get("l1_buffer_address"), f.numbers["region_end"]) for f in found]
    assert figures == [
        (2, "buffers/clash", 622592, 654368),
        (3, "buffers/overflow", None, 2101768),
        (4, "buffers/clash", 665600, 890144),
        (5, "buffers/clash", 104448, 107936),
    ]


def test_a_fatal_record_of_the_runtime() -> None:
    (found,) = failures(read(REAL / "tt-mlir-issue1680-runtime-fatal.log"))
    assert (found.failure_class, found.line) == ("none", 2)
    assert "upsample.cpp:28" in found.message


_WITHOUT_FIGURES = "multihost-prefix.log"


@pytest.mark.parametrize("file", sorted({path.name for path in REAL.glob("*.log")} - {_WITHOUT_FIGURES}))
def test_the_reader_finds_what_the_whole_text_tells(file: str) -> None:
    # GIVEN that a reader sees a few lines at a time
    in_windows = [(f.failure_class, f.line, f.message) for f in failures(read(REAL / file))]
    whole = find_failures((REAL / file).read_text(), include_other=True)
    assert in_windows == [(f.failure_class, f.line, f.message) for f in whole]


def test_weights_of_a_ttnn_dump() -> None:
    profile = read(REAL / "ttnn-module-dump-weights.mlir")
    assert [(a.position, a.name, a.kind, a.shape, a.dtype, a.bytes, a.on_device) for a in profile.arguments] == [
        (0, "args_0", "input", (1,), "int32", 4, True),
        (1, "l__self___w", "parameter", (32, 1024, 1536), "bfloat16", 100663296, False),
    ]
    assert weights(profile).entries == (
        Weight(
            "l__self___w",
            (32, 1024, 1536),
            "bfloat16",
            100663296,
            constant=False,
            where="host",
            graphs=("SyncTensorsGraph.19#0",),
        ),
    )


def test_weights_of_a_ttir_dump() -> None:
    profile = read(REAL / "ttir-module-torch-locs.mlir")
    assert [(a.position, a.name, a.kind, a.shape, a.bytes, a.on_device) for a in profile.arguments] == [
        (0, "l__self___m2_w", "parameter", (64, 128), 16384, None),
        (1, "l__self___m1_w", "parameter", (32, 64), 4096, None),
        (2, "args_0", "input", (32, 32), 2048, None),
    ]
