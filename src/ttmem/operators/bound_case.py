# SPDX-License-Identifier: Apache-2.0
"""A case whose arguments are bound to the names of an operator's schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.catalogue_entries import Operator

_DEVICE_TYPES = {
    "int64": "int32",
    "int16": "int32",
    "int8": "int32",
    "uint64": "uint32",
    "float64": "float32",
    "float16": "bfloat16",
}
"""What a type of torch becomes; the others have the same name on the device."""


_FLOATS = ("float32", "bfloat16")


def device_dtype(dtype: str, float_dtype: str | None) -> str:
    """Device types of recorded types. Truth values are 0 and 1 in the type of the floats, as masks need them."""
    if dtype.startswith("complex"):
        return "float32"  # a pair of bfloat16 takes as much
    known = "bfloat16" if dtype.startswith("float8") else _DEVICE_TYPES.get(dtype, dtype)
    if known == "bool":
        return float_dtype or "bfloat16"
    return float_dtype if known in _FLOATS and float_dtype else known


class CannotRunError(Exception):
    """The case has no call on the device; the text says why."""


def demand(holds: object, why: str) -> None:
    """Refuse the case unless it holds."""
    if not holds:
        raise CannotRunError(why)


def sizes(value: Any, name: str) -> list[int]:
    """Numbers, or the reason that they are none."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(v, int) for v in value):
        raise CannotRunError(f"'{name}' is not known as numbers: {value!r}")
    return list(value)


class Bound:
    """Looks names up for rules and calls."""

    def __init__(self, case: Case, operator: Operator, *, float_dtype: str | None = "bfloat16") -> None:
        self.case = case
        self.operator = operator
        self.float_dtype = float_dtype
        """What floats are on the device; None: as the model has them."""
        self.assumed: list[str] = []
        self.tensors = self._named_tensors()
        self._add_missing_tensors()

    def tensor(self, name: str) -> CaseTensor:
        """The tensor of this name, or the first of a list."""
        found = self.tensors.get(name)
        if not found:
            raise CannotRunError(f"tensor '{name}' is not in the case")
        return found[0]

    @property
    def first(self) -> CaseTensor:
        if not self.tensors:
            raise CannotRunError("the case has no tensor")
        return next(iter(self.tensors.values()))[0]

    def has(self, name: str) -> bool:
        return name in self.tensors

    def argument(self, name: str) -> Any:
        """Return the source's value, else the catalogue's default."""
        if name in self.case.args:
            return self.case.args[name]
        if name not in self.operator.missing:
            raise CannotRunError(f"argument '{name}' is not in the case")
        from ttmem.operators.argument_rules import RULES

        default = self.operator.missing[name]
        value = RULES[default[1:]](self) if isinstance(default, str) and default.startswith("=") else default
        note = f"{name}={value}"
        if note not in self.assumed:
            self.assumed.append(note)
        return value

    def device_dtype(self, dtype: str) -> str:
        """The type on the device."""
        return device_dtype(dtype, self.float_dtype)

    def _named_tensors(self) -> dict[str, list[CaseTensor]]:
        """Return tensors by the source's names, or in schema order where it gives none."""
        named: dict[str, list[CaseTensor]] = {}
        order = list(self.operator.tensor_names)
        for tensor in self.case.tensors:
            name = tensor.name
            if not name:
                if not order:
                    raise CannotRunError(f"{len(self.case.tensors)} tensors are more than {self.operator.aten} takes")
                name = order[0] if self.operator.is_list(order[0]) else order.pop(0)
            elif name not in self.operator.tensor_names:
                raise CannotRunError(f"{self.operator.aten} takes no tensor '{name}' here")
            named.setdefault(name, []).append(tensor)
        for name, tensors in named.items():
            if self.operator.is_list(name):  # torch concatenates with nothing; ttnn must not be given it
                named[name] = [tensor for tensor in tensors if 0 not in tensor.shape] or tensors
        return named

    def _add_missing_tensors(self) -> None:
        from ttmem.operators.argument_rules import RULES

        for name, how in self.operator.missing_tensors.items():
            known_as_number = name in self.case.args or name in self.operator.missing
            if name not in self.tensors and not known_as_number and self.tensors:
                shape = tuple(RULES[how](self))
                self.tensors[name] = [CaseTensor(shape, self.first.dtype, name)]
                self.assumed.append(f"{name}: a tensor of {list(shape)}")
