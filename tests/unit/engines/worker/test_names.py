# SPDX-License-Identifier: Apache-2.0
"""Tensors are called what the program calls them, and weights, caches and activations are told apart."""

from __future__ import annotations

import functools
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.weights import weights
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.engines.worker.tensor_paths import find_tensors

MODEL = """
import ttnn


def upload(device, *shape):
    count = 1
    for size in shape:
        count *= size
    host = ttnn.Tensor([0.0] * count, list(shape), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT).to(ttnn.TILE_LAYOUT)
    return host.to(device)


class Layer:
    def __init__(self, device):
        self.projection = upload(device, 64, 64)
        self.cache = upload(device, 1, 1, 64, 64)

    def __call__(self, x):
        y = ttnn.matmul(x, self.projection)
        ttnn.update_cache(self.cache, ttnn.reshape(y, [1, 1, 64, 64])[:, :, :1, :], 0)
        return ttnn.relu(y)


class Model:
    def __init__(self, device):
        self.layers = [Layer(device) for _ in range(3)]
        self.tables = {"embedding": upload(device, 32, 64)}

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return ttnn.add(x, ttnn.slice(self.tables["embedding"], [0, 0], [1, 64]))


def main():
    device = ttnn.open_device(device_id=0)
    model = Model(device)
    for _ in range(4):
        model.tokens = upload(device, 64, 64)
        logits = model.forward(model.tokens)
    ttnn.close_device(device)


main()
"""


@pytest.mark.oracle
def test_weights_of_a_script_have_the_names_that_the_program_has_for_them(
    with_ttnn: Interpreter, tmp_path: Path
) -> None:
    script = tmp_path / "model.py"
    script.write_text(MODEL)
    ended = run_script(script, settings=RunSettings(), output=2)
    assert ended.status == 0
    found = weights(ended.profile)
    assert {entry.name for entry in found.entries} == {
        *(f"model.layers[{number}].projection" for number in range(3)),
        "model.tables['embedding']",
    }
    assert found.bytes == 3 * 64 * 64 * 2 + 32 * 64 * 2
    assert {argument.name for argument in ended.profile.arguments if argument.kv_cache} == {
        f"model.layers[{number}].cache" for number in range(3)
    }
    # AND what is uploaded for every run is an input, wherever the program keeps it
    (tokens,) = [argument for argument in ended.profile.arguments if argument.name == "model.tokens"]
    assert tokens.kind == "input"
    alive = alive_at_peak(ended.profile, "DRAM")
    assert alive is not None
    names = {life.name for life in alive.tensors}
    assert {"model.layers[0].cache", "model.layers[2].projection"} <= names


class Thing:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("inside",)

    def __init__(self, inside: Any) -> None:
        self.inside = inside


class Tensor:
    """Stands for the library's."""


def found(**variables: Any) -> dict[int, tuple[str, bool]]:
    code = (lambda: None).__code__.replace(co_filename="mine.py", co_name="main")
    frame: Any = SimpleNamespace(f_code=code, f_locals=variables, f_back=None)
    paths = find_tensors(Tensor, lambda file: file == "mine.py", frame)
    return {id(one.tensor): (one.path, one.is_lasting) for one in paths}


def test_the_walk_follows_what_a_program_keeps_things_in() -> None:
    tensors = [Tensor() for _ in range(7)]
    a, b, c, d, e, f, g = tensors

    def closure() -> Tensor:
        return e

    thing = Thing(direct=a, inner=Thing(items=[b]), named={"c": c}, slotted=Slotted(d), call=closure)
    thing.cycle = thing
    paths = found(model=thing, x=f, later=functools.partial(print, g))
    assert {paths[id(one)] for one in tensors} == {
        ("model.direct", True),
        ("model.inner.items[0]", True),
        ("model.named['c']", True),
        ("model.slotted.inside", True),
        ("model.call", True),
        ("x", False),
        ("later", True),
    }


def test_the_shortest_path_wins_and_objects_come_before_lists() -> None:
    shared = Tensor()
    layer = Thing(weight=shared)
    assert found(everything=[[shared]], model=Thing(layers=Thing(first=layer)))[id(shared)][0].startswith("model")


def test_the_variable_of_a_loop_names_nothing_that_has_another_name() -> None:
    def paths() -> set[str]:
        return {one.path for one in find_tensors(Tensor, lambda file: file == __file__, sys._getframe(1))}

    model = Thing(layers=[Thing(weight=Tensor()), Thing(weight=Tensor())])
    for _number, layer in enumerate(model.layers):
        assert layer
    seen = paths()
    assert {"model.layers[0].weight", "model.layers[1].weight"} <= seen
    assert "layer.weight" not in seen
    for alone in iter([Thing(weight=Tensor())]):  # kept by nothing else
        assert "alone.weight" in paths()
        assert alone


def test_what_a_function_drops_is_not_kept_by_the_walk() -> None:
    def walk() -> list[str]:
        return [one.path for one in find_tensors(Tensor, lambda file: file == __file__, sys._getframe(1))]

    def drops() -> tuple[list[str], object]:
        local = Tensor()
        alive = weakref.ref(local)
        paths = walk()
        del local
        return paths, alive()

    def keeps() -> dict[str, Any]:
        local = Tensor()
        mine = locals()
        assert "local" in walk()
        assert local is mine["local"]
        return mine

    paths, left = drops()
    assert "local" in paths
    assert left is None
    assert "local" in keeps()


def test_objects_that_do_not_like_to_be_looked_at_do_no_harm() -> None:
    class Odd:
        __slots__ = ("never_set",)

        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("leave me alone")

    kept = Tensor()
    assert found(odd=Odd(), kept=Thing(it=kept))[id(kept)] == ("kept.it", True)
