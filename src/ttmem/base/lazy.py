# SPDX-License-Identifier: Apache-2.0
"""Public names of a package that are imported when they are first used, so that importing the package stays cheap."""

import sys
from collections.abc import Callable, Mapping
from types import ModuleType


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A package's ``__getattr__``; ``homes`` says in which module each name lives ("": the name is a module itself)."""

    def getattr_(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        home = import_module(f"{package}.{homes[name] or name}")
        value = getattr(home, name) if homes[name] else home
        setattr(sys.modules[package], name, value)
        return value

    return getattr_


def callable_room(package: str, home: str) -> None:
    """Let a package that has the name of a verb be called as that verb: ``ttmem.explain`` is a room and a call.

    Python binds a package's name in its parent when anything imports it, so a function of the same name there would be
    overwritten at some moment. ``home`` is the module of the function, imported at the first call.
    """

    def function() -> Callable[..., object]:
        from importlib import import_module

        called: Callable[..., object] = getattr(import_module(home), package.rpartition(".")[2])
        return called

    class Room(ModuleType):
        def __call__(self, *arguments: object, **options: object) -> object:
            return function()(*arguments, **options)

        @property
        def __signature__(self) -> object:  # what notebooks and help() show
            from inspect import signature

            return signature(function())

    sys.modules[package].__class__ = Room
