# SPDX-License-Identifier: Apache-2.0
"""tt-metal's master list of traced operations: ``operations -> configurations -> arguments, executions``."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ttmem.hardware import DATA_TYPES
from ttmem.operators.case import Case, CaseList, CaseTensor, ModelUse, is_plain, merge_cases
from ttmem.operators.catalogue_entries import Operator, catalogue

_NOT_ATEN = {
    "memory_config",
    "dtype",
    "output_tensor",
    "program_config",
    "compute_kernel_config",
    "core_grid",
    "queue_id",
}
"""Arguments that choose how a card runs it."""


def looks_like(document: Any) -> bool:
    return isinstance(document, Mapping) and isinstance(document.get("operations"), Mapping)


def read(document: Mapping[str, Any]) -> CaseList:
    """Read a case per configuration; configurations without a case are counted by reason."""
    skipped: Counter[str] = Counter()
    cases = []
    others: dict[str, None] = {}
    for name, entry in document["operations"].items():
        configurations = entry.get("configurations") if isinstance(entry, Mapping) else None
        configurations = configurations if isinstance(configurations, list) else []
        op = catalogue().aten_of_ttnn(name)
        if not op:
            others[str(name)] = None
            skipped["configurations of functions without an operator"] += len(configurations)
            continue
        for configuration in configurations:
            case = _case(op, configuration)
            if case is None:
                skipped["configurations without a tensor"] += 1
            else:
                cases.append(case)
    return CaseList("master-json", tuple(merge_cases(cases)), dict(skipped), tuple(others))


def _case(op: str, configuration: Any) -> Case | None:
    arguments = configuration.get("arguments") if isinstance(configuration, Mapping) else None
    if not isinstance(arguments, Mapping):
        return None
    tensors, scalars = _count_reason(arguments)
    if not tensors:
        return None
    operator = catalogue().operators[op]
    return Case(op, tensors, _name_values(operator, scalars), _uses(configuration.get("executions")))


def _count_reason(arguments: Mapping[str, Any]) -> tuple[tuple[CaseTensor, ...], dict[str, Any]]:
    tensors: list[CaseTensor] = []
    scalars: dict[str, Any] = {}
    for name, value in arguments.items():
        found = [tensor for tensor in map(tensor_of, value if isinstance(value, list) else [value]) if tensor]
        if found:
            tensors += found
        elif is_plain(value) and name not in _NOT_ATEN:
            scalars[name] = value
    return tuple(tensors), scalars


def tensor_of(value: Any) -> CaseTensor | None:
    """A tensor as the tracer writes it, or nothing."""
    if not isinstance(value, Mapping):
        return None
    shape = value.get("original_shape", value.get("shape"))
    if not isinstance(shape, list) or not all(isinstance(size, int) and size >= 0 for size in shape):
        return None
    return CaseTensor(tuple(shape), type_of(value.get("original_dtype", value.get("dtype"))))


def type_of(name: Any) -> str:
    """``DataType.BFLOAT16`` -> ``bfloat16``; what is not known is taken as that too."""
    try:
        return DATA_TYPES.find(str(name)).name
    except Exception:
        return "bfloat16"


def _name_values(operator: Operator, scalars: Mapping[str, Any]) -> dict[str, Any]:
    """Positional scalars (``arg1``) take the catalogue's names in order; keywords must be aten's to be kept."""
    positions = iter(operator.args)
    named: dict[str, Any] = {}
    for name, value in scalars.items():
        if name.startswith("arg") and name[3:].isdigit():
            position = next(positions, None)
            if position is not None:
                named[position] = value
        elif name in operator.args or name in operator.tensor_names:
            named[name] = value
    return named


def _uses(executions: Any) -> tuple[ModelUse, ...]:
    found = []
    for execution in executions if isinstance(executions, list) else []:
        source = execution.get("source") if isinstance(execution, Mapping) else None
        if source:
            count = execution.get("count", 1)
            found.append(ModelUse(str(source), count if isinstance(count, int) and count > 0 else 1))
    return tuple(found)
