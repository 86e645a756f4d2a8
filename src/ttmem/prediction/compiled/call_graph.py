# SPDX-License-Identifier: Apache-2.0
"""Which function of a module calls which, and how many operations a run has when every call is followed."""

from collections.abc import Iterator

from ttmem.base.errors import BadInputError
from ttmem.readers.mlir.functions import ModuleFunction, ModuleOperation, ModuleText

LOAD_CACHED, CALL, TRACE = "ttcore.load_cached", "func.call", "ttnn.capture_or_execute_trace"
_MOST_OPERATIONS = 2_000_000
_ALWAYS_PLAYED = 20_000
_MOST_REPEATS = 100
"""How often a run may repeat the text on average: a small text must not cost the time of a large one."""


def callee_of(operation: ModuleOperation) -> str:
    """The function that an operation runs, empty when it runs none; of a trace the one that captures it."""
    if operation.name == TRACE:
        return str(operation.properties.get("capture_callee", ""))
    return operation.callee if operation.name in (CALL, LOAD_CACHED) else ""


def is_followed(function: ModuleFunction | None) -> bool:
    """Whether a called function is played: not one that the text does not hold, nor one that runs on the host."""
    return function is not None and bool(function.operations) and "cpu_hoist" not in function.name


def most_operations(module: ModuleText) -> int:
    """How many operations of a module are played."""
    return min(_MOST_OPERATIONS, max(_ALWAYS_PLAYED, _MOST_REPEATS * module.operations))


def check_calls(module: ModuleText, entry: ModuleFunction, file: str) -> None:
    """Refuse a function that calls itself through others, and a run of too many operations, before any is followed."""
    sizes: dict[str, int] = {}
    loaded: set[str] = set()
    path: dict[str, Iterator[ModuleOperation]] = {entry.name: iter(entry.operations)}
    sizes_on_path = [0]
    functions = {entry.name: entry}
    while path:
        name = next(reversed(path))
        operation = next(path[name], None)
        if operation is None:
            del path[name]
            sizes[name] = sizes_on_path.pop()
            if sizes_on_path:
                sizes_on_path[-1] += sizes[name]
        else:
            sizes_on_path[-1] += 1
            callee = callee_of(operation)
            is_load = operation.name == LOAD_CACHED
            function = module.functions.get(callee)
            if function is None or not (is_load or is_followed(function)):
                continue
            if callee in path:
                cycle = [*list(path)[list(path).index(callee) :], callee]
                told = f"functions call each other without end: {_shortened(cycle)}"
                raise BadInputError(told, where=f"{file}:{operation.line}")
            if is_load and callee in loaded:
                continue
            loaded |= {callee} if is_load else set()
            if callee in sizes:
                sizes_on_path[-1] += sizes[callee]
            else:
                path[callee], functions[callee] = iter(function.operations), function
                sizes_on_path.append(0)
        if sizes_on_path and sizes_on_path[-1] > most_operations(module):
            raise too_many(module, functions[name], file)


def too_many(module: ModuleText, function: ModuleFunction, file: str) -> BadInputError:
    """The refusal of a run that repeats its text too often."""
    return BadInputError(
        f"functions call each other so often that a run has more than {most_operations(module):,} operations; "
        f"the module has {module.operations:,}",
        where=f"{file}:{function.line}",
        hint="--set function=NAME plays one function of the module",
    )


def _shortened(cycle: list[str]) -> str:
    names = cycle if len(cycle) <= 5 else [*cycle[:3], "...", cycle[-1]]
    return " -> ".join(names)
