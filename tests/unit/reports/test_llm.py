# SPDX-License-Identifier: Apache-2.0
"""The Markdown for agents: fixed headings, bounded length, cells that stay cells."""

from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from support.build_profile import MIB, ProfileBuilder, tensor
from support.profile_stories import ALL, OOM, hostile, many_weights, two_layers, without_operations, without_states
from ttmem.profile.model import Profile
from ttmem.reports import profile_text

SECTIONS = [
    "## Configuration",
    "## Peak Memory",
    "## Top 10 Memory Consumers (DRAM)",
    "## Top 10 Padding Overhead",
    r"## Model Weights \((?:[\d,]+\.\d{3}|unknown) MB total\)",
    "## Operation Distribution",
]


def headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


def has_sections(text: str, *more: str, l1: bool = False) -> bool:
    """L1's consumers follow those of DRAM where the source knows them."""
    sections = [*SECTIONS[:3], *(["## Top 10 Memory Consumers (L1)"] if l1 else []), *SECTIONS[3:], *more]
    wanted = [re.escape(section) if "\\" not in section else section for section in sections]
    found = headings(text)[1:]
    return len(found) == len(wanted) and all(map(re.fullmatch, wanted, found))


def test_the_whole_report(snapshot: SnapshotAssertion) -> None:
    assert profile_text.render_markdown(two_layers(runs=6, leak_bytes=4096, failed=True)) == snapshot


def test_header_and_summary() -> None:
    lines = profile_text.render_markdown(two_layers()).splitlines()
    assert lines[:2] == ["# Memory Profile: two-layers", ""]
    assert lines[2] == (
        "> Peak DRAM: 0.370 MB/bank (0.4%) | Peak L1: 0.004 MB/bank | Ops: 10 | Weights: 2.002 MB"
        " | Padding Overhead: 0.4%"
    )


def test_what_is_unknown_is_not_called_nothing() -> None:
    # GIVEN a log with operations and no states, and a log with states and no operations
    silent, blind = ALL["without-states"](), ALL["without-operations"]()
    for profile in (silent, blind):
        document = profile.to_json()
        assert (document["weights"]["count"], document["weights"]["bytes"]) == (0, None)
        assert (
            profile_text.render_markdown(profile)
            .splitlines()[2]
            .endswith("Weights: unknown | Padding Overhead: unknown")
        )
        assert {document["padding"][key] for key in ("logical_bytes", "padded_bytes", "overhead_percent")} == {None}
        shown = " ".join(profile_text.render_terminal(profile).split())
        assert "Padding unknown" in shown
        assert "Weights unknown" in shown


@pytest.mark.parametrize("story", ALL)
def test_every_section_is_always_there_in_order(story: str) -> None:
    profile = ALL[story]()
    text = profile_text.render_markdown(profile)
    in_l1 = profile.to_json()["memories"].get("L1", {}).get("consumers")
    assert has_sections(text, *(["## Failure"] if story in ("failed", "hostile") else []), l1=bool(in_l1))
    assert bool(in_l1) == (story in ("two-layers", "failed", "leak"))
    assert text.endswith("\n")


def test_five_thousand_long_names_stay_within_eight_thousand_tokens() -> None:
    text = profile_text.render_markdown(many_weights())
    assert len(text) / 3.5 <= 8000
    assert len(text.encode()) <= 24_000
    assert has_sections(text, "## Failure")
    assert "4,9" in text  # says how many weights are not listed


def cells_per_table(text: str) -> set[bool]:
    """Return whether each table has rows of equal length; an escaped bar is no border."""
    even, table = set(), []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            table.append(len(re.findall(r"(?<!\\)\|", line.replace("\\\\", ""))))
        elif table:
            even.add(len(set(table)) == 1)
            table = []
    return even


def test_nasty_names_do_not_break_tables_or_headings() -> None:
    text = profile_text.render_markdown(hostile())
    assert cells_per_table(text) == {True}
    assert has_sections(text, "## Failure")
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\u202e" not in text


def of_peak(dram_mib: float, l1_percent: float = 0) -> Profile:
    build = ProfileBuilder()
    build.operation("ttnn.add", dram=int(dram_mib * MIB), l1=int(l1_percent * MIB / 100))
    return build.build()


@pytest.mark.parametrize(
    ("dram_mib", "l1_percent", "expected"),
    [
        (800, 90, []),
        (801, 0, ["DRAM peak 80.1% is above the 80% target: little headroom"]),
        (901, 0, ["DRAM peak 90.1% is above 90%: risk of OOM; reduce batch or model size, or shard the model"]),
        (
            0,
            91,
            ["L1 peak 91.0% is above the 90% target (circular buffers come on top, they are not in this figure)"],
        ),
        (0, 96, ["L1 peak 96.0% is above 95%: operations may fall back to DRAM or clash with circular buffers"]),
    ],
)
def test_a_note_where_a_target_is_missed(dram_mib: float, l1_percent: float, expected: list[str]) -> None:
    text = profile_text.render_markdown(of_peak(dram_mib, l1_percent))
    assert re.findall(r"^- Note: (.*)$", text, re.MULTILINE) == expected


def test_notes_on_leak_fragmentation_and_padding() -> None:
    build = ProfileBuilder(totals={"DRAM": 1000 * MIB})
    padded = tensor(1, 32)
    for number in range(5):
        with build.program("main"):
            level = number * MIB
            build.operation("ttnn.add", results={"%1": padded}, dram=(level, 1000 * MIB - level, 300 * MIB))
            build.operation("ttnn.deallocate", operands={"%1": padded}, dram=level + 2048)
    text = profile_text.render_markdown(build.build())
    found = re.findall(r"^- Note: (.*)$", text, re.MULTILINE)
    fragmented = (
        "DRAM is fragmented in 50.0% of the states (over 50% of the free bytes are outside the largest free block); "
        "worst 700.000 MB/bank at #0 ttnn.add"
    )
    assert found == [
        "Leak: DRAM starts each run +1.0000 MB/bank higher, over 3 runs that load nothing",
        fragmented,
        "Padding overhead 3,100.0% is above 50%: prefer trailing dimensions that are multiples of 32",
    ]


def test_what_the_source_does_not_tell_is_said() -> None:
    assert "Peak DRAM: n/a | Peak L1: n/a" in profile_text.render_markdown(without_states())
    assert "No memory state in the source." in profile_text.render_markdown(without_states())
    assert "No operation lines in the source." in profile_text.render_markdown(without_operations())


def test_a_command_to_run_next_is_quoted_for_the_shell() -> None:
    from dataclasses import replace

    profile = two_layers(runs=1)
    named = replace(profile, source=replace(profile.source, name="logs/my run.log"))
    assert "- Next: `ttmem profile 'logs/my run.log' --html report.html`" in profile_text.render_markdown(named)
    unprintable = replace(profile, source=replace(profile.source, name="a\nb"))
    assert "- Next: `ttmem profile SOURCE --html report.html`" in profile_text.render_markdown(unprintable)


def test_no_text_of_the_source_is_long_enough_to_break_the_bound() -> None:
    # GIVEN a source in which every name, shape and message is as long as it can be
    from dataclasses import replace

    build = ProfileBuilder(
        "n" * 5000,
        warnings=["w" * 9000] * 9,
        facts={"k" * 500 + str(number): "v" * 5000 for number in range(30)},
        totals={"DRAM": 10**6},
    )
    huge = replace(tensor(1, 1), shape=tuple(range(1, 900)), dtype="d" * 700)
    for number in range(200):
        build.argument("a" * 2000 + str(number), *range(1, 200), logical_bytes=5)
    with build.program("p" * 2000):
        for number in range(50):
            build.operation(
                "漢" * 4000 + str(number),
                results={f"%{number}": huge},
                location="l" * 9000,
                dram=(1000 * number, 10**6 - 1000 * number, 10),
            )
        build.fail(f"{OOM} {'é' * 9000}")
    # THEN
    text = profile_text.render_markdown(build.build())
    assert len(text.encode()) <= 24_000
    assert has_sections(text, "## Failure")
