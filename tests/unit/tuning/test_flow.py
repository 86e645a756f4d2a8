# SPDX-License-Identifier: Apache-2.0
"""Where a tensor may be freed in the source: no branch, turn of a loop, other name or keeper may read it afterwards."""

from __future__ import annotations

import textwrap

import pytest

from ttmem.tuning.dataflow import DataFlow
from ttmem.tuning.source import PythonSource

MADE, LAST = "# made", "# last"


def objection(text: str, name: str, *, overwrites: bool = False, views: frozenset[int] = frozenset()) -> str:
    """Of a tensor that is made and used last where the comments say so."""
    source = PythonSource("import ttnn\n" + textwrap.dedent(text))
    line = {mark: next(n for n, one in enumerate(source.lines, 1) if mark in one) for mark in (MADE, LAST)}
    made, last = source.find_statement_on_line(line[MADE]), source.find_statement_on_line(line[LAST])
    assert made is not None
    assert last is not None
    behind = source.find_release_statement(made, last)
    if behind is None:
        return "nowhere"
    found = DataFlow(source, [source], views, overwrites=overwrites).find_objection(made, name, behind)
    return "" if found is None else found.why


SAFE = {
    "straight": """
        x = make()  # made
        y = ttnn.sum(x)  # last
        z = ttnn.exp(y)
        """,
    "asked for its shape": """
        x = make()  # made
        y = ttnn.sum(x)  # last
        print(x.shape)
        """,
    "freed later too": """
        x = make()  # made
        y = ttnn.sum(x)  # last
        ttnn.deallocate(x)
        """,
    "another value afterwards": """
        x = make()  # made
        y = ttnn.sum(x)  # last
        x = make()
        z = ttnn.exp(x)
        """,
    "made anew in each turn": """
        for _ in range(3):
            x = make()  # made
            y = ttnn.sum(x)  # last
        """,
    "used in a branch": """
        x = make()  # made
        if y:
            z = ttnn.sum(x)  # last
        w = ttnn.exp(y)
        """,
    "given to a function that keeps nothing": """
        def f(a):
            return ttnn.sum(a)

        x = make()  # made
        y = f(x)  # last
        """,
    "kept by a list that nobody reads": """
        def f():
            kept = []
            x = make()  # made
            kept.append(x)
            y = ttnn.sum(x)  # last
            return y
        """,
    "another variable of that name": """
        def f(x):
            return ttnn.exp(x)

        x = make()  # made
        y = [ttnn.sum(x) for x in (x,)]  # last
        """,
    "in a return": """
        def f():
            x = make()  # made
            return ttnn.sum(x)  # last
        """,
}
UNSAFE = {
    "another branch": """
        x = make()  # made
        y = ttnn.sum(x)  # last
        if y:
            z = ttnn.exp(x)
        """,
    "another name": """
        x = make()  # made
        other = x
        y = ttnn.sum(x)  # last
        z = ttnn.exp(other)
        """,
    "a name of a name": """
        x = make()  # made
        pair = (x, 1)
        first = pair
        y = ttnn.sum(x)  # last
        z = ttnn.exp(first[0])
        """,
    "handed on": """
        def f():
            x = make()  # made
            y = ttnn.sum(x)  # last
            return x, y
        """,
    "the next turn": """
        x = make()
        for _ in range(3):
            x = ttnn.exp(x)  # made
            y = ttnn.sum(x)  # last
        """,
    "before it in the loop": """
        x = None
        for _ in range(3):
            if x is not None:
                z = ttnn.exp(x)
            x = make()  # made
            y = ttnn.sum(x)  # last
        """,
    "a turn that ends early": """
        for turn in range(3):
            x = make()  # made
            if turn:
                continue
            y = ttnn.sum(x)  # last
        """,
    "an exception": """
        def f():
            try:
                x = make()  # made
                y = ttnn.sum(x)  # last
                g(y)
            except ValueError:
                return ttnn.exp(x)
        """,
    "a function inside": """
        def f():
            x = make()  # made
            y = ttnn.sum(x)  # last
            return lambda: ttnn.exp(x)
        """,
    "a function that reads the module's": """
        x = make()  # made
        y = ttnn.sum(x)  # last

        def f():
            return ttnn.exp(x)
        """,
    "an attribute that another method reads": """
        class A:
            def f(self):
                self.x = make()  # made
                y = ttnn.sum(self.x)  # last

            def g(self):
                return ttnn.exp(self.x)
        """,
    "a function that keeps it": """
        def f(a):
            KEPT.append(a)

        x = make()  # made
        f(x)  # last
        z = ttnn.exp(KEPT[0])
        """,
    "nobody knows what is called": """
        x = make()  # made
        y = ttnn.sum(x)
        unknown(x)  # last
        """,
    "kept by a list of the caller": """
        def f(kept):
            x = make()  # made
            kept.append(x)
            y = ttnn.sum(x)  # last
        """,
    "written into": """
        x = make()  # made
        y = ttnn.relu(y, output_tensor=x)  # last
        z = ttnn.exp(y)
        """,
    "made in one branch, used in the other": """
        for turn in range(3):
            if turn:
                x = make()  # made
            else:
                y = ttnn.sum(x)  # last
        """,
}


@pytest.mark.parametrize("name", SAFE)
def test_what_nobody_reads_may_go(name: str) -> None:
    assert objection(SAFE[name], "x") == ""


@pytest.mark.parametrize("name", UNSAFE)
def test_what_a_path_of_the_program_reads_may_not(name: str) -> None:
    assert objection(UNSAFE[name], "self.x" if "self.x" in UNSAFE[name] else "x") != ""


def test_a_view_is_another_name() -> None:
    text = """
    x = make()  # made
    v = ttnn.reshape(x, (1, 2))
    y = ttnn.sum(x)  # last
    z = ttnn.exp(v)
    """
    assert objection(text, "x", views=frozenset({4})) != ""


def test_what_is_freed_later_may_not_be_written_over() -> None:
    assert objection(SAFE["freed later too"], "x", overwrites=True) != ""
