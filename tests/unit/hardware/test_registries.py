# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest

from ttmem.base.errors import BadInputError
from ttmem.hardware import ARCHITECTURES, BOARDS, DATA_TYPES, MEMORIES, RELEASES, Tile
from ttmem.hardware.data_types import LEGAL_TILES


def test_the_boards_of_the_contract_are_there():
    assert BOARDS.names()[:7] == ("n150", "n300", "t3k", "galaxy", "p100", "p150", "p300")


@pytest.mark.parametrize(
    ("registry", "wrong", "message"),
    [
        (BOARDS, "n15o", "unknown board 'n15o'; did you mean 'n150'?"),
        (DATA_TYPES, "bfloat61", "unknown data type 'bfloat61'; did you mean 'bfloat16'?"),
        (MEMORIES, "L1_SMAL", "unknown memory 'L1_SMAL'; did you mean 'l1_small'?"),
        (ARCHITECTURES, "zzz", "unknown architecture 'zzz'"),
    ],
)
def test_a_wrong_name_is_refused_with_a_suggestion(registry, wrong, message):
    with pytest.raises(BadInputError) as error:
        registry.find(wrong)
    assert str(error.value) == message
    assert error.value.hint.startswith("known: ")
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("bf16", "bfloat16"),
        ("BFLOAT16", "bfloat16"),
        ("DataType.BFLOAT16", "bfloat16"),
        ("DataType::BFLOAT8_B", "bfloat8_b"),
        ("bfp_bf8", "bfloat8_b"),
        ("bfp_bf4", "bfloat4_b"),
        ("si32", "int32"),
        ("ui32", "uint32"),
        ("u16", "uint16"),
        ("f16", "float16"),
        ("i1", "bool"),
    ],
)
def test_data_types_answer_to_the_names_of_ttnn_and_mlir(spelling, name):
    assert DATA_TYPES.find(spelling).name == name


def test_tile_bytes_of_every_32x32_format():
    assert {d.name: d.tile_bytes() for d in DATA_TYPES if d.in_ttnn and not d.row_major_only} == {
        "bfloat16": 2048,
        "float32": 4096,
        "bfloat8_b": 1088,
        "bfloat4_b": 576,
        "uint8": 1024,
        "uint16": 2048,
        "uint32": 4096,
        "int32": 4096,
        "int8": 1024,
    }
    assert DATA_TYPES.find("bfp_bf2").tile_bytes() == 320


def test_small_block_float_tiles_pad_their_exponents_to_16_bytes():
    bfp8, bfp4 = DATA_TYPES.find("bfloat8_b"), DATA_TYPES.find("bfloat4_b")
    shapes = ((16, 32), (16, 16), (4, 32), (1, 32), (1, 16))
    assert [bfp8.tile_bytes(Tile(*s)) for s in shapes] == [544, 272, 144, 48, 32]
    assert [bfp4.tile_bytes(Tile(*s)) for s in ((16, 32), (4, 32), (1, 16))] == [288, 80, 24]
    assert len(LEGAL_TILES) == 12
    assert not Tile(64, 32).is_legal


def test_logical_bytes_of_block_floats_carry_their_exponents():
    assert DATA_TYPES.find("bfloat8_b").logical_bytes(1024 * 1024) == 1024 * 1088
    assert DATA_TYPES.find("bfloat16").logical_bytes(3) == 6
    assert DATA_TYPES.find("bfloat8_b").element_bytes is None


def test_values_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        BOARDS.find("n150").dram_banks = 2  # type: ignore[misc]


def test_releases_are_found_with_and_without_the_package_name():
    assert RELEASES.find("ttnn==0.81.1") is RELEASES.find("0.81.1")
    assert RELEASES.find("v0.75.0").name == "0.75.0"


def _code(path: Path) -> str:
    """A file without its documentation, which may say of which release something was measured."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(getattr(node, "body", None), list):
            node.body = [part for part in node.body if not _is_text(part)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_text(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)


def test_the_release_that_everything_defaults_to_is_one_constant():
    """The newest bank table; options, the managed environment and the documentation follow it."""
    from support.command_line import ROOT
    from ttmem.engines.interpreters import PINNED_TTNN, locate_managed_folder
    from ttmem.hardware import DEFAULT_RELEASE

    newest = max(RELEASES, key=lambda release: tuple(map(int, release.name.split("."))))
    assert newest is DEFAULT_RELEASE
    assert DEFAULT_RELEASE.name == PINNED_TTNN
    assert locate_managed_folder().name == "device"
    assert f"installs {DEFAULT_RELEASE}" in (ROOT / "docs" / "engines.md").read_text()
    stated = [path.name for path in (ROOT / "src").rglob("*.py") if f"{DEFAULT_RELEASE.name}" in _code(path)]
    assert stated == []
    assert f'name = "{DEFAULT_RELEASE.name}"' in (ROOT / "src/ttmem/hardware/releases.toml").read_text()
