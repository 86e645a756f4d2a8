# SPDX-License-Identifier: Apache-2.0
"""Convert an operation of a module into steps: a call whose results must match the types, or allocations alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ttmem.hardware import DATA_TYPES
from ttmem.prediction.compiled.operations import CALL_FORMS, CREATED, PREPARED, UPLOADS, CallForm, convert_convolution
from ttmem.profile.tensor_type import HOST
from ttmem.readers.mlir.functions import ModuleOperation
from ttmem.readers.mlir.syntax import parse_shard, parse_tensor_type

TensorForm = dict[str, Any]
"""``{"shape", "dtype", "layout", "memory"}`` and a ``shard`` where there is one: an ``alloc`` step without its name."""

_NEAREST = {"bool": "bfloat16", "float16": "bfloat16", "float64": "float32", "int64": "int32", "int16": "int32"}
"""For types that the library has no tensors of: modules from before the compiler chose how tensors are stored."""


class ModuleTypes:
    """The types of one module; each text is read once."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._known: dict[bytes, TensorForm | None] = {}
        self.missing_layouts = 0
        """Number of types without a memory: a stage before layouts are chosen."""
        self.other_types: set[str] = set()
        """Data types that the library does not have."""

    def read_type(self, type_text: bytes) -> TensorForm | None:
        """Return the tensor that a type describes, None for other types (a device, a trace's number)."""
        if type_text not in self._known:
            self._known[type_text] = self._read(type_text)
        return self._known[type_text]

    def read_local_shape(self, type_text: bytes, rank: int) -> list[int] | None:
        """Return the shape of one chip's shard, if the module states it."""
        parsed = parse_tensor_type(type_text) if type_text else None
        return list(parsed.shape) if parsed is not None and len(parsed.shape) == rank else None

    def _read(self, type_text: bytes) -> TensorForm | None:
        parsed = parse_tensor_type(type_text)
        if parsed is None or b"#ttnn.trace_id" in type_text:
            return None
        dtype = DATA_TYPES.get(parsed.dtype)
        if dtype is None or not dtype.in_ttnn:
            nearest = _NEAREST.get(dtype.name if dtype else parsed.dtype)
            if nearest is None:
                return None
            self.other_types.add(dtype.name if dtype else parsed.dtype)
            dtype = DATA_TYPES.find(nearest)
        if not parsed.memory:
            self.missing_layouts += 1
        form: TensorForm = {
            "shape": list(parsed.shape),
            "dtype": dtype.name,
            "layout": parsed.layout or "tile",
            "memory": parsed.memory or "DRAM",
        }
        shard = parse_shard(type_text, self._columns) if parsed.memory not in ("", HOST) else None
        return {**form, "shard": shard} if shard else form


def is_on_device(form: TensorForm | None) -> bool:
    return form is not None and form["memory"] != HOST


Step = dict[str, Any]

_CONVOLUTIONS = ("conv2d", "conv_transpose2d")
_MOST_HOST_ELEMENTS = 1 << 25
"""Limit for a tensor that is created on the host; a larger one is assumed to be on the device."""


@dataclass(slots=True)
class ModuleValue:
    """A value of the module: a named tensor on the device, or one on the host."""

    name: str
    form: TensorForm | None
    is_retained: bool = False
    """True if a deallocation has no effect: parameters belong to the caller, const-eval results to the cache."""
    owners: int = 1


WrittenSteps = tuple[list[Step], str]
"""The steps of an operation, and why there is no call for it (empty if there is one)."""


def build_steps(
    operation: ModuleOperation, operands: Sequence[ModuleValue | None], results: Sequence[ModuleValue]
) -> WrittenSteps:
    """Build the steps of an operation with these operands (None: the device, a number) and results on the device."""
    name = operation.name.removeprefix("ttnn.")
    form = CALL_FORMS.get(name)
    if name in CREATED or name in UPLOADS or name in PREPARED:
        return _allocate_results(results), ""
    tensors = [held for held in operands if held is not None]
    if name in _CONVOLUTIONS and len(results) == 1 and len(tensors) >= 2:
        return _build_convolution(name, operation, operands, results)
    if not all(is_on_device(held.form) for held in tensors):
        return _allocate_results(results), ""  # the host's part is done there: what arrives is allocated
    if form is None:
        return _allocate_results(results), f"no call is known for {operation.name}"
    return [_build_call(form, operation, operands, results)], ""


def _allocate_results(results: Sequence[ModuleValue]) -> list[Step]:
    return [{"alloc": held.name, **held.form} for held in results if held.form is not None]


def _build_call(
    form: CallForm, operation: ModuleOperation, operands: Sequence[ModuleValue | None], results: Sequence[ModuleValue]
) -> Step:
    given = _pair_keywords(form, operation, operands)
    args: list[Any] = [tensor for keyword, tensor in given if not keyword]
    kwargs: dict[str, Any] = {keyword: tensor for keyword, tensor in given if keyword}
    if form.tensors == ("*",):
        args = [args]
    made = results[0].form if results else None
    known = {**operation.properties, **_result_properties(made)}
    for prop, convert in form.values:
        if prop in known:
            args.append(convert(known[prop]))
    said = {key: convert(known[prop]) for key, (prop, convert) in form.options.items() if known.get(prop) is not None}
    kwargs |= {key: value for key, value in said.items() if value is not None}
    kwargs |= form.fixed
    if made is not None:
        first = next((held.form for held in operands if held is not None and held.form), None)
        if form.gives_dtype and first is not None and first["dtype"] != made["dtype"]:
            kwargs["dtype"] = {"dtype": made["dtype"]}
        if form.gives_layout:
            kwargs["layout"] = {"layout": made["layout"]}
        if form.gives_memory:
            kwargs["memory_config"] = _memory_config(made)
    return _call_step(form.call, args, kwargs, results)


def _call_step(call: str, args: list[Any], kwargs: dict[str, Any], results: Sequence[ModuleValue]) -> Step:
    step: Step = {"call": f"ttnn.{call}", "args": args, "kwargs": kwargs}
    if results:
        names = [held.name for held in results]
        step["out"] = names[0] if len(names) == 1 else names
    step["makes"] = [held.form for held in results]
    return step


def _pair_keywords(
    form: CallForm, operation: ModuleOperation, operands: Sequence[ModuleValue | None]
) -> list[tuple[str, dict[str, str]]]:
    """Pair each operand with its keyword; segment sizes say which optional operands are present."""
    segments = operation.properties.get("operandSegmentSizes")
    places: list[int] = []
    if isinstance(segments, list) and sum(segments) == len(operands):
        for place, size in enumerate(segments):
            places += [place] * size
    else:
        places = list(range(len(operands)))
    keywords = () if form.tensors == ("*",) else form.tensors
    return [
        (keywords[place] if place < len(keywords) else "", {"tensor": held.name})
        for place, held in zip(places, operands, strict=True)
        if held is not None
    ]


def _result_properties(made: TensorForm | None) -> dict[str, Any]:
    if made is None:
        return {}
    return {
        "result dtype": {"dtype": made["dtype"]},
        "result layout": {"layout": made["layout"]},
        "result shape": made["shape"],
    }


def _memory_config(made: TensorForm) -> dict[str, Any]:
    return {key: made[key] for key in ("memory", "shard") if key in made}


def _build_convolution(
    name: str, operation: ModuleOperation, operands: Sequence[ModuleValue | None], results: Sequence[ModuleValue]
) -> WrittenSteps:
    """Build a convolution. Host weights are created there: the library prepares and uploads them in the call."""
    tensors = [held for held in operands if held is not None and held.form is not None]
    steps: list[Step] = []
    for held in tensors[1:]:
        form = held.form
        if form is not None and not is_on_device(form):
            if prod(form["shape"]) > _MOST_HOST_ELEMENTS or form["dtype"] not in ("bfloat16", "float32"):
                return _allocate_results(results), "its weights are on the host and too large to be made"
            plain = {"shape": form["shape"], "dtype": form["dtype"], "layout": form["layout"]}
            steps.append({"host": held.name, **plain})
    keywords = ("input_tensor", "weight_tensor", "bias_tensor")
    kwargs: dict[str, Any] = {keyword: {"tensor": held.name} for keyword, held in zip(keywords, tensors, strict=False)}
    made = results[0].form
    if made is None:
        return [], ""
    kwargs |= convert_convolution(name, operation.properties, made["dtype"])
    kwargs["memory_config"] = _memory_config(made)
    steps.append(_call_step(name, [], kwargs, results))
    config = operation.properties.get("conv2d_config")
    if isinstance(config, dict) and config.get("deallocate_activation") is True:
        steps.append({"free": tensors[0].name, "force": False})  # the call has freed it: its name goes too
        tensors[0].owners = 0
    return steps, ""
