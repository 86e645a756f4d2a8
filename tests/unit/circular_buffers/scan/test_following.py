# SPDX-License-Identifier: Apache-2.0
"""What a variable holds where a buffer is declared: branches, loops, calls, lambdas, arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.scan_sources import buffers, config, host, sizes


def test_a_variable_that_an_if_changes() -> None:
    code = host("uint32_t tiles = 2;\nif (wide) { tiles = n; } else { tiles += 1; }\n" + config("tiles * 2048"))
    assert sizes(code) == [None]
    assert sizes(code, wide=1, n=7) == [7 * 2048]
    assert sizes(code, wide=0) == [3 * 2048]


def test_both_sides_equal_need_no_condition() -> None:
    code = host("uint32_t tiles;\nif (wide) { tiles = 4; } else { tiles = 4; }\n" + config("tiles * 2048"))
    assert sizes(code) == [4 * 2048]


def test_what_stands_behind_an_early_return_has_the_opposite_condition() -> None:
    code = host(f"if (wide) {{ {config('4096')} return; }}\n{config('2048', index='1')}")
    assert [[str(c) for c in one.declaration.conditions] for one in buffers(code)] == [["wide"], ["!(wide)"]]
    assert [one.active for one in buffers(code, wide=1)] == [True, False]


def test_conditions_of_the_build_and_of_the_file() -> None:
    code = "constexpr bool kSplit = false;\n" + host(
        f"#ifdef WITH_MASK\n{config('4096', index='5')}\n#else\n{config('2048', index='6')}\n#endif\n"
        f"if constexpr (kSplit) {{ {config('9999', index='7')} }}"
    )
    found = buffers(code)
    assert [(one.index, [str(c) for c in one.declaration.conditions]) for one in found] == [
        (5, ["WITH_MASK"]),
        (6, ["!(WITH_MASK)"]),
    ]


def test_a_switch_is_a_chain_of_conditions() -> None:
    code = host(
        "uint32_t depth = 0;\nswitch (n) {\n case 1: depth = 1; break;\n case 2: depth = 4; break;\n"
        " default: depth = 8;\n}\n" + config("depth * 2048")
    )
    assert [sizes(code, n=n) for n in (1, 2, 3)] == [[2048], [4 * 2048], [8 * 2048]]


def test_loops_say_how_often_and_leave_what_they_change_unknown() -> None:
    code = host(
        f"uint32_t tiles = 1;\nfor (uint32_t i = 0; i < n; i += 2) {{ tiles *= 2; {config('4096', index='i')} }}\n"
        + config("tiles * 2048", index="9")
    )
    inner, outer = buffers(code, n=7)
    assert (inner.total_bytes, inner.copies) == (4096, 4)
    assert outer.total_bytes is None
    assert buffers(code, n=7, tiles=3)[1].total_bytes == 3 * 2048


def test_shadowed_names_end_with_their_block() -> None:
    code = host("uint32_t tiles = 2;\n{ uint32_t tiles = 9; }\n" + config("tiles * 2048"))
    assert sizes(code) == [2 * 2048]


def test_functions_of_the_file_are_followed_with_their_arguments_and_defaults() -> None:
    code = (
        "static uint32_t depth_of(uint32_t tiles, uint32_t most = 8) {\n"
        "  if (tiles > most) { return most; }\n  return tiles;\n}\n"
        + host(config("depth_of(n) * 2048") + config("depth_of(n, 3) * 2048", index="1"))
    )
    assert sizes(code, n=5) == [5 * 2048, 3 * 2048]
    assert sizes(code, n=20) == [8 * 2048, 3 * 2048]


def test_what_a_function_gives_back_through_a_reference() -> None:
    code = "static void choose(uint32_t in, uint32_t& out) { out = in * 2; }\n" + host(
        "uint32_t tiles = 0;\nchoose(n, tiles);\n" + config("tiles * 2048")
    )
    assert sizes(code, n=3) == [6 * 2048]


def test_what_an_unknown_function_may_have_changed_is_not_claimed() -> None:
    # GIVEN a variable handed to a function that is defined elsewhere, and one that is const
    code = host(
        "uint32_t tiles = 0;\nconst uint32_t fixed = 4;\nfill_in(n, tiles, fixed);\n"
        + config("tiles * 2048")
        + config("fixed * 2048", index="1")
    )
    assert sizes(code) == [None, 4 * 2048]


def test_lambdas_see_the_variables_around_them_and_may_be_called_by_others() -> None:
    code = host(
        "uint32_t page = 1024;\nauto add = [&](uint32_t index, uint32_t tiles) {\n"
        + config("tiles * page", index="index", page="page")
        + "\n};\nadd(0, 2);\npage = 2048;\nadd(1, 3);\nfor_each_core([&](CoreCoord core) {\n"
        + config("512", index="2", page="512")
        + "\n});"
    )
    assert [(one.index, one.total_bytes) for one in buffers(code)] == [(0, 2048), (1, 6144), (2, 512)]


def test_recursion_and_mutual_calls_end() -> None:
    code = "int f(int x) { return g(x); }\nint g(int x) { return f(x); }\n" + host(config("f(n) * 2048"))
    assert sizes(code) == [None]


def test_macros_that_are_constants_are_constants() -> None:
    macros = (
        "#define TILES 4 // per step\n#define BYTES (TILES * 2048)\n#define TWICE 1\n#undef TWICE\n#define TWICE 2\n"
    )
    assert sizes(macros + host(config("BYTES") + config("TWICE * 2048", index="1"))) == [4 * 2048, None]


@st.composite
def arithmetic(draw: st.DrawFn, depth: int = 0) -> tuple[str, int]:
    """A C++ expression and its value by C++'s rules."""
    if depth > 3 or draw(st.booleans()):
        value = draw(st.integers(0, 4096))
        text = draw(st.sampled_from([f"{value}", f"{value}u", f"0x{value:x}", f"uint32_t{{{value}}}", f"({value})"]))
        return text, value
    (left, a), (right, b) = draw(arithmetic(depth + 1)), draw(arithmetic(depth + 1))
    form = draw(st.sampled_from(["+", "*", "/", "%", "min", "max", "div_up", "?", "<", "cast"]))
    if form == "+":
        return f"({left} + {right})", a + b
    if form == "*":
        return f"({left} * {right})", a * b
    if form in "/%":
        b = abs(b) or 1
        right = f"({b})"
        return f"({left} {form} {right})", a // b if form == "/" else a % b
    if form in ("min", "max"):
        return f"std::{form}<uint32_t>({left}, {right})", min(a, b) if form == "min" else max(a, b)
    if form == "div_up":
        return f"tt::div_up({left}, {b or 1})", -(-a // (b or 1))
    if form == "?":
        return f"({left} > {right} ? {left} : {right})", max(a, b)
    if form == "<":
        return f"({left} < {right})", int(a < b)
    return f"static_cast<uint32_t>({left})", a


@examples(150)
@given(arithmetic())
def test_constants_are_folded_as_cpp_does(expression: tuple[str, int]) -> None:
    text, value = expression
    code = f"constexpr uint32_t kSize = {text};\n" + host(config("kSize") + config(text, index="1"))
    assert sizes(code) == [value, value]


@examples(60)
@given(st.integers(0, 9), st.integers(0, 9), st.booleans(), st.booleans())
def test_branches_merge_as_execution_would(a: int, b: int, first: bool, second: bool) -> None:
    # GIVEN nested ifs over two conditions, WHEN both are bound, THEN the size is what running the code would give
    code = """
        void build(uint32_t a, uint32_t b, bool first, bool second) {
            uint32_t x = a;
            uint32_t y = 1;
            if (first) {
                x += b;
                if (second) { y = x; } else { y = 2; x = y + 1; }
            } else if (second) {
                x = y;
            }
            auto c = CircularBufferConfig(x * 100 + y, {{0, f}});
        }
    """
    x, y = a, 1
    if first:
        x += b
        if second:
            y = x
        else:
            y = 2
            x = y + 1
    elif second:
        x = y
    assert sizes(code, a=a, b=b, first=int(first), second=int(second)) == [x * 100 + y]


@pytest.mark.parametrize(
    "words", ["CBIndex::c_7", "tt::CBIndex::c_7", "CB::c_7", "static_cast<uint8_t>(7)", "kSeven", "3 + 4"]
)
def test_indices_however_they_are_written(words: str) -> None:
    code = "constexpr uint8_t kSeven = 7;\n" + host(config("2048", index=words))
    assert [one.index for one in buffers(code)] == [7]
