# SPDX-License-Identifier: Apache-2.0
"""How a diagnosis looks: terminal, Markdown for an agent, issue report, picture to scale."""

from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from support.failure_examples import EXAMPLES
from support.failure_messages import CASES
from ttmem._version import __version__
from ttmem.failures.diagnosis.diagnose import Diagnosis, diagnose, explain
from ttmem.failures.diagnosis.failure_state import LiveTensor
from ttmem.failures.diagnosis.memory_diagram import Picture, Stretch
from ttmem.failures.text.find import find_failures
from ttmem.reports import explain as explain_report
from ttmem.reports import explain_document
from ttmem.reports.explain import draw_picture
from ttmem.reports.explain_privacy import mask_private_text
from unit.failures.test_context import PYTEST

FRAGMENTED = (
    "Out of Memory: Not enough space to allocate 3294625792 B DRAM buffer across 12 banks, where each bank needs to "
    "store 274686208 B, but bank size is 1071821792 B (allocated: 784847680 B, free: 286974112 B, largest free block: "
    "216504544 B)"
)
CLASH = (
    "Statically allocated circular buffers in program 38 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer "
    "allocated at 875008 and static circular buffer region ends at 949664"
)
OVERFLOW = (
    "Statically allocated circular buffers on core range [(x=0,y=0) - (x=0,y=0)] grow to 6538016 B which is beyond max "
    "L1 size of 1499136 B"
)


def clash_with_tensors() -> Diagnosis:
    live = [
        LiveTensor("activation", "L1", 400_000, (1, 1, 3200, 64), "bfloat16", "tile", address=875_008),
        LiveTensor("weights", "L1", 100_000, (64, 64), "bfloat16", "tile", is_weight=True, address=1_399_136),
    ]
    (failure,) = find_failures(CLASH)
    return diagnose(failure, board="n150", live=live)


@pytest.mark.parametrize("text", [FRAGMENTED, CLASH, OVERFLOW, PYTEST], ids=["oom", "clash", "overflow", "pytest"])
def test_the_look_at_eighty_columns(text: str, snapshot: SnapshotAssertion) -> None:
    assert explain_report.render_terminal(explain(text), width=80) == snapshot


def test_the_look_with_what_was_alive(snapshot: SnapshotAssertion) -> None:
    assert explain_report.render_terminal([clash_with_tensors()], width=80) == snapshot


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 300])
@pytest.mark.parametrize("case", CASES[::4], ids=lambda case: case.thread)
def test_no_line_is_wider_than_the_terminal(case: object, width: int) -> None:
    text = explain_report.render_terminal(explain(case.message), width=width, ascii_only=True)  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= max(width, 40)
    assert text.isascii()


def test_colour_adds_nothing_but_colour() -> None:
    plain = explain_report.render_terminal(explain(FRAGMENTED), width=80)
    coloured = explain_report.render_terminal(explain(FRAGMENTED), width=80, color=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert "\x1b" not in plain


def test_the_picture_is_to_scale() -> None:
    # GIVEN a core whose buffers take a half, tensors a quarter, and a quarter is free
    picture = Picture(
        "L1",
        1000,
        (Stretch("buffers", 0, 500, "b"), Stretch("free", 500, 750, "h"), Stretch("tensors", 750, 1000, "t")),
        Stretch("request", 0, 400, "r"),
    )
    # WHEN it is drawn on 100 cells
    _, bar, request, *_ = draw_picture(picture, width=104, ascii_only=True)
    # THEN each gets its share
    assert "".join(text for text, _ in bar) == "#" * 50 + "_" * 25 + "@" * 25
    assert "".join(text for text, _ in request) == "R" * 40


def test_what_is_tiny_still_shows() -> None:
    picture = Picture("L1", 1_000_000, (Stretch("buffers", 0, 10, "b"), Stretch("overlap", 10, 11, "x")), None)
    bar = "".join(text for text, _ in draw_picture(picture, width=60, ascii_only=True)[1])
    assert bar == "#X"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.thread} {example.failure_class}")
def test_every_example_can_be_shown_in_every_form(example: object) -> None:
    found = explain(example.text)  # type: ignore[attr-defined]
    for text in (
        explain_report.render_terminal(found),
        explain_report.render_markdown(found),
        explain_report.render_issue(found),
    ):
        assert text.endswith("\n")
        assert found[0].failure.failure_class in text
        assert "None" not in text


def test_markdown_for_an_agent(snapshot: SnapshotAssertion) -> None:
    assert explain_report.render_markdown(explain(FRAGMENTED)) == snapshot


def test_markdown_stays_within_its_budget() -> None:
    found = [diagnosis for case in CASES for diagnosis in explain(case.message)]
    text = explain_report.render_markdown(found * 3)
    assert len(text.encode()) < 30_000, "the answer for a model has at most 30,000 bytes: shorten lists, not sentences"
    assert "more failures (`--json` lists all)" in text


def test_the_issue_report_has_what_a_maintainer_asks_for(snapshot: SnapshotAssertion) -> None:
    report = explain_report.render_issue(explain(PYTEST), private_names=["alice"])
    assert report.replace(__version__, "VERSION") == snapshot


def test_the_issue_report_has_nothing_private() -> None:
    # GIVEN a log full of a person's and a company's things
    text = (
        f"alice@buildbox-17.corp.example.com:~/secret$ pytest /home/alice/secret/model.py\nhost: buildbox-17\n"
        f"10.12.13.14:8000 fe80:0:0:0:1:2:3:4 https://git.example.com/alice/secret?token=abc\n{PYTEST}\n"
        "C:\\Users\\alice\\model.py ../../alice/x /data/alice/weights.bin aa:bb:cc:dd:ee:ff"
    )
    report = explain_report.render_issue(explain(text), private_names=["alice", "buildbox-17"])
    for private in ("alice", "secret", "buildbox", "example.com", "10.12", "fe80", "token", "/home", "C:\\", "aa:bb"):
        assert private not in report, private
    assert "program.cpp:1779" in report


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("TT_FATAL @ /__w/tt_metal/impl/bank_manager.cpp:462: false", "TT_FATAL @ bank_manager.cpp:462: false"),
        ("loc(\"/home/me/model.py\":12:0)", "loc(\"model.py\":12:0)"),
        ("cd /home/me && ls", "cd <path> && ls"),
        ("see https://example.org/x", "see <url>"),
        ("me@box.local wrote", "<user>@<host> wrote"),
        ("hostname=box7 rank 3", "hostname=<name> rank 3"),
        ("ttnn.conv2d on core range [0-0 - 7-7]", "ttnn.conv2d on core range [0-0 - 7-7]"),
        ("q/k chunk sizes, in/out 3/4", "q/k chunk sizes, in/out 3/4"),
        ("version 0.81.1 at 12:30:45", "version 0.81.1 at 12:30:45"),
        ("L1 buffer allocated at 709760", "L1 buffer allocated at 709760"),
    ],
)  # fmt: skip
def test_what_counts_as_private(text: str, public: str) -> None:
    assert mask_private_text(text) == public


def test_own_names_go_only_as_whole_words() -> None:
    assert mask_private_text("bob said bobsled, BOB", names=["bob", "root", "x"]) == "<name> said bobsled, <name>"
    assert mask_private_text("the root cause", names=["root"]) == "the root cause"


def test_an_explanation_of_nothing_known_is_a_document_too() -> None:
    (found,) = explain_document.build_document(explain("the weather is fine"))
    answer = found.to_json()
    assert (answer["schema"], answer["class"], answer["line"]) == ("ttmem.explanation/1", "none", None)


def test_a_clash_on_an_unknown_chip_is_drawn_without_a_scale() -> None:
    text = (
        "Statically allocated circular buffers in program 38 clash with L1 buffers on core range [0-0 - 3-3]. "
        "L1 buffer allocated at 875008 and static circular buffer region ends at 949664"
    )
    (told,) = explain(text)
    assert told.board.architecture is None
    shown = explain_report.render_terminal([told], width=100)
    assert "L1 of one core, size unknown; not to scale" in shown
    assert "unknown  tensors and free blocks up to the end of L1" in shown
    assert "one cell is" not in shown
    assert explain_document.build_document([told])[0].to_json()["picture"]["end"] is None
    # AND with a board it is to scale again
    (known,) = explain(text, board="n150")
    assert "L1 of one core, 1,499,136 B; one cell is" in explain_report.render_terminal([known], width=100)
