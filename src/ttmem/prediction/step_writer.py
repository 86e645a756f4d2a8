# SPDX-License-Identifier: Apache-2.0
"""Write the calls of a model, and keep track of which device tensor holds which value in which form."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ttmem.operators.bound_case import CannotRunError, device_dtype
from ttmem.operators.case_program import DeviceTensor
from ttmem.operators.extraction import Graph, GraphCall
from ttmem.prediction.request import Request
from ttmem.prediction.stream import CONSTANT, INPUT, WEIGHT, ModelCall, Resident, Step, alloc_step, call_step

_BLOCK_FLOATS = ("bfloat8_b", "bfloat4_b")


@dataclass(frozen=True, slots=True)
class DeviceValue:
    """A value on the device, in the element order of the model's shape or with the channels last."""

    name: str
    shape: tuple[int, ...]
    layout: str
    dtype: str
    is_last: bool = False


class StepWriter:
    """Writes the steps of a model, call by call."""

    def __init__(self, graph: Graph, request: Request) -> None:
        self._graph = graph
        self._request = request
        self.residents: list[Resident] = []
        self.device_values: dict[int, DeviceValue] = {}
        self.steps: list[Step] = []
        self.dies: Callable[[int], bool] = lambda value: False
        """Tells whether the current call is the last use of a value."""
        self._owners = Counter[str]()
        """Tensor -> number of values that it holds."""
        self._temporary: list[str] = []
        self._frees: list[str] = []
        self._names = Counter[str]()
        self._loaded: dict[tuple[Any, ...], str] = {}
        self._origins: dict[int, int] = {}
        """Constant value -> the parameter that it is another form of."""

    def begin(self, dies: Callable[[int], bool]) -> None:
        self.dies = dies
        self.steps, self._temporary, self._frees = [], [], []

    def end(self, values: Sequence[int]) -> tuple[list[Step], list[str]]:
        """Finish the call; return its steps and the tensors that it frees."""
        for value in dict.fromkeys(values):
            if value in self.device_values and self.dies(value):
                self._release(value)
        frees = [name for name in (*self._temporary, *self._frees) if not self._owners[name]]
        return self.steps, list(dict.fromkeys(frees))

    def release_dropped(self, index: int, last: dict[int, int], calls: list[ModelCall]) -> None:
        """Free the tensors that Python drops between this call and the next."""
        self._frees = []
        for value in [value for value in self.device_values if last.get(value, -1) <= index]:
            self._release(value)
        if self._frees:
            calls[-1] = replace(calls[-1], frees=(*calls[-1].frees, *self._frees))

    def new_name(self, value: int) -> str:
        """Return an unused name: in-place calls give a value a new tensor."""
        name = f"v{value}"
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}.{self._names[name]}"

    def write(self, function: str, args: Sequence[Any], out: str, makes: Any, **options: Any) -> None:
        self.steps.append(call_step(function, args, out, makes, **options))

    def hold(self, value: int, held: DeviceValue) -> None:
        held = replace(held, dtype=_storable_dtype(held.dtype, held.layout))
        self._owners[held.name] += 1
        if value in self.device_values:
            self._release(value)
        self.device_values[value] = held

    def _release(self, value: int) -> None:
        name = self.device_values.pop(value).name
        self._owners[name] -= 1
        if not self._owners[name]:
            self._frees.append(name)

    def alias(
        self, source: int, value: int, *, shape: tuple[int, ...] | None = None, is_last: bool | None = None
    ) -> None:
        """Let the tensor of ``source`` hold another value as well."""
        held = self.device_values.get(source)
        if held is None:
            own = self._graph.values[source]
            name = self.ensure_form(source, own.shape, "tile", self.dtype_of(source))
            held = self.device_values.get(source) or DeviceValue(name, own.shape, "tile", self.dtype_of(source))
        if shape is not None:
            held = replace(held, shape=shape)
        self.hold(value, held if is_last is None else replace(held, is_last=is_last))

    def allocate_result(self, value: int) -> None:
        """Allocate a result of which only the size is known."""
        own, name = self._graph.values[value], self.new_name(value)
        dtype = self.dtype_of(value)
        self.steps.append(alloc_step(name, own.shape, dtype))
        self.hold(value, DeviceValue(name, own.shape or (1,), "tile", dtype))

    def require(self, value: int) -> None:
        """Load the operand of an unknown call if it comes from the host."""
        if value not in self.device_values:
            own = self._graph.values[value]
            self.ensure_form(value, own.shape or (1,), "tile", self.dtype_of(value))

    def move_to_dram(self, names: list[str]) -> None:
        """Move results whose memory the operation chooses itself to DRAM."""
        for place, name in enumerate(names):
            self._names[name] += 1
            names[place] = moved = f"{name}.{self._names[name]}"
            self.write("to_memory_config", [name, {"memory": "DRAM"}], moved, self.steps[-1].get("makes"))
            self.steps.append({"free": name})

    def list_fallback(self, made: Iterable[DeviceValue]) -> tuple[Step, ...]:
        """Return the steps to use if the library refuses the call: free all that it made, allocate its results."""
        wanted = {one.name: one for one in made}
        outs = [out for step in self.steps for out in _list_names(step.get("out"))]
        gone = [{"free": name, "force": False} for name in dict.fromkeys(outs)]
        return *gone, *(
            alloc_step(one.name, one.shape, one.dtype, one.layout) for one in wanted.values() if one.name in outs
        )

    def dtype_of(self, value: int) -> str:
        return device_dtype(self._graph.values[value].dtype, self._request.dtype)

    def rename_step(self, step: Step, names: dict[str, str]) -> dict[str, Any]:
        """Rename the tensors of a case's step to those of this stream; temporaries get new names."""

        def name_of(name: str) -> str:
            if name not in names:
                self._names["t"] += 1
                names[name] = f"t{self._names['t']}"
            return names[name]

        def value_of(value: Any) -> Any:
            if isinstance(value, dict):
                if isinstance(value.get("tensor"), str):
                    return {"tensor": name_of(value["tensor"])}
                return {key: value_of(item) for key, item in value.items()}
            return [value_of(item) for item in value] if isinstance(value, list) else value

        if "free" in step:
            return {**step, "free": name_of(step["free"])}
        made = {**step, "args": value_of(step["args"]), "kwargs": value_of(step["kwargs"])}
        if isinstance(step.get("out"), str):
            made["out"] = name_of(step["out"])
        return made

    # --- forms --------------------------------------------------------------------------------------------------------

    def ensure_form(
        self, value: int, shape: Sequence[int], layout: str, dtype: str, *, is_last: bool | None = None
    ) -> str:
        """Return the tensor that holds a value in this form: an existing one, one from the host, or a new one."""
        wanted = tuple(shape)
        dtype = _storable_dtype(dtype, layout)
        if value not in self.device_values:
            return self._load_from_host(value, wanted, layout, dtype, is_last=is_last)
        held = self.device_values[value]
        own = self._graph.values[value].shape
        last = held.is_last if is_last is None and self._keeps_channels_last(held, own, wanted) else bool(is_last)
        if is_last is None and not held.is_last and _is_channels_last(own, wanted):
            last = True
        if prod(own) == 1 or len(own) < 2:  # has no channels to move
            last = held.is_last
        if layout == "row_major" and held.layout == "tile":
            kept = _storable_dtype(held.dtype, layout)
            rows = {"attribute": "ttnn.ROW_MAJOR_LAYOUT"}
            held = self._convert(value, held, "to_layout", rows, layout=layout, dtype=kept)
        if last != held.is_last:
            held = self._move_channels(value, held, own, to_last=last)
        if layout == "tile" and held.layout == "row_major":
            held = self._convert(value, held, "to_layout", {"attribute": "ttnn.TILE_LAYOUT"}, layout=layout)
        if held.shape != wanted:
            if prod(held.shape) != prod(wanted):
                raise CannotRunError(f"a tensor of {list(held.shape)} is wanted as {list(wanted)}")
            held = self._convert(value, held, "reshape", list(wanted), shape=wanted)
        if held.dtype != dtype and not (held.dtype in _BLOCK_FLOATS and dtype == self._request.dtype):
            held = self._convert(value, held, "typecast", {"dtype": dtype}, dtype=dtype)
        return held.name

    def ensure_inputs(
        self, inputs: Iterable[DeviceTensor], values: Mapping[str, int], *, is_last: bool
    ) -> dict[str, str]:
        """Return the tensor of each input of a case in the case's form."""
        return {t.name: self.ensure_form(values[t.name], t.shape, t.layout, t.dtype, is_last=is_last) for t in inputs}

    @staticmethod
    def _keeps_channels_last(held: DeviceValue, own: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
        """Return whether the wanted shape keeps a value's channels in the last dimension."""
        return held.is_last and len(own) > 2 and wanted != own and wanted[-1] == own[1]

    def _move_channels(self, value: int, held: DeviceValue, own: tuple[int, ...], *, to_last: bool) -> DeviceValue:
        batch, channels, *spatial = own
        rank = len(own)
        if to_last:
            held = self._reshape(value, held, own)
            order = [0, *range(2, rank), 1]
            shape = (batch, *spatial, channels)
        else:
            held = self._reshape(value, held, (batch, *spatial, channels))
            order = [0, rank - 1, *range(1, rank - 1)]
            shape = own
        return self._convert(value, held, "permute", order, shape=shape, is_last=to_last)

    def _reshape(self, value: int, held: DeviceValue, shape: tuple[int, ...]) -> DeviceValue:
        return held if held.shape == shape else self._convert(value, held, "reshape", list(shape), shape=shape)

    def _convert(self, value: int, held: DeviceValue, function: str, argument: Any, **changes: Any) -> DeviceValue:
        """Write a call that changes the form; free the old tensor if it is not needed any more."""
        name = self.new_name(value)
        made = replace(held, name=name, **changes)
        self.write(function, [held.name, argument], name, [list(made.shape)])
        if self.dies(value) and self.device_values[value].name == held.name and self._owners[held.name] == 1:
            self._owners[held.name] -= 1
            self._owners[name] += 1
            self.device_values[value] = made
            self.steps.append({"free": held.name})
        elif held.name in self._temporary:
            self.steps.append({"free": held.name})
            self._temporary.remove(held.name)
            self._temporary.append(name)
        else:
            self._temporary.append(name)
        return made

    # --- from the host ------------------------------------------------------------------------------------------------

    def derive_constant(self, call: GraphCall) -> None:
        """Note the parameter behind a call on constants: a transposed or cast weight is still a weight."""
        values = self._graph.values
        sources = {self._origins.get(value, value) for value in call.takes}
        named = [value for value in sources if values[value].role in ("parameter", "buffer")]
        for made in call.makes:
            if len(named) == 1 and prod(values[made].shape) == prod(values[named[0]].shape):
                self._origins[made] = named[0]

    def _load_from_host(
        self, value: int, shape: tuple[int, ...], layout: str, dtype: str, *, is_last: bool | None
    ) -> str:
        own = self._graph.values[value]
        origin = self._graph.values[self._origins.get(value, value)]
        is_input = own.role == INPUT
        if is_input:
            last = bool(is_last) or _is_channels_last(own.shape, shape)
            name = self.load(own.name, INPUT, (value,), shape, layout, dtype)
            self.hold(value, DeviceValue(name, shape, layout, dtype, last))
            return name
        role = WEIGHT if origin.role == "parameter" else CONSTANT
        named = origin.name or f"constant {'x'.join(map(str, own.shape)) or 'scalar'}"
        if role == WEIGHT and len(origin.shape) > 1 and layout == "tile":
            dtype = self.weight_dtype(origin.name, dtype)
        return self.load(named, role, (self._origins.get(value, value),), shape, layout, dtype)

    def weight_dtype(self, name: str, dtype: str) -> str:
        """Return the requested data type of a weight; norms and biases keep the activations' type."""
        asked = self._request.weights
        return next((asked[kind] for kind in asked if kind and kind in name), asked.get("", dtype))

    def load(self, path: str, role: str, key: Iterable[Any], shape: Sequence[int], layout: str, dtype: str) -> str:
        """Load a tensor before the first call, once per form, and return its name."""
        dtype = _storable_dtype(dtype, layout)
        wanted = (*key, tuple(shape), layout, dtype)
        if wanted not in self._loaded:
            self._names[path] += 1
            name = path if self._names[path] == 1 else f"{path} ({self._names[path]})"
            self._loaded[wanted] = name
            self.residents.append(Resident(name, role, alloc_step(name, shape, dtype, layout)))
        return self._loaded[wanted]


def _storable_dtype(dtype: str, layout: str) -> str:
    """Return the data type to store: block floats exist in tiles only, so row-major ones become bfloat16."""
    return "bfloat16" if layout == "row_major" and dtype in _BLOCK_FLOATS else dtype


def _list_names(out: Any) -> list[str]:
    return [out] if isinstance(out, str) else list(out or ())


def _is_channels_last(own: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether a form is the model's own with the channels moved to the end."""
    return len(own) > 2 and wanted != own and wanted[-1] == own[1] and wanted[-1] != own[-1] and len(wanted) == 4
