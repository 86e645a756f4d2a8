# SPDX-License-Identifier: Apache-2.0
"""``ttmem ops map``: List the ttnn call of each operator, and what is supported."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands.options import board_option, json_option, python_option, quiet_option
from ttmem.commands.ops._common import folder_at, statuses_on_mock, write_files
from ttmem.commands.output import color_wanted, columns, emit, json_text, note
from ttmem.commands.command_line import verb

if TYPE_CHECKING:
    from ttmem.operators.case_program import Recipe
    from ttmem.operators.mapping import Cells


@verb("""
ttmem ops map
ttmem ops map cases.jsonl
ttmem ops map cases.jsonl -o mapping --engine mock --board n150
ttmem ops map --json
""")
@click.argument("cases", required=False, metavar="[CASES]")
@json_option
@click.option("-o", "--output", metavar="DIR", help="Write the mapping files and the compatibility matrix there.")
@click.option("--engine", type=click.Choice(["mock"]), help="Try each operator's example on the real ttnn, on a mock.")
@board_option("The mock board for --engine.")
@python_option()
@quiet_option
def command(cases: str | None, as_json: bool, output: str | None, engine: str | None, quiet: bool, **mock: Any) -> None:
    """List the ttnn call of every aten operator, its kind and what is supported.

    With CASES (from 'ttmem ops extract'): the operators used there, how often, and how many cases can be run. -o writes
    basic_operators.json, operator_mapping.json, mapping_analysis.json and compatibility_matrix.md. --engine mock calls
    each operator's example in both memories and layouts.
    """
    from ttmem.operators.case_files import read_cases
    from ttmem.operators.mapping import map_cases
    from ttmem.reports.ops import map as ops_map

    folder = None if output is None else folder_at(output)
    listed = read_cases(cases) if cases else None
    wanted = {case.op for case in listed} if listed is not None else None
    tried = _tried(wanted, quiet=quiet, **mock) if engine else None
    mapped = map_cases(listed, tried)
    if folder is not None:
        documents = {
            "basic_operators.json": ops_map.basic_operators(mapped),
            "operator_mapping.json": ops_map.operator_mapping(mapped),
            "mapping_analysis.json": ops_map.mapping_analysis(mapped),
        }
        files = {name: json_text(document) + "\n" for name, document in documents.items()}
        write_files(folder, {**files, "compatibility_matrix.md": ops_map.matrix_markdown(mapped)})
        note(f"written to {output}: the mapping files and compatibility_matrix.md", quiet=quiet)
    if as_json:
        emit(json_text(ops_map.document(mapped)), None)
    elif output is None:
        emit(ops_map.render(mapped, width=columns(), color=color_wanted(sys.stdout)), None)


def _tried(wanted: set[str] | None, **mock: Any) -> dict[str, Cells]:
    """Every example in every cell, on the real library."""
    from ttmem.operators.case_program import recipe_of
    from ttmem.operators.catalogue_entries import DEVICE, catalogue
    from ttmem.operators.mapping import CELLS

    asked = [
        (operator, cell)
        for operator in catalogue().operators.values()
        if operator.support == DEVICE and (wanted is None or operator.aten in wanted)
        for cell in CELLS
    ]
    recipes = [recipe_of(operator.example_case(), memory=memory, layout=layout) for operator, (memory, layout) in asked]
    statuses, _ = statuses_on_mock(recipes, "trying", **mock)
    tried: dict[str, dict[tuple[str, str], str]] = {}
    for (operator, cell), recipe, status in zip(asked, recipes, statuses, strict=True):
        tried.setdefault(operator.aten, {})[cell] = _cell(status, recipe, cell[1])
    return dict(tried)


def _cell(status: str, recipe: Recipe, layout: str) -> str:
    """A call whose inputs must have the other layout was not tried in this one."""
    layouts = {tensor.layout for tensor in recipe.inputs if not tensor.on_host}
    if layouts and layout not in layouts:
        return "tile only" if layout == "row_major" else "row-major only"
    return status
