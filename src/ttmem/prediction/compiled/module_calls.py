# SPDX-License-Identifier: Apache-2.0
"""Follow the first run of a compiled graph: call functions in order, keep const-eval results, obey deallocations."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.prediction.compiled.calls import (
    ModuleTypes,
    ModuleValue,
    Step,
    TensorForm,
    build_steps,
    is_on_device,
)
from ttmem.prediction.compiled.operations import SAME_TENSOR, SILENT
from ttmem.prediction.stream import CACHE, CONSTANT, INPUT, WEIGHT, Kept, ModelCall, Resident
from ttmem.readers.mlir.functions import FunctionArgument, ModuleFunction, ModuleOperation, ModuleText

LOAD_CACHED, CALL, TRACE = "ttcore.load_cached", "func.call", "ttnn.capture_or_execute_trace"
_MOST_OPERATIONS = 2_000_000
_ALWAYS_PLAYED = 20_000
_MOST_REPEATS = 100
"""Average number of repetitions of the text in a run: a small text must not take the time of a large one."""


def find_callee(operation: ModuleOperation) -> str:
    """Return the function that an operation calls (for a trace the one that captures it), empty if none."""
    if operation.name == TRACE:
        return str(operation.properties.get("capture_callee", ""))
    return operation.callee if operation.name in (CALL, LOAD_CACHED) else ""


def is_followed(function: ModuleFunction | None) -> bool:
    """Return whether a called function is followed: it is in the text and does not run on the host."""
    return function is not None and bool(function.operations) and "cpu_hoist" not in function.name


def limit_operations(module: ModuleText) -> int:
    """Return the largest number of operations that are followed."""
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
            callee = find_callee(operation)
            is_load = operation.name == LOAD_CACHED
            function = module.functions.get(callee)
            if function is None or not (is_load or is_followed(function)):
                continue
            if callee in path:
                cycle = [*list(path)[list(path).index(callee) :], callee]
                told = f"functions call each other without end: {_shorten_cycle(cycle)}"
                raise BadInputError(told, where=f"{file}:{operation.line}")
            if is_load and callee in loaded:
                continue
            loaded |= {callee} if is_load else set()
            if callee in sizes:
                sizes_on_path[-1] += sizes[callee]
            else:
                path[callee], functions[callee] = iter(function.operations), function
                sizes_on_path.append(0)
        if sizes_on_path and sizes_on_path[-1] > limit_operations(module):
            raise too_many_operations_error(module, functions[name], file)


def too_many_operations_error(module: ModuleText, function: ModuleFunction, file: str) -> BadInputError:
    """Return the error for a run that repeats its text too often."""
    return BadInputError(
        f"functions call each other so often that a run has more than {limit_operations(module):,} operations; "
        f"the module has {module.operations:,}",
        where=f"{file}:{function.line}",
        hint="--set function=NAME plays one function of the module",
    )


def _shorten_cycle(cycle: list[str]) -> str:
    names = cycle if len(cycle) <= 5 else [*cycle[:3], "...", cycle[-1]]
    return " -> ".join(names)


_ROLES = {"parameter": WEIGHT, "constant": CONSTANT}


@dataclass(frozen=True, slots=True)
class _FollowedFunction:
    """A function to follow next, and its arguments."""

    function: ModuleFunction
    arguments: Sequence[ModuleValue | None]
    prefix: str
    """Prefix of the names of its values."""


_Following = Generator[_FollowedFunction, list[ModuleValue], list[ModuleValue]]
"""Yields calls for ``FirstRun.run`` to follow, so that a chain of calls may have any depth."""


class FirstRun:
    """Collects residents and calls while it follows a function."""

    def __init__(self, module: ModuleText, layouts: ModuleTypes, file: str) -> None:
        self.residents: list[Resident] = []
        self.calls: list[ModelCall] = []
        self.has_traces = False
        self._module = module
        self._types = layouts
        self._file = file
        self._cached: dict[tuple[str, tuple[str, ...]], list[ModuleValue]] = {}
        self._runs = 0
        self._most = limit_operations(module)
        self._names: set[str] = set()
        """Names of tensors that stay."""
        self._arguments: set[str] = set()
        self._frees_itself = any(
            operation.name == "ttnn.deallocate"
            for function in module.functions.values()
            for operation in function.operations
        )

    @property
    def frees_after_last_use(self) -> bool:
        """True if the module has no deallocations."""
        return not self._frees_itself

    def run(self, entry: ModuleFunction) -> None:
        check_calls(self._module, entry, self._file)
        arguments = [self._add_argument(argument) for argument in entry.arguments]
        bodies = [self._follow_body(_FollowedFunction(entry, arguments, ""))]
        made: list[ModuleValue] | None = None
        while bodies:
            try:
                called = next(bodies[-1]) if made is None else bodies[-1].send(made)
                bodies.append(self._follow_body(called))
                made = None
            except StopIteration as end:
                bodies.pop()
                made = end.value

    def _add_argument(self, argument: FunctionArgument) -> ModuleValue:
        form = self._types.read_type(argument.type_text)
        if form is not None and (shape := self._types.read_local_shape(argument.local_type, len(form["shape"]))):
            form = {**form, "shape": shape}
        name = argument.name or argument.value
        if name in self._arguments:
            name = f"{name} ({argument.value})"
        self._arguments.add(name)
        role = CACHE if argument.is_cache else _ROLES.get(argument.kind, INPUT)
        if form is not None and is_on_device(form):
            self._names.add(name)
            self.residents.append(Resident(name, role, {"alloc": name, **form}))
        return ModuleValue(name, form, is_retained=role != INPUT)

    def _follow_body(self, called: _FollowedFunction) -> _Following:
        function = called.function
        if len(self.calls) > self._most:
            raise too_many_operations_error(self._module, function, self._file)
        values: dict[str, ModuleValue] = {
            argument.value: held
            for argument, held in zip(function.arguments, called.arguments, strict=False)
            if held is not None
        }
        last_uses = _find_last_uses(function) if self.frees_after_last_use else {}
        for number, operation in enumerate(function.operations):
            made = yield from self._follow_operation(operation, values, called.prefix)
            values.update(zip(operation.results, made, strict=False))
            for value in last_uses.get(number, ()):
                self._free_unused(values.get(value))
        return [values[value] for value in function.returned if value in values]

    def _follow_operation(self, operation: ModuleOperation, values: dict[str, ModuleValue], prefix: str) -> _Following:
        name = operation.name.removeprefix("ttnn.")
        operands = [values.get(value) for value in operation.operands]
        operands = [held if held is not None and held.form is not None else None for held in operands]
        if name == "deallocate":
            self._deallocate(operation, operands)
            return []
        if operation.name == LOAD_CACHED:
            return (yield from self._load_cached(operation, operands))
        if operation.name in (CALL, TRACE):
            return (yield from self._follow_call(operation, operands))
        results = [self._result(operation, number, prefix) for number in range(len(operation.result_types))]
        if name in SAME_TENSOR and operands and operands[0] is not None and len(results) == 1:
            return [self._reuse_tensor(operands[0], results[0], operation)]
        device_results = [held for held in results if is_on_device(held.form)]
        foreign = not operation.is_ttnn and not any(b"#ttnn." in one for one in operation.result_types)
        if name in SILENT or foreign:
            self._append(operation, [])
            return [held if not is_on_device(held.form) else replace(held, form=None) for held in results]
        if operation.result_types and not device_results:
            self._append(operation, [])
        else:
            self._append(operation, *build_steps(operation, operands, device_results))
        return results

    def _result(self, operation: ModuleOperation, number: int, prefix: str) -> ModuleValue:
        form = self._types.read_type(operation.result_types[number])
        value = operation.results[number] if number < len(operation.results) else f"%{operation.line}"
        return ModuleValue(f"{prefix}{value}", form)

    def _append(self, operation: ModuleOperation, steps: Sequence[Step], unsupported: str = "") -> None:
        place = operation.location or f"{self._file}:{operation.line}"
        self.calls.append(ModelCall(operation.name, tuple(steps), module=place, unsupported=unsupported))

    def _reuse_tensor(self, given: ModuleValue, result: ModuleValue, operation: ModuleOperation) -> ModuleValue:
        """Reuse the tensor unless its type changed; then write a conversion."""
        if is_on_device(result.form) and _storage(given.form) != _storage(result.form):
            self._append(operation, *build_steps(replace(operation, name="ttnn.to_layout"), [given], [result]))
            return result
        self._append(operation, [])
        given.owners += 1
        return given

    def _deallocate(self, operation: ModuleOperation, operands: Sequence[ModuleValue | None]) -> None:
        held = operands[0] if operands else None
        steps: list[Step] = []
        if held is not None and not held.is_retained and is_on_device(held.form):
            held.owners -= 1
            if held.owners == 0:  # below: a convolution has freed it already
                steps = [{"free": held.name, "force": False}]
        self._append(operation, steps)

    def _free_unused(self, held: ModuleValue | None) -> None:
        if held is None or held.is_retained or not is_on_device(held.form) or not self.calls:
            return
        held.owners -= 1
        if held.owners == 0:
            self.calls[-1] = replace(self.calls[-1], frees=(*self.calls[-1].frees, held.name))

    def _load_cached(self, operation: ModuleOperation, operands: Sequence[ModuleValue | None]) -> _Following:
        """Run the function once; its results stay, and deallocating them has no effect."""
        given = [held for held in operands if held is not None]
        key = operation.callee, tuple(held.name for held in given)
        self._append(operation, [])
        first = len(self.calls)
        if key not in self._cached:
            function = self._module.functions.get(operation.callee)
            made = (yield _FollowedFunction(function, given, f"{function.name} ")) if function else []
            if len(made) < len(operation.result_types):  # cut out of the text: the types still say what it makes
                made = [self._result(operation, i, f"{operation.callee} ") for i in range(len(operation.result_types))]
                steps = [{"alloc": held.name, **held.form} for held in made if held.form and is_on_device(held.form)]
                self._append(operation, steps, f"the module does not hold {operation.callee}")
            for held in made:
                held.is_retained = True
            self._keep(made, given, operation.callee, first)
            self._cached[key] = made
        return self._cached[key]

    def _keep(self, made: Sequence[ModuleValue], given: Sequence[ModuleValue], callee: str, first: int) -> None:
        """Mark the results of the calls since ``first`` that stay, under the name of the one weight
        that they were made of, else that of the function."""
        is_weight = any(held.is_retained for held in given)
        name = given[0].name if len(given) == 1 else callee
        makers: dict[str, list[int]] = {}
        for at in range(first, len(self.calls)):
            for made_here in dict.fromkeys(one for step in self.calls[at].steps for one in _list_outputs(step)):
                makers.setdefault(made_here, []).append(at)
        for number, held in enumerate(made):
            if not is_on_device(held.form):
                continue
            called = name if name not in self._names else f"{name} ({callee})"
            called = called if number == 0 else f"{called} {number}"
            self._names.add(called)
            kept = Kept(held.name, called, WEIGHT if is_weight else CONSTANT)
            for at in makers.get(held.name, ()):
                call = self.calls[at]
                self.calls[at] = replace(call, keeps=(*call.keeps, kept))

    def _follow_call(self, operation: ModuleOperation, operands: Sequence[ModuleValue | None]) -> _Following:
        """A function of the module, or one that runs on the host; of a trace the run that captures it."""
        trace = operation.name == TRACE
        callee = find_callee(operation)
        function = self._module.functions.get(callee)
        self._append(operation, [])
        if function is None or not is_followed(function):
            results = [self._result(operation, i, "") for i in range(len(operation.result_types))]
            steps = [{"alloc": held.name, **held.form} for held in results if held.form and is_on_device(held.form)]
            if steps:
                self._append(operation, steps, f"the module does not hold {callee or 'the function'}")
            return results
        given = list(operands[1:] if trace else operands)  # a trace is given the device first
        self._runs += 1
        self.has_traces = self.has_traces or trace
        made = yield _FollowedFunction(function, given, f"{function.name} {self._runs} ")
        if not trace:
            return made
        for held in made:  # slots live as long as the trace
            held.is_retained = True
        count = len(operation.result_types)
        return made[-count:] if count else []


def _list_outputs(step: Mapping[str, Any]) -> tuple[str, ...]:
    out = step.get("alloc", step.get("out"))
    return (out,) if isinstance(out, str) else tuple(out or ())


def _storage(form: TensorForm | None) -> tuple[object, ...] | None:
    if form is None:
        return None
    return tuple(str(form.get(key)) for key in ("shape", "dtype", "layout", "memory", "shard"))


def _find_last_uses(function: ModuleFunction) -> dict[int, list[str]]:
    """Return the function's own values by the operation that uses them last."""
    last: dict[str, int] = {}
    own = {value for operation in function.operations for value in operation.results}
    for number, operation in enumerate(function.operations):
        for value in (*operation.results, *operation.operands):
            if value in own:
                last[value] = number
    found: dict[int, list[str]] = {}
    for value, number in last.items():
        if value not in function.returned:
            found.setdefault(number, []).append(value)
    return found
