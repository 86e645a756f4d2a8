# SPDX-License-Identifier: Apache-2.0
"""Public names of a package that are imported when they are first used, so that importing the package stays cheap."""

import sys
from collections.abc import Callable, Mapping


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
