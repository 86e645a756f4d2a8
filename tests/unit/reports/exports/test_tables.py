# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import pytest

from support.build_profile import ProfileBuilder, tensor
from support.captures import unpacked_capture
from ttmem import Profile, TtmemError, read
from ttmem.reports import exports

MIB = 1 << 20


@pytest.fixture
def small() -> Profile:
    """Two runs of a program that makes a tensor and frees it, then a failure."""
    build = ProfileBuilder("small", error_bytes=525, warnings=["odd, but true"], facts={"system": "wormhole"})
    for _ in range(2):
        with build.program("main"):
            build.operation("ttnn.add", results={"%1": tensor(64, 64)}, location="model.py:7", dram=0, l1=(10, 20))
            build.operation("ttnn.deallocate", operands={"%1": tensor(64, 64)}, dram=2048)
    return build.build()


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_a_row_per_operation_state_and_tensor(tmp_path: Path, small: Profile) -> None:
    out = exports.export(small, "csv", tmp_path / "tables")

    assert sorted(path.name for path in out.iterdir()) == [
        ".ttmem-export",
        "failures.csv",
        "operations.csv",
        "source.csv",
        "states.csv",
        "tensors.csv",
        "weights.csv",
    ]
    operations = rows(out / "operations.csv")
    assert [(row["index"], row["name"], row["location"], row["run"]) for row in operations] == [
        ("0", "ttnn.add", "model.py:7", "0"),
        ("1", "ttnn.deallocate", "", "0"),
        ("2", "ttnn.add", "model.py:7", "1"),
        ("3", "ttnn.deallocate", "", "1"),
    ]
    assert operations[0]["l1_circular_buffers_bytes_per_core"] == ""  # a log does not know
    assert rows(out / "states.csv")[:3] == [
        {
            "rank": "",
            "state": "0",
            "kind": "before operation",
            "operation_index": "0",
            "caused_by_index": "",
            "memory": "DRAM",
            "banks": "12",
            "bank_bytes": str(1000 * MIB),
            "allocated_bytes_per_bank": "0",
            "free_bytes_per_bank": str(1000 * MIB),
            "largest_free_bytes_per_bank": str(1000 * MIB),
        },
        {
            "rank": "",
            "state": "0",
            "kind": "before operation",
            "operation_index": "0",
            "caused_by_index": "",
            "memory": "L1",
            "banks": "64",
            "bank_bytes": str(MIB),
            "allocated_bytes_per_bank": "10",
            "free_bytes_per_bank": str(MIB - 10),
            "largest_free_bytes_per_bank": "20",
        },
        {
            "rank": "",
            "state": "1",
            "kind": "before operation",
            "operation_index": "1",
            "caused_by_index": "0",
            "memory": "DRAM",
            "banks": "12",
            "bank_bytes": str(1000 * MIB),
            "allocated_bytes_per_bank": "2048",
            "free_bytes_per_bank": str(1000 * MIB - 2048),
            "largest_free_bytes_per_bank": str(1000 * MIB - 2048),
        },
    ]
    # THEN each run's tensor is one row that ends with its run
    assert [
        (row["name"], row["first_index"], row["last_index"], row["weight"]) for row in rows(out / "tensors.csv")
    ] == [
        ("%1", "0", "1", "false"),
        ("%1", "2", "3", "false"),
    ]
    about = [(row["key"], row["value"]) for row in rows(out / "source.csv")]
    assert ("warning", "odd, but true") in about
    assert ("state_error_bytes", "525") in about


def test_captured_profiles_bring_addresses_and_programs(tmp_path: Path) -> None:
    profile = read(unpacked_capture("n150-report", tmp_path))
    out = exports.export(profile, "csv", tmp_path / "tables")
    pool = rows(out / "operations.csv")[9]
    assert (pool["name"], pool["l1_tensors_bytes_per_core"], pool["l1_circular_buffers_bytes_per_core"]) == (
        "ttnn.max_pool2d",
        "24576",
        "14336",
    )
    assert pool["l1_programs_measured"] == "false"
    largest = max(rows(out / "tensors.csv"), key=lambda row: int(row["bytes_per_bank"]))
    assert (largest["name"], largest["address"], largest["shape"]) == ("tensor 6", "1163456", "1x16x2048x2048")
    (failed,) = rows(out / "failures.csv")
    assert (failed["class"], failed["operation_index"], failed["survived"]) == ("oom/too-big", "11", "true")


def test_parquet_has_the_same_tables(tmp_path: Path, small: Profile) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet", reason="PARQUET WAS NOT TESTED: pyarrow is not installed")
    folder = exports.export(small, "parquet", tmp_path / "parquet")
    text = exports.export(small, "csv", tmp_path / "csv")
    for file in sorted(text.glob("*.csv")):
        table = parquet.read_table(folder / f"{file.stem}.parquet")
        as_text = [
            {
                key: ""
                if value is None
                else str(value).lower()
                if value in (True, False) and isinstance(value, bool)
                else str(value)
                for key, value in row.items()
            }
            for row in table.to_pylist()
        ]
        assert as_text == rows(file)
    states = parquet.read_table(folder / "states.parquet")
    assert str(states.schema.field("allocated_bytes_per_bank").type) == "int64"


def test_without_pyarrow_the_command_that_installs_it_is_told(
    tmp_path: Path, small: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TtmemError) as raised:
        exports.export(small, "parquet", tmp_path / "tables")
    assert (raised.value.exit_code, raised.value.hint) == (3, f"{sys.executable} -m pip install 'pyarrow>=15'")
    assert list(tmp_path.iterdir()) == []


def test_texts_that_are_no_unicode_do_not_stop_an_export(tmp_path: Path) -> None:
    build = ProfileBuilder("odd", warnings=["cannot read caf\udcff"])
    build.operation("ttnn.add", location="caf\xe9.py:3", dram=5)
    for target in ("csv", "visualizer", "perfetto"):
        exports.export(build.build().rename("caf\udcff"), target, tmp_path / target)
    about = [(row["key"], row["value"]) for row in rows(tmp_path / "csv" / "source.csv")]
    assert ("name", "caf\\udcff") in about
