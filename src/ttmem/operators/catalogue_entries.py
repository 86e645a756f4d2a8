# SPDX-License-Identifier: Apache-2.0
"""The catalogue: for every aten operator what ttnn is called with. Data in ``catalogue_data``; this file reads it."""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec

from ttmem.base import toml
from ttmem.operators.case import Case, CaseTensor

DEVICE, FREE, HOST, NONE = "device", "free", "host", "none"
"""Support: runs on the device; nothing is to be done there; the host's work; no form known."""

_FILES = ("elementwise", "movement", "compute", "creation")
_CALLED = re.compile(r"\bttnn(?:\.\w+)+(?=\()")


@dataclass(frozen=True, slots=True)
class InputForm:
    """Required form of a tensor for the call; empty: the sweep's choice."""

    dtype: str = ""
    layout: str = ""
    shape: str = ""
    """A rule's name: the shape on the device from the shape in the model."""
    memory: str = ""
    host: bool = False
    """The library moves it to the device by itself, as it does with weights of convolutions."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of a call; the first whose condition holds is used."""

    call: str
    """A Python expression over tensors, aten arguments and argument rules; a bare tensor means nothing to do."""
    when: str = ""
    """A rule's name; empty: always."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An aten operator."""

    aten: str
    kind: str
    lowering: str
    tensors: tuple[str, ...] = ()
    """Names of tensor arguments in order; ``tensors[]`` is a list."""
    optional: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    inputs: Mapping[str, InputForm] = field(default_factory=dict)
    missing: Mapping[str, Any] = field(default_factory=dict)
    """What an argument is taken to be where the source does not say; ``=rule`` asks a rule."""
    missing_tensors: Mapping[str, str] = field(default_factory=dict)
    requires: str = ""
    """A rule that must hold; it tells why not otherwise."""
    result: str = ""
    """The rule by which the result's shape differs from torch's."""
    ttnn: str = ""
    note: str = ""
    example: Mapping[str, Any] = field(default_factory=dict)
    example_dtypes: Mapping[str, str] = field(default_factory=dict)

    @property
    def support(self) -> str:
        return DEVICE if self.variants else {"noop": FREE, "host": HOST}.get(self.lowering, NONE)

    @property
    def called(self) -> tuple[str, ...]:
        """The ttnn operations of all its variants, each once."""
        return tuple(dict.fromkeys(name for variant in self.variants for name in _CALLED.findall(variant.call)))

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """Names of the tensor arguments, without the marks of lists."""
        return tuple(name.removesuffix("[]") for name in (*self.tensors, *self.optional))

    def is_list(self, name: str) -> bool:
        return f"{name}[]" in self.tensors or f"{name}[]" in self.optional

    def example_case(self) -> Case:
        """The smallest call that shows the operator at work."""
        tensors: list[CaseTensor] = []
        for name in self.tensor_names:
            value = self.example.get(name)
            if not isinstance(value, list):
                continue
            dtype = self.example_dtypes.get(name, "bfloat16")
            shapes = value if self.is_list(name) else [value]
            tensors += [CaseTensor(tuple(shape), dtype, name) for shape in shapes]
        named = {tensor.name for tensor in tensors}
        return Case(self.aten, tuple(tensors), {k: v for k, v in self.example.items() if k not in named})


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The operators, and their other names in lists."""

    operators: Mapping[str, Operator]
    aliases: Mapping[str, str]
    functions: Mapping[str, str]
    """Function of ttnn -> the operator that it implements."""

    def find(self, aten: str) -> Operator | None:
        return self.operators.get(aten)

    def aten_name(self, name: str) -> str:
        """The aten name that a foreign list means: ``aten.add.Tensor``, ``unsafeview``, ``ttnn::silu``, ``SiLU``."""
        word = name.strip()
        word = re.split(r"\.|::", word)[1 if word.startswith(("aten.", "aten::")) else -1]
        if word in self.operators:
            return word
        if word in self.aliases:
            return self.aliases[word]
        lower = word.lower()
        return self.aliases.get(lower, lower if lower in self.operators else word)

    def aten_of_ttnn(self, name: str) -> str:
        """Return the operator that a function of ttnn implements (``ttnn::multiply``: ``mul``), or an empty text."""
        word = re.split(r"::|\.", name.strip())[-1].removesuffix("_bw")
        known = self.functions.get(word) or self.aten_name(word)
        return known if known in self.operators else ""


@functools.cache
def catalogue() -> Catalogue:
    """The catalogue, read once."""
    names = _data("names")
    found: dict[str, Operator] = {}
    for file in _FILES:
        for entry in _data(file)["operator"]:
            for aten in entry["aten"]:
                if aten in found:
                    raise ValueError(f"{file}.toml: {aten} is there twice")
                found[aten] = _operator(aten, entry, names)
    functions = _functions(found.values()) | {name: name for name in found} | names["function"]
    return Catalogue(MappingProxyType(found), MappingProxyType(names["alias"]), MappingProxyType(functions))


def _functions(operators: Iterable[Operator]) -> dict[str, str]:
    """Functions that are the whole of an operator's only variant; the first operator of several."""
    found: dict[str, str] = {}
    for operator in operators:
        calls = [_CALLED.findall(variant.call) for variant in operator.variants]
        if len(calls) == 1 and len(calls[0]) == 1 and not operator.aten.endswith("_"):
            found.setdefault(calls[0][0].rpartition(".")[2], operator.aten)
    return found


def _data(name: str) -> dict[str, Any]:
    return toml.load_packaged("ttmem.operators", f"catalogue_data/{name}.toml")


def _operator(aten: str, entry: Mapping[str, Any], names: Mapping[str, Any]) -> Operator:
    base = aten.removesuffix("_")
    words = {"base": base, "base_ttnn": names["ttnn"].get(base, base)}
    words |= {table: names[table].get(aten, aten) for table in ("logical", "adaptive", "new")}

    def spell_call(text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda match: words[match[1]], text)

    forms = entry.get("variants") or ([{"call": entry["call"]}] if "call" in entry else [])
    variants = [{**form, "call": spell_call(form["call"])} for form in forms]
    called = dict.fromkeys(_CALLED.findall(variants[-1]["call"])) if variants else {}
    ttnn = spell_call(entry["ttnn"]) if "ttnn" in entry else " + ".join(reversed(called))
    return msgspec.convert({**entry, "aten": aten, "variants": variants, "ttnn": ttnn}, Operator)
