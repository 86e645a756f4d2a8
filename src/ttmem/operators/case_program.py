# SPDX-License-Identifier: Apache-2.0
"""Lower a case to the steps of the engines' protocol: tensors to allocate, calls to make.

The catalogue writes a call as a Python expression. It is parsed here; nothing is ever evaluated as Python.
"""

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ttmem.operators.argument_rules import INFINITIES, RULES, SHAPE_RULES, finite
from ttmem.operators.bound_case import Bound, CannotRunError
from ttmem.operators.case import Case
from ttmem.operators.catalogue_entries import DEVICE, InputForm, Operator, Variant, catalogue

Step = dict[str, Any]

RESULT = "result"
"""The name under which the outermost call's result is kept."""
_ELEMENTWISE = ("unary", "binary")


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """An input as the worker makes it."""

    name: str
    """``self``, or ``tensors.0`` in a list."""
    argument: str
    shape: tuple[int, ...]
    dtype: str
    layout: str
    memory: str
    on_host: bool
    model_shape: tuple[int, ...]
    model_dtype: str
    is_called: bool
    """Whether the call takes it; others only say something of the result, such as its type."""
    form: str
    """The rule that shaped it, empty when it is as in the model."""


@dataclass(frozen=True, slots=True)
class CaseProgram:
    """The program of a case on a device."""

    case: Case
    operator: Operator
    variant: Variant
    inputs: tuple[DeviceTensor, ...]
    """What the call takes, in the order of allocation."""
    not_called: tuple[DeviceTensor, ...]
    """Tensors of the case that only say something of the result, such as its type; the device never has them."""
    values: Mapping[str, Any]
    """Values of the names in the call, without tensors, in the notation of the protocol."""
    steps: tuple[Step, ...]
    reference: Mapping[str, Any]
    """The arguments of the aten operator itself, for a run in torch."""
    assumed: tuple[str, ...]
    """What the source did not say and the catalogue filled in; empty for traced cases."""

    @property
    def described_steps(self) -> tuple[Step, ...]:
        """The steps, each call saying what it ``makes`` where that is known: for engines that cannot work it out."""
        if self.operator.kind in _ELEMENTWISE:
            return tuple({**step, "makes": "elementwise"} if "call" in step else step for step in self.steps)
        made = [list(one.shape) for one in self.case.outputs]
        is_last = (step.get("out", "").partition(".")[0] == RESULT for step in self.steps)
        return tuple({**step, "makes": made} if last else step for step, last in zip(self.steps, is_last, strict=True))

    @property
    def is_free(self) -> bool:
        """True if the device has nothing to do."""
        return not any("call" in step for step in self.steps)


def lower_case(
    case: Case, *, memory: str = "DRAM", layout: str = "tile", float_dtype: str | None = "bfloat16"
) -> CaseProgram:
    """Lower a case to a program in that memory and layout; raises ``CannotRunError`` with the reason."""
    operator = catalogue().find(case.op)
    if operator is None:
        raise CannotRunError(f"{case.op} is not in the catalogue")
    if operator.support != DEVICE:
        raise CannotRunError(f"{case.op} does not run on the device: {operator.note or operator.lowering}")
    bound = Bound(case, operator, float_dtype=float_dtype)
    _check(bound)
    if operator.requires:
        RULES[operator.requires](bound)
    variant = next(v for v in operator.variants if not v.when or RULES[v.when](bound))
    inputs = list(_inputs(bound, variant, memory, layout))
    called = tuple(tensor for tensor in inputs if tensor.is_called)
    writer = _CallWriter(bound, {"memory": {"memory": memory}, "layout": {"layout": layout}, "device": {"device": 0}})
    calls = writer.write(variant.call)
    return CaseProgram(
        case,
        operator,
        variant,
        called,
        tuple(tensor for tensor in inputs if not tensor.is_called),
        writer.values,
        (*(_write_call(tensor) for tensor in called), *calls),
        _reference(bound, {tensor.argument for tensor in inputs}),
        tuple(bound.assumed),
    )


_LAYERS = ("conv", "norm", "matmul")
"""Kinds whose optional tensors (bias, scale, mask) must be named in torch also when there are none."""


def _reference(bound: Bound, given: set[str]) -> dict[str, Any]:
    """Return the source's values; missing ones (or those not ``given`` as tensors) come from the catalogue."""
    operator = bound.operator
    absent = [name for name in operator.optional if operator.kind in _LAYERS and not bound.has(name)]
    assumed = [name for name in operator.missing if name in operator.args or name in operator.tensor_names]
    known = {name: bound.argument(name) for name in assumed if name not in given}
    return {**dict.fromkeys(absent), **known, **bound.case.args}


def _check(bound: Bound) -> None:
    for name in bound.operator.tensors:
        bare = name.removesuffix("[]")
        if not bound.has(bare) and bare not in bound.case.args and bare not in bound.operator.missing:
            raise CannotRunError(f"tensor '{bare}' is not in the case")
    for tensors in bound.tensors.values():
        for tensor in tensors:
            if 0 in tensor.shape:
                raise CannotRunError(f"a tensor without elements: {list(tensor.shape)}")


def _inputs(bound: Bound, variant: Variant, memory: str, layout: str) -> Iterator[DeviceTensor]:
    used = _names_in(variant.call)
    for argument, tensors in bound.tensors.items():
        is_called = argument in used or (argument == "indices" and "first_index" in used)
        if not is_called and argument in bound.operator.optional:
            continue
        form = bound.operator.inputs.get(argument, InputForm())
        for index, tensor in enumerate(tensors):
            shape = SHAPE_RULES[form.shape](bound, tensor.shape) if form.shape else tensor.shape
            dtype = form.dtype or bound.device_dtype(tensor.dtype)
            wanted = "tile" if dtype in ("bfloat8_b", "bfloat4_b") else layout  # block floats exist in tiles only
            yield DeviceTensor(
                name=f"{argument}.{index}" if bound.operator.is_list(argument) else argument,
                argument=argument,
                shape=tuple(shape),
                dtype=dtype,
                layout="row_major" if form.host else form.layout or wanted,
                memory=form.memory or memory,
                on_host=form.host,
                model_shape=tensor.shape,
                model_dtype=tensor.dtype,
                is_called=is_called,
                form=form.shape,
            )


def _write_call(tensor: DeviceTensor) -> Step:
    step: Step = {"shape": list(tensor.shape), "dtype": tensor.dtype, "layout": tensor.layout}
    if tensor.on_host:
        return {"host": tensor.name, **step}
    return {"alloc": tensor.name, **step, "memory": tensor.memory}


@functools.cache
def parse_catalogue_call(call: str) -> ast.expr:
    """The expression of a call in the catalogue."""
    return ast.parse(call, mode="eval").body


@functools.cache
def _names_in(call: str) -> frozenset[str]:
    """Return the names in a call of the catalogue; cached, because sweeps ask for each case."""
    return frozenset(node.id for node in ast.walk(parse_catalogue_call(call)) if isinstance(node, ast.Name))


class _CallWriter:
    """Walks a call expression and writes its steps, innermost call first."""

    def __init__(self, bound: Bound, surroundings: Mapping[str, Any]) -> None:
        self._bound = bound
        self._surroundings = surroundings
        self._steps: list[Step] = []
        self._temporaries = 0
        self.values: dict[str, Any] = {}

    def write(self, call: str) -> list[Step]:
        top = parse_catalogue_call(call)
        if isinstance(top, ast.List):
            for index, item in enumerate(top.elts):
                self._call(item, f"{RESULT}.{index}")
        elif isinstance(top, ast.Call):
            self._call(top, RESULT)
        return self._steps

    def _call(self, node: ast.expr, out: str) -> None:
        assert isinstance(node, ast.Call)
        temporaries: list[str] = []
        arguments = [self._value(item, temporaries) for item in node.args]
        options = {str(word.arg): self._value(word.value, temporaries) for word in node.keywords}
        step: Step = {"call": ast.unparse(node.func), "args": arguments}
        step["kwargs"] = {name: value for name, value in options.items() if value is not None}
        step["out"] = out
        self._steps.append(step)
        # A temporary dies when its last reference goes, as in the nested expression; a view of it keeps the buffer.
        self._steps += [{"free": name, "force": False} for name in temporaries]

    def _value(self, node: ast.expr, temporaries: list[str]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return -node.operand.value  # type: ignore[operator]
        if isinstance(node, ast.List):
            return [self._value(item, temporaries) for item in node.elts]
        if isinstance(node, ast.Attribute):
            return {"attribute": ast.unparse(node)}
        if isinstance(node, ast.Call):
            self._temporaries += 1
            name = f"temporary.{self._temporaries}"
            self._call(node, name)
            temporaries.append(name)
            return {"tensor": name}
        if isinstance(node, ast.Name):
            return self._named(node.id)
        raise ValueError(f"the catalogue cannot say {ast.unparse(node)!r}")

    def _named(self, name: str) -> Any:
        bound = self._bound
        if name in self._surroundings:
            return self._surroundings[name]
        if bound.has(name):
            if bound.operator.is_list(name):
                return [{"tensor": f"{name}.{index}"} for index in range(len(bound.tensors[name]))]
            return {"tensor": name}
        if name in bound.operator.optional and name not in bound.operator.args and bound.case.args.get(name) is None:
            return None
        value = RULES[name](bound) if name in RULES else bound.argument(name)
        if value in INFINITIES:
            value = finite(value)
        self.values[name] = value
        return value
