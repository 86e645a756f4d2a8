# SPDX-License-Identifier: Apache-2.0
"""The knowledge tests itself: every sentence in it is written out and has to be read back."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.examples import examples
from support.failure_classes import CLASSES
from ttmem.failures.knowledge.tables import FailureClass, Template, load_entries
from ttmem.failures.text import template as template_language
from ttmem.failures.text.find import find_failures
from ttmem.failures.text.scan import FAILURE_WORDS
from ttmem.failures.text.template import Slot, TemplatePiece, find_matches, list_slots, parse

VALUES = {
    "word": st.sampled_from(["softmax", "ttnn.conv2d", "python3"]),
    "text": st.sampled_from(["[32, 32]", "reader_unary.cpp", "buffers allocated during trace capture"]),
    "range": st.sampled_from(["[(x=0,y=0) - (x=7,y=7)]", "[0-0 - 10-9]", "{[0-0 - 7-7], [0-8 - 3-8]}"]),
    "core": st.sampled_from(["(x=0,y=0)", "3-4"]),
    "version": st.sampled_from(["18.10.0", "19.8"]),
}


def value(draw: st.DrawFn, slot: Slot) -> str:
    if slot.choices:
        return draw(st.sampled_from(slot.choices))
    if slot.kind == "hex":
        return hex(draw(st.integers(0, 2**40)))
    if slot.is_number:
        return str(draw(st.integers(0, 10**13)))
    return draw(VALUES[slot.kind])


def written(draw: st.DrawFn, parts: tuple[TemplatePiece, ...], values: dict[str, str]) -> str:
    out = []
    for part in parts:
        if part.slot is not None:
            text = value(draw, part.slot)
            if part.slot.name:
                values[part.slot.name] = text
            out.append(text)
        else:
            out.append(part.text or written(draw, part.optional, values))
    return "".join(out)


@st.composite
def prints(draw: st.DrawFn, template: Template) -> tuple[str, dict[str, str]]:
    """A sentence with all its parts, and the values put into it."""
    values: dict[str, str] = {}
    return written(draw, parse(template.text), values), values


@pytest.mark.parametrize("template", load_entries(Template), ids=lambda template: template.id)
@given(data=st.data())
@examples(12)
def test_every_sentence_is_read_back(template: Template, data: st.DataObject) -> None:
    # GIVEN the whole sentence on a line of its own
    sentence, values = data.draw(prints(template))
    if template.failure_class == "buffers/clash":
        assume(int(values["l1_buffer_address"]) < int(values["region_end"]))
    # WHEN it is read
    (failure,) = find_failures(sentence, include_other=True)
    # THEN it is this template, or a fuller wording of the same family, with every figure and word
    same_family = {other.id for other in load_entries(Template) if other.family == template.family}
    assert failure.template in same_family
    by_figures = template.failure_class == "oom" or values.get("exit_code") == "137"
    assert failure.failure_class == template.failure_class or by_figures
    factors = {slot.name: slot.factor for slot in list_slots(parse(template.text)) if slot.is_number}
    for name, factor in factors.items():
        if name:
            assert failure.numbers[name] == int(values[name], 0) * factor
    for name in ("core_range", "buffer_family", "core", "axis"):
        if name in values:
            assert failure.texts[name] == values[name]
    assert failure.memory == values.get("memory", template.memory)


# What begins a failure in a log: errors, and the one warning that can explain a wrong result.
BEGINNINGS = [
    template
    for template in load_entries(Template)
    if (template.rank == "error" and template.id != "Z6") or template.id == "T4"  # Z6: memory never causes SIGILL
]
ALWAYS_WRAPPED = {
    "A0", "C0a", "C0b", "C0c", "C3", "C2b", "C2c",  # seen inside exception texts only
    "Z8", "Z11", "Z12", "Z13", "Z14", "Z15", "Z16", "Z17", "Z18", "Z19", "Z20", "Z21",  # CI's and Python's words
}  # fmt: skip


@pytest.mark.parametrize("template", BEGINNINGS, ids=lambda template: template.id)
@given(data=st.data())
@examples(6)
def test_every_line_that_begins_a_failure_has_a_failure_word(template: Template, data: st.DataObject) -> None:
    # GIVEN the sentence as a log prints it: bare for the common families and for what a shell says, else in an envelope
    sentence, _ = data.draw(prints(template))
    assume("Illegal instruction" not in sentence)
    bare = template.family in ("oom", "clash", "overflow", "crash") and template.id not in ALWAYS_WRAPPED
    line = sentence if bare else f"2026-05-14 01:00:31.755 | critical | Always | TT_FATAL: {sentence} (assert.hpp:104)"
    # WHEN / THEN
    assert any(word in line.encode() for word in FAILURE_WORDS)


def test_ids_are_unique_and_classes_are_those_of_the_contract() -> None:
    ids = [template.id for template in load_entries(Template)]
    assert len(ids) == len(set(ids))
    assert sorted(known.name for known in load_entries(FailureClass)) == sorted(CLASSES)
    assert {template.failure_class for template in load_entries(Template)} <= {*CLASSES, "oom"}
    assert {template.rank for template in load_entries(Template)} == {"error", "warning", "wrapper", "chatter"}
    assert {template.place for template in load_entries(Template)} == {
        "anywhere",
        "itself",
        "line",
        "line-start",
        "line-end",
    }
    assert {template.memory for template in load_entries(Template)} <= {None, "DRAM", "L1", "L1_SMALL", "TRACE"}


def test_every_class_but_the_derived_ones_has_a_wording() -> None:
    derived = {"oom/fragmented", "oom/unconfigured"}
    assert set(CLASSES) - {template.failure_class for template in load_entries(Template)} == derived


def test_classes_are_explained_in_one_sentence() -> None:
    for known in load_entries(FailureClass):
        assert re.fullmatch(r"[A-Z].{20,140}\.", known.meaning), known


@pytest.mark.parametrize("text", ["[[lead]]{n} first", "abcd [[open", "abcd ]] closed", "abcd {n:colour}", "{n} abc"])
def test_malformed_templates_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"template|begin"):
        list(find_matches(text, "abcd 1"))


@pytest.mark.parametrize("template_id", ["A1", "C1", "C2"])
@given(data=st.data())
@examples(25)
def test_format_strings_with_their_arguments_below(template_id: str, data: st.DataObject) -> None:
    # GIVEN a build of spring 2024: the format string first, then one argument per line
    (template,) = [template for template in load_entries(Template) if template.id == template_id]
    sentence, values = data.draw(prints(template))
    if template_id == "C1":
        assume(int(values["l1_buffer_address"]) < int(values["region_end"]))
    formatted = sentence
    for name, text in values.items():
        if name != "buffer_family":
            formatted = re.sub(rf"(?<= ){re.escape(text)}(?=\W|$)", "{}", formatted, count=1)
    arguments = [text for name, text in values.items() if name != "buffer_family"]
    assume(formatted.count("{}") == len(arguments))
    margin = data.draw(st.sampled_from(["E       ", "", "2024-04-29T00:00:00.0Z "]))
    text = "\n".join(margin + line for line in [formatted, *arguments, "backtrace:", " --- frame"])
    # WHEN / THEN it is the failure that a later build would have printed
    (expected,) = find_failures(sentence)
    (failure,) = find_failures(text)
    assert (failure.failure_class, failure.memory) == (expected.failure_class, expected.memory)
    assert failure.numbers == expected.numbers
    assert failure.texts == expected.texts
    assert failure.message.endswith(arguments[-1])


def test_a_format_string_alone_has_no_figures() -> None:
    (failure,) = find_failures(
        "RuntimeError: TT_THROW @ tt_metal/impl/program/program.cpp:483: tt::exception Statically allocated circular "
        "buffers in program {} clash with L1 buffers on core range {}. L1 buffer allocated at {} and static circular "
        "buffer region ends at {}"
    )
    assert (failure.failure_class, dict(failure.numbers)) == ("buffers/clash", {})
    assert failure.texts == {"buffer_family": "circular", "file": "program.cpp:483"}


def test_every_kind_of_slot_is_documented() -> None:
    documented = re.findall(r"^- ``([a-z]+)``:", template_language.__doc__ or "", re.MULTILINE)
    assert documented == list(template_language.SLOT_KINDS), (
        "the docstring of failures/text/template.py lists the kinds of slots: describe each kind of SLOT_KINDS there"
    )
