# SPDX-License-Identifier: Apache-2.0
"""The tensors of a model on the device: what holds each value, in which shape and layout, and who still needs it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ttmem.operators.bound_case import CannotRunError, device_dtype
from ttmem.operators.graphs import Graph, GraphCall
from ttmem.prediction.request import Request
from ttmem.prediction.stream import CONSTANT, INPUT, WEIGHT, ModelCall, Resident, Step

_BLOCK_FLOATS = ("bfloat8_b", "bfloat4_b")
_DRAM = {"memory": "DRAM"}


@dataclass(frozen=True, slots=True)
class DeviceValue:
    """A value on the device. Its elements are in the order of the model's own shape, or with the channels last."""

    name: str
    shape: tuple[int, ...]
    layout: str
    dtype: str
    is_last: bool = False


class CallWriter:
    """Writes the steps of one call after the other."""

    def __init__(self, graph: Graph, request: Request) -> None:
        self._graph = graph
        self._request = request
        self.residents: list[Resident] = []
        self.device_values: dict[int, DeviceValue] = {}
        self.steps: list[Step] = []
        self.dies: Callable[[int], bool] = lambda value: False
        """Whether nobody needs a value after the call at hand."""
        self._owners = Counter[str]()
        """How many values a tensor holds."""
        self._temporary: list[str] = []
        self._frees: list[str] = []
        self._names = Counter[str]()
        self._loaded: dict[tuple[Any, ...], str] = {}
        self._origins: dict[int, int] = {}
        """Constant values that are one parameter in another form."""

    def begin(self, dies: Callable[[int], bool]) -> None:
        """The next call."""
        self.dies = dies
        self.steps, self._temporary, self._frees = [], [], []

    def end(self, values: Sequence[int]) -> tuple[list[Step], list[str]]:
        """Its steps, and the tensors that go with it."""
        for value in dict.fromkeys(values):
            if value in self.device_values and self.dies(value):
                self._release(value)
        frees = [name for name in (*self._temporary, *self._frees) if not self._owners[name]]
        return self.steps, list(dict.fromkeys(frees))

    def release_dropped(self, index: int, last: dict[int, int], calls: list[ModelCall]) -> None:
        """What Python lets go between this call and the next."""
        self._frees = []
        for value in [value for value in self.device_values if last.get(value, -1) <= index]:
            self._release(value)
        if self._frees:
            calls[-1] = replace(calls[-1], frees=(*calls[-1].frees, *self._frees))

    def new_name(self, value: int) -> str:
        """A name that no tensor has had: values are written anew in place."""
        name = f"v{value}"
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}.{self._names[name]}"

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
        """The same tensor is another value too."""
        held = self.device_values.get(source)
        if held is None:
            own = self._graph.values[source]
            name = self.ensure_form(source, own.shape, "tile", self.dtype_of(source))
            held = self.device_values.get(source) or DeviceValue(name, own.shape, "tile", self.dtype_of(source))
        if shape is not None:
            held = replace(held, shape=shape)
        self.hold(value, held if is_last is None else replace(held, is_last=is_last))

    def allocate_result(self, value: int) -> None:
        """A result of which nothing is known but its size."""
        own, name = self._graph.values[value], self.new_name(value)
        dtype = self.dtype_of(value)
        self.steps.append({"alloc": name, "shape": list(own.shape) or [1], "dtype": dtype, "layout": "tile", **_DRAM})
        self.hold(value, DeviceValue(name, own.shape or (1,), "tile", dtype))

    def require(self, value: int) -> None:
        """An operand of a call of which nothing is known: what comes from the host is there all the same."""
        if value not in self.device_values:
            own = self._graph.values[value]
            self.ensure_form(value, own.shape or (1,), "tile", self.dtype_of(value))

    def move_to_dram(self, names: list[str]) -> None:
        """Results of the call at hand that may lie anywhere."""
        for place, name in enumerate(names):
            self._names[name] += 1
            names[place] = moved = f"{name}.{self._names[name]}"
            call = {"call": "ttnn.to_memory_config", "args": [{"tensor": name}, dict(_DRAM)], "kwargs": {}}
            self.steps += [{**call, "out": moved, "makes": self.steps[-1].get("makes")}, {"free": name}]

    def list_fallback(self, made: Iterable[DeviceValue]) -> tuple[Step, ...]:
        """What stands for a call that the library refuses: everything that it made is gone, its results are there."""
        wanted = {one.name: one for one in made}
        outs = [out for step in self.steps for out in _list_names(step.get("out"))]
        gone = [{"free": name, "force": False} for name in dict.fromkeys(outs)]
        return *gone, *(
            {"alloc": one.name, "shape": list(one.shape), "dtype": one.dtype, "layout": one.layout, **_DRAM}
            for one in wanted.values()
            if one.name in outs
        )

    def dtype_of(self, value: int) -> str:
        return device_dtype(self._graph.values[value].dtype, self._request.dtype)

    def rename_step(self, step: Step, names: dict[str, str]) -> dict[str, Any]:
        """A step of a recipe under the names of this stream; its temporaries get their own."""

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
        """The tensor that holds a value in this form: it is there already, comes from the host, or is made now."""
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
            held = self._convert(value, held, "ttnn.to_layout", rows, layout=layout, dtype=kept)
        if last != held.is_last:
            held = self._move_channels(value, held, own, to_last=last)
        if layout == "tile" and held.layout == "row_major":
            held = self._convert(value, held, "ttnn.to_layout", {"attribute": "ttnn.TILE_LAYOUT"}, layout=layout)
        if held.shape != wanted:
            if prod(held.shape) != prod(wanted):
                raise CannotRunError(f"a tensor of {list(held.shape)} is wanted as {list(wanted)}")
            held = self._convert(value, held, "ttnn.reshape", list(wanted), shape=wanted)
        if held.dtype != dtype and not (held.dtype in _BLOCK_FLOATS and dtype == self._request.dtype):
            held = self._convert(value, held, "ttnn.typecast", {"dtype": dtype}, dtype=dtype)
        return held.name

    @staticmethod
    def _keeps_channels_last(held: DeviceValue, own: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
        """Whether a value with its channels last is wanted so: by the shape, whose last dimension are the channels."""
        return held.is_last and len(own) > 2 and wanted != own and wanted[-1] == own[1]

    def _move_channels(self, value: int, held: DeviceValue, own: tuple[int, ...], *, to_last: bool) -> DeviceValue:
        """Channels to the end, or back to their place."""
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
        return self._convert(value, held, "ttnn.permute", order, shape=shape, is_last=to_last)

    def _reshape(self, value: int, held: DeviceValue, shape: tuple[int, ...]) -> DeviceValue:
        return held if held.shape == shape else self._convert(value, held, "ttnn.reshape", list(shape), shape=shape)

    def _convert(self, value: int, held: DeviceValue, function: str, argument: Any, **changes: Any) -> DeviceValue:
        """One call that changes the form; the value moves on when nobody needs it as it was."""
        name = self.new_name(value)
        made = replace(held, name=name, **changes)
        call = {"call": function, "args": [{"tensor": held.name}, argument], "kwargs": {}, "out": name}
        self.steps.append({**call, "makes": [list(made.shape)]})
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
        """A call on constants alone: a weight that is transposed or cast is still a weight."""
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
        """What the request says of weights of this name; norms and biases keep the activations' type."""
        asked = self._request.weights
        return next((asked[kind] for kind in asked if kind and kind in name), asked.get("", dtype))

    def load(self, path: str, role: str, key: Iterable[Any], shape: Sequence[int], layout: str, dtype: str) -> str:
        """A tensor that is there before the first call; the same one in the same form once."""
        dtype = _storable_dtype(dtype, layout)
        wanted = (*key, tuple(shape), layout, dtype)
        if wanted not in self._loaded:
            self._names[path] += 1
            name = path if self._names[path] == 1 else f"{path} ({self._names[path]})"
            self._loaded[wanted] = name
            step = {"alloc": name, "shape": list(shape) or [1], "dtype": dtype, "layout": layout, **_DRAM}
            self.residents.append(Resident(name, role, step))
        return self._loaded[wanted]


def _storable_dtype(dtype: str, layout: str) -> str:
    """Block floats exist in tiles only; rows of them are bfloat16."""
    return "bfloat16" if layout == "row_major" and dtype in _BLOCK_FLOATS else dtype


def _list_names(out: Any) -> list[str]:
    return [out] if isinstance(out, str) else list(out or ())


def _is_channels_last(own: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a form differs from the model's own by having the channels at its end."""
    return len(own) > 2 and wanted != own and wanted[-1] == own[1] and wanted[-1] != own[-1] and len(wanted) == 4
