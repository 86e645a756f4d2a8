# SPDX-License-Identifier: Apache-2.0
"""A source that cannot be profiled says what was not switched on, and what to do next (log-formats 1.1, 1.2)."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from support.log_lines import Log
from ttmem.base.errors import BadInputError
from ttmem.readers import default_name, read
from unit.readers.test_module_dumps import THREE, module
from unit.readers.test_states import small_run


def refused(content: bytes, tmp_path: Path) -> BadInputError:
    path = tmp_path / "run.log"
    path.write_bytes(content)
    with pytest.raises(BadInputError) as error:
        read(path)
    assert error.value.where == str(path)
    assert error.value.exit_code == 2
    return error.value


def test_an_empty_file(tmp_path: Path) -> None:
    error = refused(b"", tmp_path)
    assert error.message == "is empty"
    assert "tt-memory-profiler --log" in error.hint


def test_a_text_that_is_no_log(tmp_path: Path) -> None:
    error = refused(b"hello\nworld\n", tmp_path)
    assert error.message == "no line of a tt-mlir runtime log in 2 lines"
    assert "TTMLIR_RUNTIME_LOGGER_FILE" in error.hint


def test_runtime_lines_of_a_build_without_debug(tmp_path: Path) -> None:
    log = Log()
    log.record("Always", "INFO", "remapped mesh device shape [1, 1]")
    error = refused(log.bytes(), tmp_path)
    assert "no operation and no memory state" in error.message
    assert "TT_RUNTIME_DEBUG=ON" in error.hint


def test_module_dumps_alone_in_a_log(tmp_path: Path) -> None:
    error = refused(module(*THREE).encode(), tmp_path)
    assert "module dumps, but no operation and no memory state" in error.message
    assert "TT_RUNTIME_DEBUG=ON" in error.hint


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(BadInputError, match="cannot be read"):
        read(tmp_path / "absent.log")


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_a_packed_log_that_is_cut_gives_what_it_holds_and_says_so(packing: str, tmp_path: Path) -> None:
    # GIVEN a large packed log without its second half
    log = Log()
    for number in range(3000):
        log.line(f"noise {number * 2654435761 % 2**32:x} {number**7:x}")
        if number % 100 == 0:
            small_run(log)
    content = log.bytes()
    packed = gzip.compress(content) if packing == "gz" else zstandard.compress(content)
    path = tmp_path / f"run.log.{packing}"
    path.write_bytes(packed[: len(packed) // 2])
    # WHEN
    profile = read(path)
    # THEN
    assert 0 < len(profile.timelines[0]) < 120
    assert profile.source.warnings[0].startswith("the packed source is damaged: ")


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_a_packed_log_of_which_nothing_can_be_unpacked(packing: str, tmp_path: Path) -> None:
    content = small_run(Log()).bytes()
    packed = gzip.compress(content) if packing == "gz" else zstandard.compress(content)
    error = refused(packed[:14], tmp_path)
    assert "nothing could be unpacked" in error.message


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("-", "stdin"),
        ("a/resnet50.log", "resnet50"),
        ("a/resnet50.log.gz", "resnet50"),
        ("a/resnet50.txt.zst", "resnet50"),
        ("a/resnet50_profile.ttmem", "resnet50"),
        ("resnet50", "resnet50"),
        (".log", "log"),
    ],
)
def test_a_source_names_its_profile(source: str, name: str) -> None:
    assert default_name(source) == name


def test_damage_is_listed_ten_times_and_then_counted() -> None:
    log = small_run(Log())
    for _ in range(13):
        log.record("RuntimeTTNN", "DEBUG", "Executing operation: %2")
    source = log.profile().source
    assert source.unrecognised_lines == 13
    assert [warning for warning in source.warnings if warning.startswith("line 27: ")]
    assert source.warnings[-1] == "3 more damaged lines"


def test_operations_that_have_no_state_of_their_own_are_counted() -> None:
    log = small_run(Log())
    for _ in range(3):
        log.op('%0 = "ttnn.get_device"() : () -> !ttnn.device loc(unknown)')
    assert log.profile().source.warnings == ("3 of 7 operations have no memory state of their own",)
