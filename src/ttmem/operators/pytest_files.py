# SPDX-License-Identifier: Apache-2.0
"""pytest files from cases: one per operator, in the conventions of tt-metal's own unit tests."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

from ttmem._version import __version__
from ttmem.operators.bound import CannotRunError
from ttmem.operators.case import Case
from ttmem.operators.python_source import Built, Raw, call_source, flat, from_wire, laid_out
from ttmem.operators.recipe import DeviceTensor, Recipe, recipe_of

MEMORIES = ("DRAM", "L1")
STRICT = ("pass", "oom", "clash", "overflow", "invalid")
"""Outcomes that a test can hold the library to; a crash would end pytest itself."""

_LARGE_BYTES = 512 << 20
_SHORT_TYPES = {"bfloat16": "bf16", "float32": "f32", "bfloat8_b": "bfp8", "bfloat4_b": "bfp4"}
_CHANNELS_LAST = ("channels_last_rows", "channels_last", "channels_last_samples")

Outcomes = Mapping[str, Mapping[str, Mapping[str, str]]]
"""case id -> board -> memory -> status"""


@dataclass(frozen=True, slots=True)
class Predictions:
    """What an engine said beforehand, and of which devices."""

    outcomes: Outcomes = field(default_factory=dict)
    devices: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    """board -> memory -> (banks, bytes per bank)"""


@dataclass(frozen=True, slots=True)
class TestFiles:
    """Everything to write, and what could not be."""

    files: Mapping[str, str]
    tests: Mapping[str, int]
    """operator -> tests in its file"""
    left_out: tuple[tuple[str, str], ...]
    """(case id, reason)"""


@dataclass(frozen=True, slots=True)
class _Test:
    recipe: Recipe
    expected: Mapping[str, Mapping[str, str]]


def recipes_of(cases: Sequence[Case]) -> tuple[list[Recipe], list[tuple[str, str]]]:
    """What can be tested, and why the rest cannot."""
    made, left_out = [], []
    for case in cases:
        try:
            recipe = recipe_of(case)
        except CannotRunError as error:
            left_out.append((case.id, str(error)))
            continue
        if recipe.is_free:
            left_out.append((case.id, "the device has nothing to do"))
        else:
            made.append(recipe)
    return made, left_out


def test_files(cases: Sequence[Case], predictions: Predictions, *, l1_small_bytes: int) -> TestFiles:
    """One file per operator with tests, the two files they share, and the script that runs them all."""
    recipes, left_out = recipes_of(cases)
    groups: dict[str, dict[str, _Test]] = {}
    for recipe in recipes:
        expected = predictions.outcomes.get(recipe.case.id, {})
        bad = next((s for by_memory in expected.values() for s in by_memory.values() if s not in STRICT), "")
        if bad:
            left_out.append((recipe.case.id, f"{bad} on the mock board: it would end the test run"))
        else:
            _add(groups.setdefault(recipe.operator.aten, {}), _Test(recipe, expected))
    names = _file_names(groups)
    files = {names[aten]: _test_file(aten, list(tests.values())) for aten, tests in groups.items()}
    files["conftest.py"] = _template("conftest.py.txt").replace("@@L1_SMALL@@", str(l1_small_bytes))
    devices = {board: dict(memories) for board, memories in predictions.devices.items()}
    files["ttmem_cases.py"] = _template("ttmem_cases.py.txt").replace(
        "@@PREDICTED_ON@@", laid_out(devices, 0, len("PREDICTED_ON = "))
    )
    files["run_all_tests.sh"] = _template("run_all_tests.sh.txt")
    return TestFiles(files, {aten: len(tests) * len(MEMORIES) for aten, tests in groups.items()}, tuple(left_out))


test_files.__test__ = False  # type: ignore[attr-defined]  # pytest must not take it for a test


def _add(tests: dict[str, _Test], test: _Test) -> None:
    """Cases that differ only in the model's own types may be one and the same test on the device."""
    key = repr((test.recipe.steps, test.recipe.reference))
    before = tests.get(key)
    if before is None:
        tests[key] = test
        return
    users = replace(before.recipe.case, uses=(*before.recipe.case.uses, *test.recipe.case.uses))
    tests[key] = replace(before, recipe=replace(before.recipe, case=users))


def _template(name: str) -> str:
    return resources.files(__package__).joinpath("pytest_templates").joinpath(name).read_text("utf-8")


def _file_names(groups: Mapping[str, Any]) -> dict[str, str]:
    """``_softmax`` reads better without its underscore, unless that is another operator's name."""
    short = {aten: aten.lstrip("_") for aten in groups}
    doubled = {name for name in short.values() if list(short.values()).count(name) > 1}
    return {aten: f"test_{aten if name in doubled else name}.py" for aten, name in short.items()}


def _test_file(aten: str, tests: Sequence[_Test]) -> str:
    operator = tests[0].recipe.operator
    models = sorted({model for test in tests for model in test.recipe.case.models if model})
    calls = _call_names(tests)
    functions = [
        f"def {name}(tensors, arguments, memory_config, device):\n{source}\n" for source, name in calls.items()
    ]
    shown = ", ".join(models[:6]) + (f" and {len(models) - 6} more" if len(models) > 6 else "")
    ids = _ids(tests)
    cases = "\n".join(
        _param(test, calls[call_source(test.recipe)], name) for test, name in zip(tests, ids, strict=True)
    )
    name = aten.strip("_")
    return "\n".join(
        [
            "# SPDX-License-Identifier: Apache-2.0",
            f"# Written by ttmem {__version__}; 'ttmem ops tests' renews it.",
            f'"""aten.{aten} as {operator.ttnn}',
            "",
            *textwrap.wrap(f"{len(tests)} cases{f' of {shown}' if shown else ''}.", 116),
            '"""',
            "",
            "import pytest",
            "import ttnn",
            f"from ttmem_cases import Case, {'Tensor, ' if any(_tensors(test.recipe) for test in tests) else ''}check",
            "",
            "pytestmark = pytest.mark.use_module_device",
            "",
            "",
            "\n\n".join(functions),
            "",
            "CASES = [",
            cases,
            "]",
            "",
            "",
            f'@pytest.mark.parametrize("memory", [{", ".join(flat(memory) for memory in MEMORIES)}])',
            '@pytest.mark.parametrize("case", CASES)',
            f"def test_{name}(device, case, memory):",
            f'    check(case, "{aten}", "{operator.kind}", device, memory)',
            "",
        ]
    )


def _call_names(tests: Sequence[_Test]) -> dict[str, str]:
    """Every different call once: cases may differ in optional tensors or in numbers that stand for tensors."""
    names: dict[str, str] = {}
    for test in tests:
        source = call_source(test.recipe)
        if source not in names:
            names[source] = f"call_{len(names) + 1}" if names else "call"
    return names


def _ids(tests: Sequence[_Test]) -> list[str]:
    """Shapes and types; where that is not enough, the hash of the case."""
    plain = [_readable(test.recipe) for test in tests]
    return [
        name if plain.count(name) == 1 else f"{name}-{test.recipe.case.id.rsplit('-', 1)[-1]}"
        for name, test in zip(plain, tests, strict=True)
    ]


def _readable(recipe: Recipe) -> str:
    shapes = ["x".join(map(str, tensor.model_shape)) or "scalar" for tensor in recipe.inputs[:3]]
    more = [f"and{len(recipe.inputs) - 3}more"] if len(recipe.inputs) > 3 else []
    types = list(dict.fromkeys(_SHORT_TYPES.get(tensor.dtype, tensor.dtype) for tensor in recipe.inputs))
    size = recipe.reference.get("size")
    made = ["x".join(map(str, size))] if not recipe.inputs and isinstance(size, list) else []
    return "-".join(["_".join([*shapes, *more, *made]) or "scalars", *types])


def _param(test: _Test, call: str, name: str) -> str:
    recipe = test.recipe
    fields: dict[str, Any] = {
        "id": recipe.case.id,
        "call": Raw(call),
        "tensors": _tensors(recipe),
        "arguments": {key: from_wire(value) for key, value in recipe.values.items() if not _is_tensor(value)},
        "reference": {key: _number(value) for key, value in recipe.reference.items()},
    }
    if recipe.case.outputs:
        outputs = [(tensor.shape, _output_type(tensor.dtype)) for tensor in recipe.case.outputs]
        fields["outputs"] = tuple(outputs) if not recipe.operator.result and _has_own_result(recipe) else ()
    if test.expected:
        fields["expected"] = {board: dict(by_memory) for board, by_memory in test.expected.items()}
    fields = {key: value for key, value in fields.items() if key != "outputs" or value}
    lines = [f"    # {line}" for line in _users(recipe.case)]
    case = laid_out(Built("Case", fields), 8)
    marks = "        marks=pytest.mark.large,\n" if _is_large(recipe) else ""
    assumed = [f"    # assumed: {', '.join(recipe.assumed)}"] if recipe.assumed else []
    return "\n".join(
        [*lines, *_cut(assumed), f"    pytest.param(\n        {case},\n        id={flat(name)},\n{marks}    ),"]
    )


def _number(value: Any) -> Any:
    """JSON knows no infinity: case files have it as a text, torch wants the number."""
    return float(value) if value in ("inf", "-inf", "nan") else value


def _cut(lines: list[str]) -> list[str]:
    return [line if len(line) <= 118 else f"{line[:115]}..." for line in lines]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Mapping) and "tensor" in value


def _has_own_result(recipe: Recipe) -> bool:
    """In-place calls and reshapes that are free take no new buffer: outputs count only where they certainly do."""
    return recipe.operator.kind in ("unary", "binary", "matmul", "norm") and "output_tensor" not in recipe.variant.call


def _output_type(dtype: str) -> str:
    return {"float32": "bfloat16", "float16": "bfloat16", "bool": "bfloat16", "int64": "int32"}.get(dtype, dtype)


def _tensors(recipe: Recipe) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for tensor in (*recipe.inputs, *recipe.not_called):
        written = Built("Tensor", _fields(recipe, tensor))
        if recipe.operator.is_list(tensor.argument):
            made.setdefault(tensor.argument, []).append(written)
        else:
            made[tensor.argument] = written
    return made


def _fields(recipe: Recipe, tensor: DeviceTensor) -> dict[str, Any]:
    fields: dict[str, Any] = {"shape": tensor.model_shape}
    if tensor.dtype != "bfloat16":
        fields["dtype"] = tensor.dtype
    if tensor.layout != "tile":
        fields["layout"] = tensor.layout
    if tensor.shape != tensor.model_shape:
        fields["device_shape"] = tensor.shape
    if tensor.form in _CHANNELS_LAST:
        fields["channels_last"] = True
    if tensor.form == "transposed":
        fields["transposed"] = True
    if tensor.on_host:
        fields["on_host"] = True
    form = recipe.operator.inputs.get(tensor.argument)
    if form is not None and form.memory == "DRAM":
        fields["in_dram"] = True
    if not tensor.is_called:
        fields["reference_only"] = True
    if tensor.argument in ("index", "indices"):
        fields["below"] = _index_limit(recipe)
    if tensor.model_dtype != tensor.dtype:
        fields["torch_dtype"] = tensor.model_dtype
    return fields


def _index_limit(recipe: Recipe) -> int:
    table = next((tensor for tensor in recipe.inputs if tensor.argument in ("self", "weight")), None)
    if table is None:
        return 1
    dim = recipe.reference.get("dim", 0)
    return table.model_shape[dim] if isinstance(dim, int) else table.model_shape[0]


def _is_large(recipe: Recipe) -> bool:
    elements = 0
    for tensor in recipe.inputs:
        product = 1
        for size in tensor.model_shape:
            product *= size
        elements += product
    return elements * 4 > _LARGE_BYTES


def _users(case: Case) -> list[str]:
    lines = []
    for use in case.uses[:4]:
        size = f" {use.size}" if use.size else ""
        module = f" ({use.modules[0]})" if use.modules else ""
        lines.append(f"{use.model or 'used'}{size}: {use.count} x{module}"[:110])
    if len(case.uses) > 4:
        lines.append(f"and {len(case.uses) - 4} more")
    return [line.replace("\n", " ") for line in lines]
