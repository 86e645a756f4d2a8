# SPDX-License-Identifier: Apache-2.0
"""The knowledge tests itself: its examples, its sentences, its expressions and its evidence."""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

from support.failure_classes import CLASSES
from support.failure_examples import EXAMPLES, Example
from ttmem.base.expression import find_names
from ttmem.failures.diagnosis.diagnose import Diagnosis, diagnose
from ttmem.failures.diagnosis.failure_state import LiveTensor
from ttmem.failures.diagnosis.savings import COMPUTATIONS
from ttmem.failures.knowledge.tables import (
    REGION,
    REQUEST,
    ROOM,
    ArithmeticRow,
    FindingRule,
    Headline,
    Quantity,
    RemedyRule,
    Template,
    find_rules,
    list_expressions,
    load_entries,
)
from ttmem.failures.text.context import read_context
from ttmem.failures.text.find import find_failures
from ttmem.failures.text.template import list_slots, parse

KNOWN_NAMES = {
    "memory", "template", "failure_class", "architecture", "board", "operation", "place", "sweep_status", "note",
    "file", "condition", "signal", "killer", "buffer_family", "l1_base", "l1_base_error", "worst_l1_base",
    "l1_base_address", "whole_tiles_base_address", "least_l1_base_address", "most_l1_base_address",
    "l1_small_bytes", "l1_bytes_per_core", "max_circular_buffers", "dram_banks", "grid_cores",
    "trace_region_bytes_per_bank", "least_trace_region_bytes_per_bank", "profiler_bytes_per_bank",
    "range_cores", "range_start_x", "range_end_x", "range_end_y", "tensor_confidence", "tensor_text", "tensor_dtype",
    "tensor_layout", "tensor_shape", "tensor_width", "tensor_is_logits", "page_bytes", "pages", "padding_ratio",
    "family", "call", "has_no_result", "phase", "compiler", "repeats",
    "setting_l1_small_size", "setting_trace_region_size", "setting_worker_l1_size", "overlap_bytes",
    "largest_bank_bytes", "paraphrase",
    "live_tensors", "live_bytes_per_bank", "live_weight_bytes_per_bank", "idle_tensors", "idle_bytes_per_bank",
}  # fmt: skip
"""What ``situation`` gives a name; the rest comes from templates, quantities and computations."""
COMPUTED_NAMES = {
    "count",
    "next_lowest",
    "parts",
    "after_bytes_per_bank",
    "which",
    "made",
    "weights",
    "idle",
    "tensors",
}


def explained(example: Example) -> Diagnosis:
    (failure,) = find_failures(example.text, include_other=True)
    context = read_context(example.text)
    return diagnose(
        failure,
        board=example.board,
        context=replace(context, hints={**context.hints, **example.hints}),
        live=[LiveTensor(**{**tensor, "shape": tuple(tensor.get("shape", ()))}) for tensor in example.live],
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.thread} {example.failure_class}")
def test_every_example_is_explained_as_it_says(example: Example) -> None:
    diagnosis = explained(example)
    assert diagnosis.failure.failure_class == example.failure_class
    assert set(example.finds) <= {finding.id for finding in diagnosis.findings}
    order = [remedy.id for remedy in diagnosis.remedies if remedy.id in example.remedies]
    assert order == list(example.remedies)
    saved = {remedy.id: remedy.saves_bytes_per_bank for remedy in diagnosis.remedies}
    assert {name: saved.get(name) for name in example.saves_per_bank} == dict(example.saves_per_bank)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.thread} {example.failure_class}")
def test_sentences_of_examples_are_finished(example: Example) -> None:
    diagnosis = explained(example)
    remedies = [text for remedy in diagnosis.remedies for text in (remedy.do, remedy.why)]
    for text in (diagnosis.headline, *(finding.text for finding in diagnosis.findings), *remedies):
        assert "{" not in text
        assert re.fullmatch(r"\S.*[.)]", text), text
        assert "  " not in text


def test_everything_that_can_be_said_is_shown_by_an_example() -> None:
    shown = {name for example in EXAMPLES for name in example.finds}
    assert {rule.id for rule in load_entries(FindingRule)} == shown | {"by-its-words"}  # test_paraphrases.py
    assert {rule.id for rule in load_entries(RemedyRule)} == {name for example in EXAMPLES for name in example.remedies}


def test_names_are_unique_and_rules_are_for_classes_that_exist() -> None:
    for rules in (load_entries(FindingRule), load_entries(RemedyRule)):
        assert len({rule.id for rule in rules}) == len(rules)
    for kind in (Quantity, Headline, ArithmeticRow, FindingRule, RemedyRule):
        for rule in load_entries(kind):
            for pattern in rule.classes:
                assert any(fnmatchcase(name, pattern) and rule in find_rules(kind, name) for name in CLASSES), (
                    rule,
                    pattern,
                )


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_has_something_to_say(name: str) -> None:
    assert find_rules(Headline, name)
    assert find_rules(RemedyRule, name)


def test_expressions_use_names_that_exist() -> None:
    known = set(KNOWN_NAMES)
    known |= {
        slot.name for template in load_entries(Template) for slot in list_slots(parse(template.text)) if slot.name
    }
    known |= {quantity.name for quantity in load_entries(Quantity)}
    used: dict[str, str] = {}
    for quantity in load_entries(Quantity):
        used |= dict.fromkeys(find_names(quantity.value), quantity.name)
    for rule in (*load_entries(Headline), *load_entries(FindingRule), *load_entries(RemedyRule)):
        if rule.when:
            used |= dict.fromkeys(find_names(rule.when), str(rule))
    for row in load_entries(ArithmeticRow):
        for expression in (row.value, *(e for text in (row.label, *row.notes) for e in list_expressions(text))):
            used |= dict.fromkeys(find_names(expression), row.label)
    sentences = [*(rule.say for rule in load_entries(Headline)), *(rule.say for rule in load_entries(FindingRule))]
    for text in sentences:
        used |= {name: text for expression in list_expressions(text) for name in find_names(expression)}
    assert {name: where for name, where in used.items() if name not in known} == {}
    for remedy in load_entries(RemedyRule):
        texts = (*remedy.do, *remedy.why, remedy.caution)
        names = {name for text in texts for expression in list_expressions(text) for name in find_names(expression)}
        allowed = known | (COMPUTED_NAMES if remedy.computes else set())
        assert names <= allowed, (remedy.id, names - allowed)


def test_computations_and_effects_exist() -> None:
    for remedy in load_entries(RemedyRule):
        assert not remedy.computes or remedy.computes.partition(":")[0] in COMPUTATIONS, remedy.id
        assert not (remedy.computes and remedy.saves_per_bank), remedy.id
        assert remedy.effect in (REQUEST, ROOM, REGION), remedy.id


def test_evidence_names_threads() -> None:
    for rule in (*load_entries(FindingRule), *load_entries(RemedyRule)):
        for thread in rule.evidence:
            assert re.fullmatch(r"[\w.-]+#\d+", thread), (rule.id, thread)
    # A remedy without a thread that shows it is the exception.
    without = [rule.id for rule in load_entries(RemedyRule) if not rule.evidence]
    assert len(without) * 10 <= len(load_entries(RemedyRule)), without
