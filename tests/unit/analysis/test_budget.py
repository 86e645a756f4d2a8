# SPDX-License-Identifier: Apache-2.0
"""Limits and verdicts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.build_profile import MIB, ProfileBuilder, tensor
from ttmem.analysis.budget import BYTES, PERCENT, Limit, Limits, Verdict, check, parse_limit
from ttmem.analysis.states import OperationPlace
from ttmem.base.errors import BadInputError
from ttmem.profile.model import Profile, ProgramsL1


def small(peak_mib: int = 800, rows: int = 32) -> Profile:
    type_ = tensor(rows, 32)
    build = ProfileBuilder("small")
    with build.program("main"):
        build.operation("ttnn.get_device", dram=0, l1=0)
        build.operation("ttnn.matmul", results={"%1": type_}, location="dot.7", dram=100 * MIB, l1=1000)
        build.operation("ttnn.deallocate", operands={"%1": type_}, dram=peak_mib * MIB, l1=MIB // 2)
    return build.build()


def test_a_peak_above_its_limit_names_the_operation() -> None:
    assert check(small(), Limits({"DRAM": Limit(75.0)})) == [
        Verdict(
            rule="max-dram",
            ok=False,
            memory="DRAM",
            measured=80.0,
            limit=75.0,
            unit=PERCENT,
            message="DRAM peak 800.000 MiB per bank (80.0% of the bank) after ttnn.matmul (operation 1); "
            "the limit is 75%",
            operation=OperationPlace(1, "ttnn.matmul", "dot.7"),
            line=4,
        )
    ]


def test_a_limit_is_allowed_to_be_reached() -> None:
    verdicts = check(small(), Limits({"DRAM": Limit(80.0), "L1": Limit(MIB // 2, BYTES)}))
    assert [(verdict.rule, verdict.ok, verdict.measured) for verdict in verdicts] == [
        ("max-dram", True, 80.0),
        ("max-l1", True, MIB // 2),
    ]


def test_the_defaults_are_the_known_targets() -> None:
    assert [(verdict.rule, verdict.limit, verdict.ok) for verdict in check(small())] == [
        ("max-dram", 80.0, True),
        ("max-l1", 90.0, True),
    ]


def test_a_memory_that_was_never_printed_cannot_pass() -> None:
    build = ProfileBuilder("no-l1")
    build.operation("ttnn.add", dram=1)
    with pytest.raises(BadInputError) as caught:
        check(build.build(), Limits({"L1": Limit(90.0)}))
    assert caught.value.message == "no L1 state in this source, so its limit cannot be checked"
    assert caught.value.hint == "memories in it: DRAM"


def with_programs(circular_mib: float, *, unmeasured: bool = False) -> Profile:
    """A capture: tensors take half of L1, what programs take comes on top."""
    profile = small()
    (timeline,) = profile.timelines
    tensors = np.array([0, 1000, MIB // 2], np.int64)
    circular = np.array([0, int(circular_mib * MIB), 0], np.int64)
    none, measured = np.zeros(3, np.int64), np.array([1, 1, not unmeasured], np.int8)
    needs = ProgramsL1(tensors, circular, none, none, measured)
    return replace(profile, timelines=(replace(timeline, programs_l1=needs),))


def test_l1_is_judged_with_what_programs_take() -> None:
    # GIVEN tensors of half a bank at one moment, and 0.9 of a bank of circular buffers at another
    (verdict,) = check(with_programs(0.9), Limits({"L1": Limit(80.0)}))
    assert (verdict.ok, verdict.measured) == (False, pytest.approx(90.1, abs=0.01))
    assert verdict.operation == OperationPlace(1, "ttnn.matmul", "dot.7")
    assert verdict.message == (
        "L1 peak with programs 0.901 MiB per core (90.1% of the bank: tensors 0.001 MiB, circular buffers 0.900 MiB) "
        "in ttnn.matmul (operation 1); the limit is 80%"
    )
    (in_bytes,) = check(with_programs(0.9), Limits({"L1": Limit(MIB // 2, BYTES)}))
    assert (in_bytes.ok, in_bytes.measured) == (False, int(0.9 * MIB) + 1000)
    # AND a log, which does not know programs, says that it judges tensors alone
    (of_log,) = check(small(), Limits({"L1": Limit(80.0)}))
    assert of_log.ok
    assert "tensors alone, this source does not record what programs use" in of_log.message


def test_programs_that_nobody_measured_leave_a_doubt() -> None:
    (verdict,) = check(with_programs(0.9, unmeasured=True), Limits({"L1": Limit(95.0)}))
    assert "at least, the programs of 1 operations were not measured" in verdict.message


def test_growth_of_programs_is_growth_of_l1() -> None:
    verdicts = check(with_programs(0.9), Limits(growth=Limit(2.0)), baseline=with_programs(0.6))
    l1 = next(verdict for verdict in verdicts if verdict.rule == "max-growth-l1")
    assert (l1.ok, l1.measured) == (False, pytest.approx(49.9, abs=0.1))
    assert l1.message.startswith("L1 peak with programs +0.300 MiB per core (+49.9%) against the baseline")
    # AND against a log only the tensors compare
    (of_log,) = (v for v in check(small(), Limits(), baseline=with_programs(0.6)) if v.rule == "max-growth-l1")
    assert of_log.ok


def test_a_baseline_of_another_board_is_named() -> None:
    other = ProfileBuilder("other", banks={"DRAM": 8, "L1": 130, "L1_SMALL": 130, "TRACE": 8})
    other.operation("ttnn.add", dram=MIB, l1=0)
    (dram, _) = check(small(), Limits(), baseline=other.build())
    assert "DRAM has 8 banks of 1,000.000 MiB before and 12 of 1,000.000 MiB after" in dram.message


def test_padding() -> None:
    (verdict,) = check(small(rows=1), Limits(padding=Limit(50.0)))
    assert (verdict.rule, verdict.ok, verdict.measured) == ("max-padding", False, 3100.0)
    assert (verdict.operation, verdict.line) == (OperationPlace(1, "ttnn.matmul", "dot.7"), 4)
    assert verdict.message == (
        "padding adds 0.002 MiB (3,100.0%) to the tensors alive at the DRAM peak; most of it in %1 1x32 bfloat16 of "
        "ttnn.matmul; the limit is 50%"
    )
    assert check(small(rows=32), Limits(padding=Limit(0.0)))[0].ok


def test_growth_against_a_baseline() -> None:
    verdicts = check(small(peak_mib=820, rows=64), Limits(growth=Limit(2.0)), baseline=small())
    assert [(verdict.rule, verdict.ok, verdict.measured) for verdict in verdicts] == [
        ("max-growth-dram", False, 2.5),
        ("max-growth-l1", True, 0.0),
    ]
    assert verdicts[0].message == (
        "DRAM peak +20.000 MiB per bank (+2.5%) against the baseline; first suspect %1 64x32 bfloat16 (was 32x32 "
        "bfloat16) of ttnn.matmul; the limit is 2%"
    )
    assert (verdicts[0].operation, verdicts[0].line) == (OperationPlace(1, "ttnn.matmul", "dot.7"), 4)


def test_growth_in_bytes_and_by_default_two_percent() -> None:
    in_bytes = check(small(peak_mib=801), Limits(growth=Limit(MIB, BYTES)), baseline=small())
    assert [verdict.ok for verdict in in_bytes] == [True, True]
    assert [verdict.ok for verdict in check(small(peak_mib=817), Limits(), baseline=small())] == [False, True]


def test_growth_from_nothing_breaks_any_percentage() -> None:
    before, after = ProfileBuilder(), ProfileBuilder()
    before.operation("ttnn.add", dram=0)
    after.operation("ttnn.add", dram=1)
    (verdict,) = check(after.build(), Limits(growth=Limit(1000.0)), baseline=before.build())
    assert (verdict.ok, verdict.measured) == (False, None)


OOM = (
    "Out of Memory: Not enough space to allocate 100 B DRAM buffer across 12 banks, where each bank needs to store 32 B"
    ", but bank size is 64 B (allocated: 40 B, free: 24 B, largest free block: 24 B)"
)


def test_a_run_that_died_is_not_within_budget() -> None:
    build = ProfileBuilder()
    with build.program("main", finished=False):
        build.operation("ttnn.matmul", location="dot.1", dram=1, l1=1)
        build.fail(OOM)
    verdicts = check(build.build())
    assert [(verdict.rule, verdict.ok) for verdict in verdicts] == [
        ("max-dram", True),
        ("max-l1", True),
        ("run-failed", False),
    ]
    assert verdicts[2].message.startswith("the run failed (oom/capacity): Out of Memory")
    assert verdicts[2].operation == OperationPlace(0, "ttnn.matmul", "dot.1")


def test_a_failure_that_the_process_survived_is_no_verdict() -> None:
    build = ProfileBuilder()
    with build.program("main", finished=False):
        build.operation("ttnn.matmul", dram=1, l1=1)
        build.fail(OOM)
    with build.program("main"):
        build.operation("ttnn.add", dram=1, l1=1)
    assert [verdict.rule for verdict in check(build.build())] == ["max-dram", "max-l1"]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("80%", Limit(80.0, PERCENT)),
        (" 12.5 % ", Limit(12.5, PERCENT)),
        ("0.8", Limit(80.0, PERCENT)),
        ("1.0", Limit(100.0, PERCENT)),
        ("700MiB", Limit(700 * MIB, BYTES)),
        ("700 mb", Limit(700 * MIB, BYTES)),
        ("1.5G", Limit(1.5 * (1 << 30), BYTES)),
        ("64k", Limit(65536, BYTES)),
        ("4096B", Limit(4096, BYTES)),
    ],
)
def test_limits_are_written_as_people_write_them(text: str, limit: Limit) -> None:
    assert parse_limit(text) == limit


def test_a_number_without_a_unit_is_refused_where_it_could_mean_anything() -> None:
    with pytest.raises(BadInputError, match="has no unit") as caught:
        parse_limit("80")
    assert caught.value.hint == "write 80% or 80MiB"


def test_a_bare_number_can_mean_percent() -> None:
    assert parse_limit("50", bare_unit=PERCENT) == Limit(50.0, PERCENT)


@pytest.mark.parametrize("text", ["", "much", "-5%", "5%%", "5 XB", "1e3", "nan", "inf"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_limit(text)
    assert "write a share such as 80%" in caught.value.hint
