# SPDX-License-Identifier: Apache-2.0
"""The CSV has a row per memory state and any CSV reader reads it."""

from __future__ import annotations

import csv
import io

import pytest

from support.build_profile import ProfileBuilder
from support.profile_stories import ALL, HOSTILE, hostile, two_ranks
from ttmem.reports import profile_timeline


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_rows_and_columns() -> None:
    build = ProfileBuilder(totals={"DRAM": 100, "L1": 50})
    build.before_submit(dram=1)
    with build.program("main"):
        build.operation("ttnn.add", location="a,b", dram=(10, 90, 80), l1=5)
        build.operation("ttnn.mul", dram=20)
    build.after_submit(dram=3)
    text = profile_timeline.render_csv(build.build())
    assert text == (
        "index,op,location,program,run,rank,line,"
        "dram_allocated_bytes_per_bank,dram_free_bytes_per_bank,dram_largest_free_bytes_per_bank,"
        "l1_allocated_bytes_per_bank,l1_free_bytes_per_bank,l1_largest_free_bytes_per_bank,"
        "l1_small_allocated_bytes_per_bank,l1_small_free_bytes_per_bank,l1_small_largest_free_bytes_per_bank,"
        "trace_allocated_bytes_per_bank,trace_free_bytes_per_bank,trace_largest_free_bytes_per_bank,"
        "state,caused_by_index\n"
        ",,,,0,,1,1,99,99,,,,,,,,,,before submit,\n"
        '0,ttnn.add,"a,b",main,0,,4,10,90,80,5,45,45,,,,,,,before operation,\n'
        "1,ttnn.mul,,main,0,,6,20,80,80,,,,,,,,,,before operation,0\n"
        ",,,,0,,8,3,97,97,,,,,,,,,,after submit,1\n"
    )


def test_ranks() -> None:
    assert [row["rank"] for row in rows(profile_timeline.render_csv(two_ranks()))] == ["0", "0", "1", "1"]


@pytest.mark.parametrize("story", ALL)
def test_every_row_has_every_column(story: str) -> None:
    profile = ALL[story]()
    found = list(csv.reader(io.StringIO(profile_timeline.render_csv(profile), newline="")))
    assert {len(row) for row in found} == {len(profile_timeline.CSV_HEADER)}
    assert len(found) == 1 + sum(len(timeline.state_kind) for timeline in profile.timelines)


def test_nasty_names_survive_the_round_trip() -> None:
    first = rows(profile_timeline.render_csv(hostile()))[0]
    assert (first["op"], first["location"], first["program"]) == (HOSTILE, HOSTILE, HOSTILE)
