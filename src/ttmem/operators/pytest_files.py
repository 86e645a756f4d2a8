# SPDX-License-Identifier: Apache-2.0
"""pytest files from cases: one per operator, in the conventions of tt-metal's own unit tests."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from math import prod
from typing import Any

from ttmem._version import __version__
from ttmem.operators.bound_case import CannotRunError
from ttmem.operators.case import Case
from ttmem.operators.case_program import CaseProgram, DeviceTensor, lower_case
from ttmem.operators.python_source import Built, Raw, call_source, decode_wire, flat, format_value

MEMORIES = ("DRAM", "L1")
STRICT = ("pass", "oom", "clash", "overflow", "invalid")
"""Outcomes that a test can hold the library to; a crash would end pytest itself."""

_LARGE_BYTES = 512 << 20
_SHORT_TYPES = {"bfloat16": "bf16", "float32": "f32", "bfloat8_b": "bfp8", "bfloat4_b": "bfp4"}
_OUTPUT_TYPES = {"float32": "bfloat16", "float16": "bfloat16", "bool": "bfloat16", "int64": "int32"}
_CHANNELS_LAST = ("channels_last_rows", "channels_last", "channels_last_samples")

Outcomes = Mapping[str, Mapping[str, Mapping[str, str]]]
"""case id -> board -> memory -> status"""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions of an engine, and their devices."""

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


def recipes_of(cases: Sequence[Case]) -> tuple[list[CaseProgram], list[tuple[str, str]]]:
    """The tests, and the reasons for untested cases."""
    made, left_out = [], []
    for case in cases:
        try:
            recipe = lower_case(case)
        except CannotRunError as error:
            left_out.append((case.id, str(error)))
            continue
        if recipe.is_free:
            left_out.append((case.id, "the device has nothing to do"))
        else:
            made.append(recipe)
    return made, left_out


def test_files(cases: Sequence[Case], predictions: Predictions, *, l1_small_bytes: int) -> TestFiles:
    """Write a file of tests per operator, two shared files, and a script that runs them all."""
    recipes, left_out = recipes_of(cases)
    groups: dict[str, dict[str, CaseProgram]] = {}
    for recipe in recipes:
        expected = predictions.outcomes.get(recipe.case.id, {})
        bad = next((s for by_memory in expected.values() for s in by_memory.values() if s not in STRICT), "")
        if bad:
            left_out.append((recipe.case.id, f"{bad} on the mock board: it would end the test run"))
            continue
        # Cases that differ only in the model's own types may be one and the same test on the device.
        first = groups.setdefault(recipe.operator.aten, {}).setdefault(repr((recipe.steps, recipe.reference)), recipe)
        if first is not recipe:
            users = replace(first.case, uses=(*first.case.uses, *recipe.case.uses))
            groups[recipe.operator.aten][repr((recipe.steps, recipe.reference))] = replace(first, case=users)
    names = _file_names(groups)
    files = {names[aten]: _test_file(aten, [*tests.values()], predictions) for aten, tests in groups.items()}
    files["conftest.py"] = _template("conftest.py", l1_small=l1_small_bytes)
    devices = {board: dict(memories) for board, memories in predictions.devices.items()}
    files["ttmem_cases.py"] = _template("ttmem_cases.py", predicted_on=format_value(devices, 0, len("PREDICTED_ON = ")))
    files["run_all_tests.sh"] = _template("run_all_tests.sh")
    return TestFiles(files, {aten: len(tests) * len(MEMORIES) for aten, tests in groups.items()}, tuple(left_out))


test_files.__test__ = False  # type: ignore[attr-defined]  # pytest must not take it for a test


def _template(file: str, /, **values: object) -> str:
    text = resources.files(__package__).joinpath(f"pytest_templates/{file}.txt").read_text("utf-8")
    return re.sub(r"@@(\w+)@@", lambda match: str(values[match[1].lower()]), text)


def _file_names(groups: Mapping[str, Any]) -> dict[str, str]:
    """``_softmax`` reads better without its underscore, unless that is another operator's name."""
    short = {aten: aten.lstrip("_") for aten in groups}
    doubled = {name for name in short.values() if list(short.values()).count(name) > 1}
    return {aten: f"test_{aten if name in doubled else name}.py" for aten, name in short.items()}


def _test_file(aten: str, recipes: Sequence[CaseProgram], predictions: Predictions) -> str:
    operator = recipes[0].operator
    models = sorted({model for recipe in recipes for model in recipe.case.models if model})
    shown = ", ".join(map(_plain, models[:6])) + (f" and {len(models) - 6} more" if len(models) > 6 else "")
    # Each distinct call once: cases may differ in optional tensors or in numbers that replace tensors.
    sources = [call_source(recipe) for recipe in recipes]
    different = enumerate(dict.fromkeys(sources), 1)
    calls = {source: f"call_{number}" if number > 1 else "call" for number, source in different}
    return _template(
        "test_operator.py",
        version=__version__,
        aten=aten,
        ttnn=operator.ttnn,
        kind=operator.kind,
        name=aten.strip("_"),
        about="\n".join(textwrap.wrap(f"{len(recipes)} cases{f' of {shown}' if shown else ''}.", 116)),
        tensor="Tensor, " if any(map(_tensors, recipes)) else "",
        functions="\n\n".join(
            f"def {name}(tensors, arguments, memory_config, device):\n{source}\n" for source, name in calls.items()
        ),
        cases="\n".join(
            _param(recipe, predictions.outcomes.get(recipe.case.id, {}), calls[source], name)
            for recipe, source, name in zip(recipes, sources, _ids(recipes), strict=True)
        ),
        memories=", ".join(map(flat, MEMORIES)),
    )


def _ids(recipes: Sequence[CaseProgram]) -> list[str]:
    """Shapes and types; where that is not enough, the hash of the case."""
    names = [_readable(recipe) for recipe in recipes]
    return [
        name if names.count(name) == 1 else f"{name}-{recipe.case.id.rsplit('-', 1)[-1]}"
        for name, recipe in zip(names, recipes, strict=True)
    ]


def _readable(recipe: CaseProgram) -> str:
    shapes = ["x".join(map(str, tensor.model_shape)) or "scalar" for tensor in recipe.inputs[:3]]
    more = [f"and{len(recipe.inputs) - 3}more"] if len(recipe.inputs) > 3 else []
    types = list(dict.fromkeys(_SHORT_TYPES.get(tensor.dtype, tensor.dtype) for tensor in recipe.inputs))
    size = recipe.reference.get("size")
    made = ["x".join(map(str, size))] if not recipe.inputs and isinstance(size, list) else []
    return "-".join(["_".join([*shapes, *more, *made]) or "scalars", *types])


def _param(recipe: CaseProgram, expected: Mapping[str, Mapping[str, str]], call: str, name: str) -> str:
    outputs: tuple[Any, ...] = ()
    if not recipe.operator.result and _has_own_result(recipe):
        outputs = tuple((tensor.shape, _OUTPUT_TYPES.get(tensor.dtype, tensor.dtype)) for tensor in recipe.case.outputs)
    fields: dict[str, Any] = {
        "id": recipe.case.id,
        "call": Raw(call),
        "tensors": _tensors(recipe),
        "arguments": {key: decode_wire(value) for key, value in recipe.values.items() if not _is_tensor(value)},
        "reference": {key: _number(value) for key, value in recipe.reference.items()},
        **({"outputs": outputs} if outputs else {}),
        **({"expected": {board: dict(by_memory) for board, by_memory in expected.items()}} if expected else {}),
    }
    lines = [f"    # {line}" for line in _users(recipe.case)]
    if recipe.assumed:
        assumed = f"    # assumed: {_plain(', '.join(recipe.assumed))}"
        lines.append(assumed if len(assumed) <= 118 else f"{assumed[:115]}...")
    case = format_value(Built("Case", fields), 8)
    marks = "        marks=pytest.mark.large,\n" if _is_large(recipe) else ""
    return "\n".join([*lines, f"    pytest.param(\n        {case},\n        id={flat(name)},\n{marks}    ),"])


def _number(value: Any) -> Any:
    """JSON knows no infinity: case files have it as a text, torch wants the number."""
    return float(value) if value in ("inf", "-inf", "nan") else value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Mapping) and "tensor" in value


def _has_own_result(recipe: CaseProgram) -> bool:
    """In-place calls and reshapes that are free take no new buffer: outputs count only where they certainly do."""
    return recipe.operator.kind in ("unary", "binary", "matmul", "norm") and "output_tensor" not in recipe.variant.call


def _tensors(recipe: CaseProgram) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for tensor in (*recipe.inputs, *recipe.not_called):
        written = Built("Tensor", _fields(recipe, tensor))
        if recipe.operator.is_list(tensor.argument):
            made.setdefault(tensor.argument, []).append(written)
        else:
            made[tensor.argument] = written
    return made


def _fields(recipe: CaseProgram, tensor: DeviceTensor) -> dict[str, Any]:
    """Return the differences from a plain tensor."""
    form = recipe.operator.inputs.get(tensor.argument)
    below = _index_limit(recipe) if tensor.argument in ("index", "indices") else None
    said = {
        "shape": (True, tensor.model_shape),
        "dtype": (tensor.dtype != "bfloat16", tensor.dtype),
        "layout": (tensor.layout != "tile", tensor.layout),
        "device_shape": (tensor.shape != tensor.model_shape, tensor.shape),
        "channels_last": (tensor.form in _CHANNELS_LAST, True),
        "transposed": (tensor.form == "transposed", True),
        "on_host": (tensor.on_host, True),
        "in_dram": (form is not None and form.memory == "DRAM", True),
        "reference_only": (not tensor.is_called, True),
        "below": (below is not None, below),
        "torch_dtype": (tensor.model_dtype != tensor.dtype, tensor.model_dtype),
    }
    return {name: value for name, (is_said, value) in said.items() if is_said}


def _index_limit(recipe: CaseProgram) -> int:
    table = next((tensor for tensor in recipe.inputs if tensor.argument in ("self", "weight")), None)
    if table is None:
        return 1
    dim = recipe.reference.get("dim", 0)
    return table.model_shape[dim] if isinstance(dim, int) else table.model_shape[0]


def _is_large(recipe: CaseProgram) -> bool:
    return sum(prod(tensor.model_shape) for tensor in recipe.inputs) * 4 > _LARGE_BYTES


def _users(case: Case) -> list[str]:
    lines = []
    for use in case.uses[:4]:
        size = f" {use.size}" if use.size else ""
        module = f" ({use.modules[0]})" if use.modules else ""
        lines.append(f"{use.model or 'used'}{size}: {use.count} x{module}"[:110])
    if len(case.uses) > 4:
        lines.append(f"and {len(case.uses) - 4} more")
    return list(map(_plain, lines))


def _plain(text: str) -> str:
    """For a comment or a docstring: names come from anywhere, and none may end the one or the other."""
    return "".join(char if char.isprintable() and char not in '"\\' else " " for char in text)
