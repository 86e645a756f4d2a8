# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: every ttnn call of the tests on a device, as steps of the engines' protocol, a line of JSON each.

``twin_real_calls.py`` loads it in the interpreter that has ttnn; ``CALLS_FILE`` says where the lines go. What cannot
be written as a step is counted there by its reason instead.
"""

from __future__ import annotations

import functools
import json
import os
import random
import re
from math import prod
from pathlib import Path
from typing import Any

import ttnn

_NOT_CALLS = re.compile(
    r"ttnn\.(to_torch|from_torch|to_device|from_device|as_tensor|deallocate|(load|dump)_tensor|.*trace)"
)
"""What moves values between host and device has no rule, and no program."""
_MADE_OF_OTHERS = ("ttnn.Tensor.__getitem__",)
"""Their arguments are Python's own; the calls that they make are recorded."""
_MOST_HOST_ELEMENTS = 1 << 22
_DEFAULT = re.compile(r"(\w+): [^=,]*(?:\[[^=]*\][^=,]*)? = ([\w.\-{}]+)")
_Step = dict[str, Any]


class UnclearError(Exception):
    """An argument that steps cannot say."""


class _Call:
    """One call being written."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []
        self._names: dict[int, str] = {}
        self.is_on_device = False

    def value(self, value: Any) -> Any:
        if value is None or (isinstance(value, (bool, int, float, str)) and not hasattr(value, "name")):
            return value
        if isinstance(value, ttnn.Tensor):
            return {"tensor": self._tensor(value)}
        if isinstance(value, tuple):
            return {"tuple": [self.value(item) for item in value]}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, ttnn.Shape):
            return {"shape": list(value)}
        if isinstance(value, ttnn.MemoryConfig):
            return _placement(value)
        if isinstance(value, ttnn.DataType):
            return {"dtype": value.name.lower()}
        if isinstance(value, ttnn.Layout):
            return {"layout": "tile" if value.name == "TILE" else "row_major"}
        if isinstance(value, ttnn.MeshDevice):
            self.is_on_device = True
            return {"device": 0}
        if isinstance(value, ttnn.CoreCoord):
            return {"tuple": [value.x, value.y]}
        if isinstance(value, ttnn.CoreGrid):
            return {"new": "ttnn.CoreGrid", "kwargs": {"y": value.y, "x": value.x}}
        if isinstance(value, ttnn.CoreRangeSet):
            corners = [[{"tuple": [at.x, at.y]} for at in (one.start, one.end)] for one in value.ranges()]
            return {"new": "ttnn.CoreRangeSet", "args": [[{"new": "ttnn.CoreRange", "args": two} for two in corners]]}
        if isinstance(value, ttnn.UnaryWithParam):
            kind = f"ttnn.UnaryOpType.{value.op_type.name}"
            return {"new": "ttnn.UnaryWithParam", "args": [{"attribute": kind}, *value.params], "kwargs": {}}
        name = f"ttnn.{type(value).__qualname__}"
        if functools.reduce(lambda owner, part: getattr(owner, part, None), name.split(".")[1:], ttnn) is type(value):
            if hasattr(value, "name"):
                return {"attribute": f"{name}.{value.name}"}
            if type(value).__name__.endswith("Config"):
                return {"new": name, "kwargs": self._fields(value)}
        raise UnclearError(type(value).__name__)

    def _fields(self, config: Any) -> _Step:
        """Of a config, those that are not what they are without being said."""
        said = str(type(config).__init__.__doc__)
        defaults = dict(_DEFAULT.findall(said))
        fields = {name: getattr(config, name) for name in re.findall(r"(\w+): ", said) if hasattr(config, name)}
        return {
            name: self.value(value)
            for name, value in fields.items()
            if name not in defaults or str(value).rpartition(".")[2] != defaults[name].rpartition(".")[2]
        }

    def _tensor(self, tensor: Any) -> str:
        if id(tensor) not in self._names:
            name = self._names[id(tensor)] = f"t{len(self._names)}"
            layout = "tile" if tensor.layout == ttnn.TILE_LAYOUT else "row_major"
            step = {"shape": list(tensor.shape), "dtype": tensor.dtype.name.lower(), "layout": layout}
            if tensor.storage_type() != ttnn.DEVICE_STORAGE_TYPE:
                if prod(tensor.shape) > _MOST_HOST_ELEMENTS:
                    raise UnclearError("a large tensor on the host")
                self.steps.append({"host": name, **step})
                return name
            if not tensor.is_allocated():
                raise UnclearError("a tensor that is gone")
            self.is_on_device = True
            step |= _placement(tensor.memory_config())
            tile = list(tensor.tile.tile_shape)
            if layout == "tile" and tile != [32, 32]:
                step["tile"] = tile
            if layout == "tile" and any(
                padded != -(-size // unit) * unit
                for padded, size, unit in zip(list(tensor.padded_shape)[-2:], step["shape"][-2:], tile, strict=False)
            ):
                raise UnclearError("a tensor with padding of its own")
            self.steps.append({"alloc": name, **step})
        return self._names[id(tensor)]


def _placement(config: Any) -> _Step:
    kind = config.memory_layout.name.lower().removesuffix("_sharded")
    placed: _Step = {"memory": config.buffer_type.name}
    cut = config.nd_shard_spec if kind == "nd" else config.shard_spec
    if kind == "interleaved":
        return placed
    if cut is None:
        raise UnclearError("shards that the library shall choose")
    ranges = [[one.start.x, one.start.y, one.end.x, one.end.y] for one in cut.grid.ranges()]
    turned = "col" if cut.orientation.name == "COL_MAJOR" else "row"
    shard = {"kind": kind, "shape": list(cut.shard_shape if kind == "nd" else cut.shape), "ranges": ranges}
    more = {"distribution": cut.shard_distribution_strategy.name.lower()} if kind == "nd" else {}
    return {**placed, "shard": {**shard, "orientation": turned, **more}}


class _Writer:
    """Lines of one process; calls inside calls are part of those."""

    def __init__(self) -> None:
        self.test = ""
        self._is_inside = False
        self._known: set[str] = set()

    def wrap(self, kind: Any) -> None:
        original = kind.__call__

        @functools.wraps(original, updated=())
        def called(operation: Any, *arguments: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            if self._is_inside or operation.python_fully_qualified_name in _MADE_OF_OTHERS:
                return original(operation, *arguments, **options)
            self._is_inside = True
            try:
                self._note(operation.python_fully_qualified_name, arguments, options)
                return original(operation, *arguments, **options)
            finally:
                self._is_inside = False

        kind.__call__ = called

    def _note(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if _NOT_CALLS.fullmatch(name):
            return
        call = _Call()
        try:
            given = [call.value(value) for value in arguments]
            named = {key: call.value(value) for key, value in options.items()}
            if not call.is_on_device:
                return
            line = {"steps": [*call.steps, {"call": name, "args": given, "kwargs": named, "out": "result"}]}
        except UnclearError as error:
            line = {"call": name, "unclear": str(error)}
        text = json.dumps(line)
        if text not in self._known:
            self._known.add(text)
            with Path(os.environ["CALLS_FILE"]).open("a") as lines:
                lines.write(json.dumps({**line, "test": self.test}) + "\n")


_WRITER = _Writer()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """A sample of the tests of every file."""
    most, seed = int(os.environ["CALLS_TESTS"]), os.environ["CALLS_SEED"]
    by_file: dict[str, list[Any]] = {}
    for item in items:
        by_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
    kept: set[int] = set()
    for file, own in by_file.items():
        kept |= {id(item) for item in random.Random(seed + file).sample(own, min(most, len(own)))}
    items[:] = [item for item in items if id(item) in kept]


def pytest_configure() -> None:
    for kind in (ttnn.decorators.FastOperation, ttnn.decorators.Operation):
        _WRITER.wrap(kind)


def pytest_runtest_setup(item: Any) -> None:
    _WRITER.test = item.nodeid
