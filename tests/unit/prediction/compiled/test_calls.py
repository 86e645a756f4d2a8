# SPDX-License-Identifier: Apache-2.0
"""Functions of a module that call each other: any depth, a bounded number of operations, and no cycle."""

from __future__ import annotations

import time

import pytest

from support.compiled_modules import free, function, module, tiles
from ttmem.base.errors import BadInputError
from ttmem.prediction.compiled import build_module_stream
from ttmem.prediction.request import Request
from ttmem.prediction.stream import Stream

_TYPE = "tensor<32x32xbf16, #a>"
_CALL = f" : ({_TYPE}) -> {_TYPE} loc(#loc)"
_RELU = f'"ttnn.relu"(%arg0) : ({_TYPE}) -> {_TYPE} loc(#loc)'


def _call(how: str, name: str, value: str) -> str:
    """A call of a function by one of the three operations that run one."""
    if how == "load_cached":
        return f"ttcore.load_cached(@{name}, [{value}]){_CALL}"
    if how == "trace":
        properties = f"<{{capture_callee = @{name}, execute_callee = @{name}}}>"
        return (
            f'"ttnn.capture_or_execute_trace"(%d, {value}) {properties} : (!ttnn.device, {_TYPE}) -> {_TYPE} loc(#loc)'
        )
    return f"func.call @{name}({value}){_CALL}"


def _chain(levels: int, times: int = 1, how: str = "call", last: str = "") -> str:
    """Each function calls the next one so many times; the last one calls ``last``, or computes."""
    device = '%d = "ttnn.get_device"() <{mesh_shape = #ttnn<mesh_shape 1x1>}> : () -> !ttnn.device loc(#loc)'
    functions = []
    for level in range(levels + 1):
        following = f"f{level + 1}" if level < levels else last
        lines = [f"%1 = {_RELU}", free("%arg0", _TYPE)]
        if following:
            lines = [device, *(f"%{n + 1} = {_call(how, following, f'%{n}' if n else '%arg0')}" for n in range(times))]
        functions.append(
            function(
                f"f{level}" if level else "main",
                f"%arg0: {_TYPE} loc(unknown)",
                _TYPE,
                [*lines, f"return %{times if following else 1} : {_TYPE} loc(#loc)"],
                private=level > 0,
            )
        )
    return module({"a": tiles(32, 32)}, functions)


def _stream(text: str) -> Stream:
    return build_module_stream(text.encode(), Request("chain.mlir"))


@pytest.mark.parametrize("how", ["call", "load_cached", "trace"])
@pytest.mark.parametrize("levels", [66, 100, 1500])
def test_a_chain_is_followed_to_its_end(levels: int, how: str) -> None:
    called = [one.name for one in _stream(_chain(levels, how=how)).calls]
    assert called[-2:] == ["ttnn.relu", "ttnn.deallocate"]
    assert len(called) >= levels


@pytest.mark.parametrize("how", ["call", "load_cached", "trace"])
@pytest.mark.parametrize(("levels", "last"), [(0, "main"), (1, "f1"), (5, "f2"), (80, "f3")])
def test_a_cycle_is_named(levels: int, last: str, how: str) -> None:
    text = _chain(levels, how=how, last=last)
    if last == "main":  # a module needs a function that no other one calls
        text = text.replace("@main", "@f9")
        text = text.replace("      func.func @f9", _entry("f9") + "\n      func.func @f9", 1)
        last = "f9"
    with pytest.raises(BadInputError, match="without end") as refused:
        _stream(text)
    assert f"{last} -> " in refused.value.message
    assert refused.value.message.endswith(f" -> {last}")
    assert refused.value.where.startswith("chain.mlir:")


def _entry(callee: str) -> str:
    lines = [f"%1 = {_call('call', callee, '%arg0')}", f"%2 = {_RELU}", f"return %2 : {_TYPE} loc(#loc)"]
    return function("main", f"%arg0: {_TYPE} loc(unknown)", _TYPE, lines)


@pytest.mark.parametrize("how", ["call", "trace"])
@pytest.mark.parametrize(("levels", "times"), [(17, 2), (22, 2), (60, 2), (9, 10), (2, 1000)])
def test_calls_that_multiply_are_refused_before_they_are_followed(levels: int, times: int, how: str) -> None:
    text = _chain(levels, times, how)
    begun = time.process_time()
    with pytest.raises(BadInputError, match=r"a run has more than [0-9,]+ operations") as refused:
        _stream(text)
    assert time.process_time() - begun < 2
    assert refused.value.where.startswith("chain.mlir:")
    assert "--set function=NAME" in refused.value.hint


def test_calls_that_multiply_a_little_are_followed() -> None:
    assert sum(one.name == "ttnn.relu" for one in _stream(_chain(8, 2)).calls) == 2**8
    assert sum(one.name == "ttnn.relu" for one in _stream(_chain(24, 2, "load_cached")).calls) <= 48


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ({"main": "main"}, "only call each other"),
        ({"main": "a", "a": "b", "b": "a"}, "only call each other"),
        ({"main": "nowhere"}, "calls the function 'nowhere', which is not in the text"),
        ({"main": "a", "a": "nowhere"}, "calls the function 'nowhere', which is not in the text"),
    ],
)
def test_functions_that_do_nothing_but_call(calls: dict[str, str], told: str) -> None:
    functions = [
        function(
            name,
            f"%arg0: {_TYPE} loc(unknown)",
            _TYPE,
            [f"%1 = {_call('call', callee, '%arg0')}", f"return %1 : {_TYPE} loc(#loc)"],
            private=name != "main",
        )
        for name, callee in calls.items()
    ]
    with pytest.raises(BadInputError, match=told) as refused:
        _stream(module({"a": tiles(32, 32)}, functions))
    assert refused.value.where.startswith("chain.mlir:")
