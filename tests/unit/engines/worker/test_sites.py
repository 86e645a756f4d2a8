# SPDX-License-Identifier: Apache-2.0
"""What a program calls the result of an operation, from its source."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from ttmem.engines.worker.call_sites import PASSED_ON, CallSites, find_result_names

SOURCE = textwrap.dedent(
    """\
    x = ttnn.matmul(a, b)
    q, k = ttnn.split(x, 64)
    self.w: Tensor = ttnn.to_device(w, device)
    y = a + b
    z = ttnn.gelu(ttnn.matmul(a, b))
    ttnn.deallocate(x)
    cache[i] = ttnn.mul(
        a,
        b,
    )
    def f():
        return ttnn.relu(x)
    out = self.mlp(x)
    one = make(1); two = make(2)
    """
)


@pytest.mark.parametrize(
    ("line", "operation", "names"),
    [
        (1, "matmul", ("x",)),
        (2, "split", ("q", "k")),
        (3, "to_device", ("self.w",)),
        (4, "add", ("y",)),
        (5, "gelu", ("z",)),
        (5, "matmul", ()),
        (6, "deallocate", ()),
        (8, "multiply", ("cache[i]",)),
        (12, "relu", PASSED_ON),
        (13, "forward", ("out",)),
        (13, "mlp", ("out",)),
        (14, "make", ()),
        (99, "add", ()),
    ],
)
def test_the_name_is_that_of_the_statement_whose_value_is_the_operation(
    tmp_path: Path, line: int, operation: str, names: tuple[str, ...]
) -> None:
    file = tmp_path / "model.py"
    file.write_text(SOURCE)
    assert find_result_names(str(file), line, operation) == names


def test_a_source_that_cannot_be_read_or_parsed_has_no_names(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("x = = ttnn.add(\n")
    assert find_result_names(str(broken), 1, "add") == ()
    assert find_result_names("<stdin>", 1, "add") == ()


def test_the_users_frame_is_the_innermost_that_is_not_ours_and_helpers_hand_names_on(tmp_path: Path) -> None:
    # GIVEN a library in a folder of its own, and a program with a helper that returns what the library made
    library, program = tmp_path / "lib" / "lib.py", tmp_path / "program.py"
    library.parent.mkdir()
    library.write_text("def op(): return inner()\ndef inner(): return SITES.find_caller('lib.op')\n")
    program.write_text("def helper():\n    return op()\n\nresult = helper()\nplain = [op()]\n")
    names = {"SITES": CallSites((str(library.parent),))}
    exec(compile(library.read_text(), str(library), "exec"), names)
    exec(compile(program.read_text(), str(program), "exec"), names)
    # THEN the place is the helper's, the name its caller's
    site = names["result"]
    assert (site.file, site.line, site.names) == (str(program), 2, ("result",))
    assert names["plain"][0].names == ()


def test_the_very_call_is_known_where_python_tells_its_columns(tmp_path: Path) -> None:
    # GIVEN statements of which a line alone does not tell what is named
    library, program = tmp_path / "lib" / "lib.py", tmp_path / "program.py"
    library.parent.mkdir()
    library.write_text("def op(*_): return SITES.find_caller('lib.op')\n")
    program.write_text(
        textwrap.dedent("""\
        a = op(); b = op()
        c, (d, e) = op(), (op(), op())
        if (f := op()):
            g = op() if f else None
        h = [op(op())]
        i = op(op())
        """)
    )
    names = {"SITES": CallSites((str(library.parent),))}
    exec(compile(library.read_text(), str(library), "exec"), names)
    exec(compile(program.read_text(), str(program), "exec"), names)
    # THEN each result has the name that it gets, and its step says where the call stands
    knows_columns = sys.version_info >= (3, 11)
    named = {name: names[name].names for name in "abcfgi"}
    assert named == {name: (name,) if knows_columns or name == "i" else () for name in "abcfgi"}
    assert names["h"][0].names == ()
    assert names["b"].path[-1].endswith(":1+14-1+18" if knows_columns else ":1")
