# SPDX-License-Identifier: Apache-2.0
"""Random programs in which tensors get names in every way that Python has; each runs, with and without an argument."""

from __future__ import annotations

import random
from collections.abc import Callable

HEAD = """\
import sys

import ttnn

device = ttnn.open_device(device_id=0)
FLAG = len(sys.argv) > 1
KEPT = []


def make():
    return ttnn.zeros([1, 1, 1024, 512], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)


def identity(x):
    return x


def keep(x):
    KEPT.append(x)


def use(x):
    y = ttnn.relu(x)
    return ttnn.neg(y)


def pair(x):
    return x, ttnn.relu(x)


def maybe(x):
    return x if FLAG else ttnn.relu(x)


def made():
    x = make()
    y = ttnn.relu(x)
    return y


def each(x):
    yield ttnn.relu(x)
    yield ttnn.neg(x)


class Box:
    def __init__(self, x=None):
        self.x = x

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def use(self):
        return ttnn.relu(self.x)


def run(program):
    try:
        program()
    except ValueError as error:
        print(program.__name__, error)
    KEPT.clear()


"""
_UNARY = ("relu", "neg", "exp", "gelu")
_BINARY = ("add", "multiply", "subtract")


class _Program:
    """Statements, line by line; names are those that are surely bound there."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.depth = 1
        self.in_loop = False
        self.tensors: list[str] = []
        self.lists: list[str] = []
        self.mappings: list[str] = []
        self.boxes: list[str] = []
        self.functions: list[str] = []
        self.count = 0

    def say(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def new(self, kind: str = "t") -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def any(self) -> str:
        return self.draw.choice(self.tensors)

    def target(self) -> str:
        """A new name, or one that has a value already."""
        return self.any() if self.draw.random() < 0.4 else self.new()

    def bound(self, name: str) -> None:
        if name not in self.tensors:
            self.tensors.append(name)

    def value(self) -> str:
        """An expression that makes a tensor, or may."""
        x, y = self.any(), self.any()
        choices = [
            f"ttnn.{self.draw.choice(_UNARY)}({x})",
            f"ttnn.{self.draw.choice(_UNARY)}({x})",
            f"ttnn.{self.draw.choice(_BINARY)}({x}, {y})",
            f"{x} + {y}",
            "make()",
            f"use({x})",
            "made()",
            f"ttnn.relu(ttnn.neg({x}))",
        ]
        return self.draw.choice(choices)

    def block(self, count: int) -> None:
        """Inside, what is bound is not bound surely behind it."""
        kept = [list(one) for one in (self.tensors, self.lists, self.mappings, self.boxes, self.functions)]
        self.depth += 1
        for _ in range(count):
            self.statement()
        self.depth -= 1
        self.tensors, self.lists, self.mappings, self.boxes, self.functions = kept

    def statement(self) -> None:
        forms: list[Callable[[], None]] = [getattr(self, name) for name in _FORMS]
        nested = [getattr(self, name) for name in _NESTED] if self.depth < 3 else []
        self.draw.choice([*forms, *forms, *nested])()

    # -- one form each ----------------------------------------------------------------------------------------------

    def form_assign(self) -> None:
        value = self.value()
        name = self.target()
        self.say(f"{name} = {value}")
        self.bound(name)

    def form_rebind(self) -> None:
        name = self.any()
        value = self.draw.choice(
            [
                f"ttnn.relu({name})",
                f"use({name})",
                f"ttnn.add({name}, {self.any()})",
                f"maybe({name})",
                f"pair({name})[1]",
            ]
        )
        self.say(f"{name} = {value}")

    def form_alias(self) -> None:
        value, name = self.any(), self.target()
        self.say(f"{name} = {self.draw.choice([value, f'identity({value})', f'maybe({value})'])}")
        self.bound(name)

    def form_two_names(self) -> None:
        value, first, second = self.value(), self.target(), self.new()
        self.say(f"{first} = {second} = {value}")
        self.bound(first), self.bound(second)

    def form_tuple(self) -> None:
        x, y = self.value(), self.value()
        first, second = self.new(), self.target()
        self.say(self.draw.choice([f"{first}, {second} = {x}, {y}", f"{first}, {second} = pair({self.any()})"]))
        self.bound(first), self.bound(second)

    def form_swap(self) -> None:
        x, y = self.any(), self.any()
        self.say(f"{x}, {y} = {y}, {x}")

    def form_walrus(self) -> None:
        x, name = self.any(), self.new("w")
        other = self.new()
        forms = [f"{other} = ttnn.add(({name} := make()), {x})", f"{other} = ({name} := ttnn.relu({x}))"]
        self.say(self.draw.choice(forms))
        self.bound(name), self.bound(other)

    def form_conditional(self) -> None:
        x, name = self.any(), self.target()
        self.say(f"{name} = {self.draw.choice([f'make() if FLAG else {x}', f'ttnn.relu({x}) if not FLAG else {x}'])}")
        self.bound(name)

    def form_augmented(self) -> None:
        self.say(f"{self.any()} += {self.any()}")

    def form_view(self) -> None:
        x, name = self.any(), self.target()
        forms = [f"ttnn.reshape({x}, (1, 1, 1024, 512))", f"ttnn.to_memory_config({x}, ttnn.DRAM_MEMORY_CONFIG)"]
        self.say(f"{name} = {self.draw.choice(forms)}")
        self.bound(name)

    def form_split(self) -> None:
        name = self.new("parts")
        self.say(f"{name} = ttnn.split(ttnn.concat([{self.any()}, {self.any()}], -1), 512, 3)")
        self.lists.append(name)

    def form_target(self) -> None:
        x, y, name = self.any(), self.any(), self.target()
        self.say(f"{name} = ttnn.relu({x}, output_tensor={y})")
        self.bound(name)

    def form_list(self) -> None:
        x, name = self.any(), self.new("kept")
        forms = [f"[{x}, {self.any()}]", f"[{x}]", "[make() for _ in range(2)]", f"[ttnn.relu({x}) for _ in range(2)]"]
        self.say(f"{name} = {self.draw.choice(forms)}")
        self.lists.append(name)

    def form_into_list(self) -> None:
        if not self.lists:
            return self.form_list()
        kept = self.draw.choice(self.lists)
        x = self.any()
        forms = [
            f"{kept}.append({x})",
            f"{kept} = {kept} + [{x}]",
            f"{kept} += [{x}]",
            f"{kept}[0] = {x}",
            f"keep({x})",
        ]
        return self.say(self.draw.choice(forms))

    def form_out_of_list(self) -> None:
        if not self.lists:
            return self.form_list()
        kept, name = self.draw.choice(self.lists), self.target()
        forms = [f"{kept}[0]", f"{kept}[-1]", f"ttnn.relu({kept}[0])", f"[ttnn.relu(x) for x in {kept}][0]"]
        forms += [f"next(ttnn.relu(x) for x in {kept})", f"[x for x in {kept}][0]", f"max({kept}, key=id)"]
        self.say(f"{name} = {self.draw.choice(forms)}")
        return self.bound(name)

    def form_mapping(self) -> None:
        name = self.new("named")
        self.say(f"{name} = {{'a': {self.any()}}}")
        self.mappings.append(name)

    def form_into_mapping(self) -> None:
        if not self.mappings:
            return self.form_mapping()
        return self.say(f"{self.draw.choice(self.mappings)}['a'] = {self.draw.choice([self.any(), self.value()])}")

    def form_out_of_mapping(self) -> None:
        if not self.mappings:
            return self.form_mapping()
        named, name = self.draw.choice(self.mappings), self.target()
        forms = [f"{named}['a']", f"ttnn.relu({named}['a'])", f"[ttnn.relu(x) for x in {named}.values()][0]"]
        self.say(f"{name} = {self.draw.choice(forms)}")
        return self.bound(name)

    def form_box(self) -> None:
        name = self.new("box")
        self.say(f"{name} = Box({self.any()})")
        self.boxes.append(name)

    def form_into_box(self) -> None:
        if not self.boxes:
            return self.form_box()
        return self.say(f"{self.draw.choice(self.boxes)}.x = {self.draw.choice([self.any(), self.value()])}")

    def form_out_of_box(self) -> None:
        if not self.boxes:
            return self.form_box()
        box, name = self.draw.choice(self.boxes), self.target()
        forms = [f"{box}.use()", f"ttnn.relu({box}.x)", f"{box}.x", f"getattr({box}, 'x')"]
        self.say(f"{name} = {self.draw.choice(forms)}")
        return self.bound(name)

    def form_closure(self) -> None:
        name, x = self.new("later"), self.any()
        self.say(self.draw.choice([f"{name} = lambda: ttnn.relu({x})", f"{name} = lambda x={x}: ttnn.relu(x)"]))
        self.functions.append(name)

    def form_call(self) -> None:
        if not self.functions:
            return self.form_closure()
        name = self.target()
        self.say(f"{name} = {self.draw.choice(self.functions)}()")
        return self.bound(name)

    def form_global(self) -> None:
        self.say(f"if KEPT: {self.any()} = ttnn.relu(KEPT[-1])")

    def form_shape(self) -> None:
        self.say(f"print({self.any()}.shape)")

    def form_drop(self) -> None:
        name = self.new("gone")
        self.say(f"{name} = make()")
        self.say(f"{self.any()} = ttnn.relu({name})")
        self.say(self.draw.choice([f"ttnn.deallocate({name})", f"del {name}", f"{name} = None"]))

    def form_two_on_a_line(self) -> None:
        first, second = self.new(), self.new()
        self.say(f"{first} = make(); {second} = ttnn.relu({first})")
        self.bound(first), self.bound(second)

    def nested_if(self) -> None:
        self.say(self.draw.choice(["if FLAG:", "if not FLAG:"]))
        self.block(2)
        if self.draw.random() < 0.5:
            self.say("else:")
            self.block(2)

    def nested_for(self) -> None:
        outer, self.in_loop = self.in_loop, True
        self.say("for turn in range(3):")
        self.block(self.draw.randint(1, 3))
        if self.draw.random() < 0.3:
            self.depth += 1
            self.say(f"if turn == 1: {self.draw.choice(['continue', 'break'])}")
            self.block(0)
            self.statement()
            self.depth -= 1
        self.in_loop = outer

    def nested_each(self) -> None:
        source = f"each({self.any()})" if not self.lists else self.draw.choice([*self.lists, f"each({self.any()})"])
        name = self.new("item")
        self.say(f"for {name} in {source if source.startswith('each') else f'list({source})'}:")
        self.tensors.append(name)
        self.block(2)
        self.tensors.remove(name)

    def nested_with(self) -> None:
        name = self.new("box")
        self.say(f"with Box({self.any()}) as {name}:")
        self.boxes.append(name)
        self.block(2)

    def nested_try(self) -> None:
        x = self.any()
        self.say("try:")
        self.block(2)
        self.depth += 1
        self.say("if FLAG: raise ValueError('meant')")
        self.depth -= 1
        self.say(f"except ValueError: {self.any()} = ttnn.relu({x})")
        if self.draw.random() < 0.4:
            self.say(f"finally: print({self.any()}.shape)")

    def nested_return(self) -> None:
        self.say(f"if FLAG: return ttnn.relu({self.any()})")


_FORMS = tuple(name for name in vars(_Program) if name.startswith("form_"))
_NESTED = tuple(name for name in vars(_Program) if name.startswith("nested_"))


def program(draw: random.Random, name: str, length: int) -> str:
    """A function of the module that runs to its end."""
    made = _Program(draw)
    made.say("t0 = make()")
    made.tensors.append("t0")
    for _ in range(length):
        made.statement()
    made.say(f"return ttnn.relu({made.any()})")
    return f"def {name}():\n" + "\n".join(made.lines) + f"\n\n\nrun({name})\n\n\n"


def script(draw: random.Random, count: int, length: int = 9) -> str:
    """Several of them, one after the other."""
    return HEAD + "".join(program(draw, f"program_{number}", length) for number in range(count))
