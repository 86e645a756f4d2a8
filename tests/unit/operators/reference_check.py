# SPDX-License-Identifier: Apache-2.0
"""Run by an interpreter with torch: whether the comparison of generated tests can be made, without a card.

ttnn is a stand-in that gives back what torch would. So the inputs, their arrangement for the device and the call of the
reference are the real ones, and a comparison that cannot work fails here.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_HALF_TYPES = (torch.bfloat16, torch.float16)


class _Anything:
    def __getattr__(self, name: str) -> Any:
        return _Anything()

    def __call__(self, *_: Any, **__: Any) -> Any:
        return _Anything()


def _attribute(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Anything()


def main(folder: str) -> None:
    stand_in = types.ModuleType("ttnn")
    stand_in.__getattr__ = _attribute  # type: ignore[method-assign]
    sys.modules["ttnn"] = stand_in
    sys.path.insert(0, folder)
    shared: Any = importlib.import_module("ttmem_cases")
    stand_in.from_torch = lambda values, **_: values  # type: ignore[attr-defined]
    problems = {}
    checked = 0
    for path in sorted(Path(folder).glob("test_*.py")):
        module = importlib.import_module(path.stem)
        source = path.read_text()
        operator, kind = source.rsplit('check(case, "', 1)[1].split('", device')[0].split('", "')
        for parameter in module.CASES:
            case = parameter.values[0]
            try:
                _compare_with_itself(shared, case, operator, kind)
                checked += 1
            except Exception as error:
                problems[case.id] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    sys.stdout.write(json.dumps({"checked": checked, "problems": problems}) + "\n")


def _compare_with_itself(shared: Any, case: Any, operator: str, kind: str) -> None:
    kept: list[Any] = []
    shared._is_mock = lambda: False
    inputs = shared._inputs(case, None, "DRAM", kept)
    given = {name: _copied(values) for name, values in inputs["torch"].items()}
    with _NoHalfTypes():
        result = shared._reference(case, operator, given)
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    channels_last = any(tensor.channels_last for tensor in shared._all(case))
    arranged = [shared._channels_last(one) if channels_last else one for one in results]
    shared._compare(case, operator, kind, inputs["torch"], arranged)


class _NoHalfTypes(TorchDispatchMode):
    """bfloat16 may be converted, but computing with it ends the process on some processors (AMX, SIGILL)."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        halves = [one for one in tree_leaves((args, kwargs or {})) if getattr(one, "dtype", None) in _HALF_TYPES]
        if halves and func.overloadpacket.__name__ not in ("_to_copy", "detach", "clone"):
            raise AssertionError(f"{func} computes with {halves[0].dtype}")
        return func(*args, **kwargs or {})


def _copied(values: Any) -> Any:
    return [one.clone() for one in values] if isinstance(values, list) else values.clone()


if __name__ == "__main__":
    main(sys.argv[1])
