# SPDX-License-Identifier: Apache-2.0
"""Every form of declaration, with its size, index, page, format and strategy."""

from __future__ import annotations

import pytest

from support.scan_sources import DATA, buffers, config, host, scan_code, scan_folder, sizes
from ttmem.circular_buffers.scan.cpp.expressions import leaves, render
from ttmem.reports.cb_scan import build_document


def rows(name: str, **bindings: int | str) -> list[tuple[object, ...]]:
    keys = ("line", "api", "index", "bytes", "pages", "format", "strategy", "borrowed")
    found = build_document(scan_folder(DATA / name, **bindings)).to_json()["declarations"]
    return [tuple(one[key] for key in keys) for one in found]


def test_four_configurations_of_fixed_depth() -> None:
    api = "CircularBufferConfig"
    assert rows("fixed_add") == [
        (17, api, 0, 16384, 4, "Float32", "fixed", False),
        (20, api, 1, 16384, 4, "Float32", "fixed", False),
        (26, api, 2, 16384, 4, "Float32", "fixed", False),
        (28, api, 16, 16384, 4, "Float32", "fixed", False),
    ]


@pytest.mark.parametrize(
    ("tiles", "depths"),
    [(1, (3, 1, 2)), (2, (4, 2, 2)), (4, (6, 4, 2)), (8, (6, 6, 2)), (16, (6, 6, 4)), (17, (2, 2, 4))],
)
def test_depths_that_follow_the_workload(tiles: int, depths: tuple[int, ...]) -> None:
    # GIVEN depths from an if, from std::min and from a ternary
    found = rows("adaptive_add", tiles_per_shard=tiles, r_tiles=tiles)
    # THEN each is adaptive, and has its value once the workload is known
    assert [(row[2], row[4], row[6]) for row in found] == [
        (index, depth, "adaptive") for index, depth in zip((0, 1, 16), depths, strict=True)
    ]


def test_unbound_sizes_say_what_they_depend_on() -> None:
    found = build_document(scan_folder(DATA / "adaptive_add")).to_json()["declarations"]
    assert [one["bytes"] for one in found] == [None, None, None]
    assert [one["unknowns"] for one in found] == [
        ["tiles_per_shard", "r_tiles"],
        ["tiles_per_shard", "r_tiles"],
        ["r_tiles"],
    ]
    assert {one["class"] for one in found} == {"piecewise"}


def test_descriptors_as_literals_and_field_by_field() -> None:
    whole, fields = "CBDescriptor", "CBDescriptor fields"
    unknown = "datatype_to_dataformat_converter(inputs.input.dtype())"
    assert rows("descriptor") == [
        (18, whole, 3, None, None, unknown, "adaptive", False),
        (29, fields, 4, 2048, 2, "UInt8", "fixed", False),
        (38, whole, 20, None, None, unknown, "adaptive", False),
        (47, whole, 21, None, None, unknown, "fixed", True),
    ]
    known = rows("descriptor", dtype="bfloat8_b", block_tiles=4, double_buffer=1)
    assert [row[3] for row in known] == [2 * 4 * 1088, 2048, 4 * 1088, 64 * 1088]


def test_a_buffer_that_borrows_under_a_condition() -> None:
    by_default = build_document(scan_folder(DATA / "descriptor")).to_json()["declarations"][2]
    assert (by_default["borrowed"], by_default["borrowed_if"]) == (False, "sharded")
    assert rows("descriptor", sharded=1)[2][-1] is True
    assert rows("descriptor", sharded=0)[2][-1] is False


def test_dataflow_buffers_have_names_and_may_borrow() -> None:
    api = "DataflowBufferSpec"
    assert rows("dataflow", width=128) == [
        (21, api, "table", 2048, 4, None, "fixed", True),
        (25, api, "src", 16384, 8, "Float16_b", "adaptive", False),
        (26, api, "dst", 16384, 4, "Float32", "adaptive", False),
    ]


def test_helpers_of_a_header_are_followed_to_their_callers() -> None:
    # GIVEN a wrapper in a header, called through a function of the file, and the library's own create_cb
    found = build_document(scan_folder(DATA / "helpers")).to_json()["declarations"]
    # THEN the calls are the declarations, and the wrapper alone is none
    assert [(one["line"], one["api"], one["index"], one["bytes"], one["borrowed"]) for one in found] == [
        (13, "CircularBufferConfig", 0, 8 * 1088, False),
        (13, "CircularBufferConfig", 2, 8 * 2048, False),
        (14, "create_cb", 4, 3 * 1088, False),
        (15, "create_cb", 5, 16 * 2048, True),
    ]
    assert found[0]["through"] == [{"function": "add_pair", "line": 13}, {"function": "make_buffer", "line": 7}]
    assert found[0]["declared_at"]["file"].endswith("buffers.hpp")
    assert {one["core_ranges"] for one in found} == {"all_cores"}


def test_two_indices_that_share_one_buffer() -> None:
    code = host(
        "CreateCircularBuffer(program, cores, CircularBufferConfig(4096, {{16, tt::DataFormat::Float16_b}, "
        "{24, tt::DataFormat::Float16_b}}).set_page_size(16, 2048).set_page_size(24, 2048));"
    )
    [one] = buffers(code)
    assert [render(index) for index in one.declaration.indices] == ["16", "24"]
    assert (one.total_bytes, one.pages) == (4096, 2)


def test_globally_allocated_buffers_borrow() -> None:
    code = host(
        "auto c = CircularBufferConfig(n * 2048, {{3, f}}).set_page_size(3, 2048);\n"
        "if (wide) { c.set_globally_allocated_address(*buffer); }\n"
        "CreateCircularBuffer(program, cores, c);\n"
        "CreateCircularBuffer(program, cores, CircularBufferConfig(64, {{4, f}})"
        ".set_page_size(4, 64).set_globally_allocated_address(*other));"
    )
    first, second = buffers(code)
    assert (first.borrowed, str(first.declaration.borrowed_if)) == (False, "wide")
    assert [one.borrowed for one in buffers(code, wide=1)] == [True, True]
    assert second.borrowed


@pytest.mark.parametrize(
    ("size", "kind", "strategy"),
    [
        ("4096", "constant", "fixed"),
        ("2 * tt::tile_size(tt::DataFormat::Bfp4_b)", "constant", "fixed"),
        ("2 * tt::tile_size(datatype_to_dataformat_converter(t.dtype()))", "per-dtype", "fixed"),
        ("n * 2048", "symbolic", "adaptive"),
        ("shape[-1] * t.element_size()", "symbolic", "adaptive"),
        ("(wide ? 4 : 2) * 2048", "piecewise", "adaptive"),
        ("std::min(n, 8u) * 2048", "symbolic", "adaptive"),
        ("choose_depth(n) * 2048", "symbolic", "adaptive"),
        ("[&] { throw 1; }()", "symbolic", "adaptive"),
    ],
)
def test_how_much_of_a_size_the_source_says(size: str, kind: str, strategy: str) -> None:
    [site] = scan_code(host(config(size))).sites
    assert (site.size_class, site.strategy) == (kind, strategy)


def test_leaves_are_named_as_the_program_names_them() -> None:
    code = """
        void build(const Attributes& attributes, const Inputs& in) {
            const auto& input = in.input;
            const uint32_t width = input.padded_shape()[-1] / 32;
            const auto depth = attributes.program_config.depth;
            auto c = CircularBufferConfig(width * depth * 2048, {{0, f}});
        }
    """
    [one] = buffers(code)
    assert one.declaration.total is not None
    assert leaves(one.declaration.total) == ("in.input.padded_shape()[-1]", "attributes.program_config.depth")
    # a leaf can be bound in full, by its last part, or by the variable that holds it
    assert sizes(code, width=3, depth=2) == [3 * 2 * 2048]
    assert sizes(code, **{"in.input.padded_shape()[-1]": 96, "attributes.program_config.depth": 2}) == [3 * 2 * 2048]


def test_several_programs_in_one_function_are_kept_apart() -> None:
    code = """
        void twice(const CoreCoord& core) {
            Program first = CreateProgram();
            Program second = CreateProgram();
            CreateCircularBuffer(first, core, CircularBufferConfig(1024, {{0, f}}).set_page_size(0, 1024));
            CreateCircularBuffer(second, core, CircularBufferConfig(2048, {{0, f}}).set_page_size(0, 1024));
        }
    """
    programs = [(one.declaration.program, one.total_bytes) for one in buffers(code)]
    assert programs == [("twice [first 1]", 1024), ("twice [second 2]", 2048)]


def test_a_fragment_without_a_function_is_read_too() -> None:
    code = """
        constexpr uint32_t cb0_tiles = 4;
        uint32_t cb1_tiles = 2;
        if (r_tiles <= 16) { cb1_tiles = std::min(r_tiles, 6u); }
        auto a = CircularBufferConfig(cb0_tiles * 4096, {{0, DataFormat::Float32}}).set_page_size(0, 4096);
        auto b = CircularBufferConfig(cb1_tiles * 4096, {{1, DataFormat::Float32}}).set_page_size(1, 4096);
        CreateCircularBuffer(program, core, a);
        CreateCircularBuffer(program, core, b);
    """
    assert [(one.index, one.total_bytes) for one in buffers(code)] == [(0, 16384), (1, None)]
    assert sizes(code, r_tiles=16) == [16384, 6 * 4096]
    assert sizes(code, r_tiles=32) == [16384, 2 * 4096]
