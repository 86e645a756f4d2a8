# SPDX-License-Identifier: Apache-2.0
"""Planted mistakes are found where they are; their correct twins are clean."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from support.command_line import ROOT
from support.planted_mistakes import COMPUTE, MISTAKES, READER, WRITER, Planted, host, program
from support.scan_sources import DATA, rules_in, scan_folder, write_program
from ttmem.circular_buffers.scan import rules
from ttmem.circular_buffers.scan.rules import RULES, ScanRule

NAMES = [f"{mistake.rule} {mistake.name}" for mistake in MISTAKES]


@pytest.mark.parametrize("mistake", MISTAKES, ids=NAMES)
def test_the_mistake_is_found_where_it_is(mistake: Planted, tmp_path: Path) -> None:
    found = scan_folder(
        write_program(tmp_path, mistake.bad), l1_tensor_bytes=mistake.l1_tensor_bytes, **mistake.bindings
    )
    named = [one for one in found.findings if one.rule == mistake.rule]
    file, piece = mistake.where
    lines = [Path(one.file).read_text().splitlines()[one.line - 1] for one in named if one.file == str(tmp_path / file)]
    assert any(piece in line for line in lines), [(one.rule, one.file, one.line, one.message) for one in found.findings]
    assert all(one.why and one.fix and one.message for one in named)


@pytest.mark.parametrize("mistake", MISTAKES, ids=NAMES)
def test_its_correct_twin_is_clean(mistake: Planted, tmp_path: Path) -> None:
    found = scan_folder(
        write_program(tmp_path, mistake.good), l1_tensor_bytes=mistake.l1_tensor_bytes, **mistake.bindings
    )
    assert [(one.rule, one.file, one.line, one.message) for one in found.findings] == []


def test_every_rule_has_a_planted_mistake() -> None:
    assert {mistake.rule for mistake in MISTAKES} == set(RULES)


def test_no_rule_of_the_folder_is_forgotten() -> None:
    # GIVEN every rule that a module of the folder defines
    modules = [import_module(f"{rules.__name__}.{module.name}") for module in iter_modules(rules.__path__)]
    defined = {value.identifier for module in modules for value in vars(module).values() if isinstance(value, ScanRule)}
    # THEN the registry has it, in order, with all its texts and at least one check
    assert list(RULES) == [f"R{number}" for number in range(1, len(defined) + 1)]
    assert defined == set(RULES)
    for rule in RULES.values():
        assert all((rule.title, rule.why, rule.fix))
        assert rule.severity in ("error", "warning")
        assert rule.kernel or rule.program or rule.joined


def test_the_manual_lists_the_rules_as_they_are() -> None:
    manual = (ROOT / "docs" / "cb-scan.md").read_text()
    for rule in RULES.values():
        title = f"{rule.title[0].lower()}{rule.title[1:]}" + (f": {rule.detail}" if rule.detail else "")
        severity = rule.severity + (f", warning {rule.warning_when}" if rule.warning_when else "")
        assert f"| {rule.identifier} | {title} | {severity} |" in manual
    assert manual.count("\n| R") == len(RULES)


@pytest.mark.parametrize("name", ["fixed_add", "adaptive_add", "descriptor", "dataflow", "helpers"])
def test_the_example_programs_are_clean(name: str) -> None:
    assert rules_in(scan_folder(DATA / name)) == []


def test_dataflow_buffers_are_joined_by_their_binding(tmp_path: Path) -> None:
    # GIVEN a program whose kernels take a row at a time, and a destination of half a row
    files = {str(path.relative_to(DATA / "dataflow")): path.read_text() for path in (DATA / "dataflow").rglob("*.cpp")}
    files["factory.cpp"] = files["factory.cpp"].replace("make_dfb(DST, width_tiles", "make_dfb(DST, width_tiles / 2")
    # WHEN the width is known THEN half a row is too small for a step of a row
    found = scan_folder(write_program(tmp_path, files), width=256)
    assert {(one.rule, Path(one.file).name) for one in found.findings} == {
        ("R1", "compute_scale.cpp"),
        ("R1", "writer_scale.cpp"),
    }
    # AND while it is not, nothing is claimed
    assert rules_in(scan_folder(tmp_path)) == []


def test_expressions_are_compared_without_their_values(tmp_path: Path) -> None:
    # GIVEN a buffer of a row and kernels that take two rows, all in terms of one unknown
    files = {str(path.relative_to(DATA / "dataflow")): path.read_text() for path in (DATA / "dataflow").rglob("*.cpp")}
    files["kernels/writer_scale.cpp"] = files["kernels/writer_scale.cpp"].replace("front(Wt)", "front(2 * Wt)")
    found = scan_folder(write_program(tmp_path, files))
    assert ("R1", "writer_scale.cpp") in {(one.rule, Path(one.file).name) for one in found.findings}


def test_names_bound_by_the_user_reach_the_kernels(tmp_path: Path) -> None:
    reader = READER.replace("i < 8", "i < tiles").replace(
        "constexpr uint32_t cb_in", "uint32_t tiles = get_arg_val<uint32_t>(0);\n        constexpr uint32_t cb_in"
    )
    folder = write_program(tmp_path, program(reader=reader))
    assert rules_in(scan_folder(folder)) == []
    assert rules_in(scan_folder(folder, tiles=8)) == []
    assert rules_in(scan_folder(folder, tiles=7)) == ["R4"]


def test_a_buffer_handed_to_an_unknown_function_is_given_the_benefit_of_the_doubt(tmp_path: Path) -> None:
    compute = COMPUTE.replace("            cb_pop_front(cb_in, 1);\n", "            finish_tiles_of(cb_in);\n").replace(
        "finish_tiles_of", "finish"
    )
    found = scan_folder(write_program(tmp_path, program(compute=compute)))
    assert rules_in(found) == []


def test_kernels_that_nobody_names_belong_to_the_only_program_around(tmp_path: Path) -> None:
    bare = host((0, 2), (16, 2), kernels=())
    deep = READER.replace("(cb_in, 1)", "(cb_in, 3)")
    found = scan_folder(write_program(tmp_path, program(bare, reader=deep)))
    assert "R1" in rules_in(found)


def test_objects_and_free_functions_are_the_same(tmp_path: Path) -> None:
    reader = """
        FORCE_INLINE void fill(CircularBuffer& buffer, uint32_t pages) {
            buffer.reserve_back(pages);
            noc.async_read(source, buffer, 2048, {.page_id = 0}, {.offset_bytes = 0});
            noc.async_read_barrier();
            buffer.push_back(pages);
        }
        void kernel_main() {
            CircularBuffer in(tt::CBIndex::c_0);
            for (uint32_t i = 0; i < 2; ++i) { fill(in, 4); }
        }
    """
    assert "R1" in rules_in(scan_folder(write_program(tmp_path / "bad", program(reader=reader))))
    good = program(host((0, 4), (16, 2)), reader=reader)
    assert rules_in(scan_folder(write_program(tmp_path / "good", good))) == []


def test_a_kernel_that_is_understood_in_part_is_not_judged_as_a_whole(tmp_path: Path) -> None:
    torn = WRITER.replace("            cb_pop_front(cb_out, 1);\n", "            @@@ macro soup ((( \n")
    found = scan_folder(write_program(tmp_path, program(writer=torn)))
    assert "R7" not in rules_in(found)
    assert [Path(one).name for one in found.broken] == ["writer.cpp"]


def test_a_condition_may_choose_the_kernel(tmp_path: Path) -> None:
    # GIVEN a program that takes one of two readers, one of them in steps that do not fit
    files = program()
    files["host.cpp"] = files["host.cpp"].replace(
        '"kernels/reader.cpp"', 'wide ? "kernels/wide.cpp" : "kernels/reader.cpp"'
    )
    files["kernels/wide.cpp"] = READER.replace("(cb_in, 1)", "(cb_in, 4)")
    found = scan_folder(write_program(tmp_path, files))
    # THEN that one is reported, and totals of kernels that may not run together are not compared
    assert {(one.rule, Path(one.file).name) for one in found.findings} == {("R1", "wide.cpp")}
