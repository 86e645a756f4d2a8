# SPDX-License-Identifier: Apache-2.0
"""Descriptors, the stub compiler and the folders in which ttnn opens a board that is not there."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ttmem import TtmemError
from ttmem.engines import mock_board, workspace
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.mock_board import build_cluster_descriptor, list_mock_boards, require_mock
from ttmem.hardware import BOARDS, open_board

CONTRACT = ("n150", "n300", "t3k", "galaxy", "p100", "p150", "p300")


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    """One whose ttnn is a few empty folders."""
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    package = tmp_path / "site-packages" / "ttnn"
    for name in ("tt_metal", "ttnn", "runtime/hw"):
        (package / name).mkdir(parents=True)
    return Interpreter("/bin/python", "a test", "3.12.1", "CPython", "0.81.1", str(package), "", "", True)


@pytest.mark.parametrize("board", CONTRACT)
def test_every_board_of_the_contract_has_a_descriptor(board: str) -> None:
    mock = require_mock(BOARDS.find(board))
    described = json.loads(build_cluster_descriptor(BOARDS.find(board)))
    assert len(described["arch"]) == len(mock.chips) == BOARDS.find(board).chips
    assert sorted(chip for chips in mock.cards for chip in chips) == list(range(len(mock.chips)))
    # every channel has one other end
    ends = [end for a, channel, b, other in mock.links for end in ((a, channel), (b, other))]
    assert len(ends) == len(set(ends))


def test_a_board_without_a_mock_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(TtmemError, match="no mock of board 'quasar'") as raised:
        require_mock(BOARDS.find("quasar"))
    assert "n150" in raised.value.hint


def test_the_compiler_writes_an_executable_and_dependencies(tmp_path: Path) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text(mock_board.build_stub_compiler())
    compiler.chmod(0o755)
    # WHEN an object is built, with and without a name for its dependencies, and an executable
    for words in (["-o", "a.o"], ["-MF", "named.d", "-o", "b.o"], ["-o", "c.elf"]):
        subprocess.run([compiler, "-O2", *words, "x.cc"], cwd=tmp_path, check=True)
    # THEN each is the same small ELF file
    assert (tmp_path / "a.o").read_bytes() == (tmp_path / "c.elf").read_bytes() == mock_board.build_stub_executable()
    assert mock_board.build_stub_executable().startswith(b"\x7fELF")
    assert (tmp_path / "a.d").read_text() == "a.o:\n"
    assert (tmp_path / "named.d").read_text() == "b.o:\n"
    assert not (tmp_path / "c.d").exists()
    assert subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout


def test_a_workspace_keeps_its_private_part_only_as_long_as_it_is_used(interpreter: Interpreter) -> None:
    with workspace.open_workspace(interpreter, board="n150") as place:
        assert place.folder.is_dir()
        root = Path(place.variables["TT_METAL_RUNTIME_ROOT"])
        assert (root / "tt_metal").readlink() == Path(interpreter.package) / "tt_metal"
        described = Path(place.variables["TT_METAL_MOCK_CLUSTER_DESC_PATH"])
        assert json.loads(described.read_text())["arch"] == {"0": "wormhole_b0"}
        for variable in ("TMPDIR", "TT_METAL_LOGS_PATH"):
            assert Path(place.variables[variable]) == place.folder
    assert not place.folder.exists()
    assert root.is_dir()


def test_the_users_log_level_stays_and_settings_for_real_machines_go(interpreter: Interpreter) -> None:
    base = {"TT_LOGGER_LEVEL": "info", "TT_METAL_SLOW_DISPATCH_MODE": "1", "HOME": "/h", "TT_METAL_HOME": "/mine"}
    with workspace.open_workspace(interpreter, board="p150") as place:
        environment = place.build_environment(base)
    assert environment["TT_LOGGER_LEVEL"] == "info"
    assert environment["HOME"] == "/h"
    assert environment["TT_METAL_HOME"] != "/mine"
    assert "TT_METAL_SLOW_DISPATCH_MODE" not in environment


def test_several_processes_may_make_the_root_at_once(interpreter: Interpreter, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        roots = list(pool.map(lambda _: workspace.make_runtime_root(interpreter, tmp_path / "cache"), range(16)))
    assert set(roots) == {tmp_path / "cache" / "root"}
    compiler = roots[0] / "runtime/sfpi/compiler/bin/riscv-tt-elf-g++"
    assert compiler.read_text() == mock_board.build_stub_compiler()
    assert [path.name for path in compiler.parent.iterdir()] == [compiler.name]


def test_a_build_from_source_has_its_files_two_folders_up(interpreter: Interpreter, tmp_path: Path) -> None:
    checkout = tmp_path / "tt-metal"
    for name in ("tt_metal", "ttnn/ttnn", "runtime/hw"):
        (checkout / name).mkdir(parents=True)
    built = Interpreter("/bin/python", "a test", "3.10.1", "CPython", "", str(checkout / "ttnn" / "ttnn"), "", "", True)
    root = workspace.make_runtime_root(built, tmp_path / "cache")
    assert (root / "tt_metal").readlink() == checkout / "tt_metal"


def test_a_home_that_cannot_be_written_to_costs_only_the_cache(
    interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert workspace.find_cache_folder(interpreter).is_relative_to(tmp_path / f"ttmem-cache-{os.getuid()}")


def test_a_card_that_is_not_there_is_exit_3(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "find_cards", list)
    with (
        pytest.raises(TtmemError, match="no Tenstorrent card") as raised,
        workspace.open_workspace(interpreter, board=None, card=True),
    ):
        pass
    assert raised.value.exit_code == 3


def test_on_a_card_only_the_leftovers_are_led_away(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "find_cards", lambda: ["/dev/tenstorrent/0"])
    with workspace.open_workspace(interpreter, board=None, card=True) as place:
        environment = place.build_environment(
            {"TT_METAL_MOCK_CLUSTER_DESC_PATH": "/old.yaml", "TT_METAL_HOME": "/mine"}
        )
    assert place.board is None
    assert "TT_METAL_MOCK_CLUSTER_DESC_PATH" not in environment
    assert "TT_METAL_RUNTIME_ROOT" not in environment
    assert environment["TT_METAL_HOME"] == "/mine"


@pytest.mark.oracle
@pytest.mark.parametrize("board", sorted(list_mock_boards()))
def test_mocks_have_the_twins_memory_map_and_run_every_kind_of_program(board: str, with_ttnn: Interpreter) -> None:
    from ttmem.engines.ttnn import TtnnEngine

    wanted = open_board(board)
    with TtnnEngine(board=board, mesh=BOARDS.find(board).mesh) as worker:
        pools = {name: tuple(pool) for name, pool in worker.device["pools"].items()}
        assert pools["DRAM"] == (wanted.dram.banks, wanted.dram.base_address, wanted.dram.bytes_per_bank)
        assert pools["L1"] == (wanted.l1.banks, wanted.l1.base_address, wanted.l1.bytes_per_bank)
        assert worker.device["grid"] == [wanted.grid.columns, wanted.grid.rows]
        assert worker.device["chips"] == BOARDS.find(board).chips
        a = {"tensor": "a"}
        steps = [
            {"alloc": "a", "shape": [1, 1, 1024, 1024], "dtype": "bfloat16", "layout": "tile"},
            {"call": "ttnn.add", "args": [a, a]},
            {"call": "ttnn.softmax", "args": [a], "kwargs": {"dim": -1}},
            {"call": "ttnn.matmul", "args": [a, a]},
        ]
        outcome = worker.ask(steps)
        assert outcome.ok, outcome
        assert outcome.l1_problem == ""
