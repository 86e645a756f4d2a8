# SPDX-License-Identifier: Apache-2.0
"""A diff names the operation and the tensor that made a peak grow."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loggen import Options, generate
from support.build_profile import ProfileBuilder, tensor
from ttmem.analysis.diff import CountChange, diff
from ttmem.analysis.tensor_diff import TensorChange
from ttmem.profile.model import Profile
from ttmem.profile.tensor_type import TensorType
from ttmem.readers import read

KIB = 1024


def chain(*rows: int, extra: bool = False, keep: bool = False, hlo: int = 0) -> Profile:
    """A chain of operations, each freeing its input; one DRAM bank, so that bytes per bank are tensor bytes.

    ``extra`` puts one more operation in, ``keep`` forgets to free, ``hlo`` shifts the compiler's numbers.
    """
    build = ProfileBuilder("chain", banks={"DRAM": 1, "L1": 1, "L1_SMALL": 1, "TRACE": 1})
    types: list[TensorType] = [tensor(count, 32) for count in rows]
    if extra:
        types.insert(1, tensor(64, 32))
    allocated, last = 0, len(types) - 1
    with build.program("main"):
        for number, type_ in enumerate(types):
            names = ("ttnn.exp",) if extra and number == 1 else ("ttnn.add",)
            build.operation(
                names[0],
                results={f"%{number}": type_},
                operands={f"%{number - 1}": types[number - 1]} if number else {},
                location=f"layer.{number + hlo}",
                dram=allocated,
            )
            allocated += type_.padded_bytes
            if number and not keep:
                build.operation(
                    "ttnn.deallocate",
                    operands={f"%{number - 1}": types[number - 1]},
                    location=f"layer.{number + hlo}",
                    dram=allocated,
                )
                allocated -= types[number - 1].padded_bytes
        build.operation("ttnn.deallocate", operands={f"%{last}": types[last]}, dram=allocated)
    return build.build()


def test_a_tensor_that_became_larger() -> None:
    before, after = chain(32, 64, 64, 32), chain(32, 64, 96, 32, hlo=100)
    found = diff(before, after)
    assert found.grew == (
        TensorChange(
            memory="DRAM",
            reason="larger",
            tensor="%2",
            before=tensor(64, 32),
            after=tensor(96, 32),
            delta_bytes=2 * KIB,
            delta_bytes_per_bank=2 * KIB,
            operation_index=3,
            operation_name="ttnn.add",
            location="layer.102",
            program="main",
        ),
    )
    assert found.grew[0].describe() == "96x32 bfloat16 (was 64x32 bfloat16)"
    assert (found.shrank, found.operation_counts) == ((), ())
    change = found.memories["DRAM"]
    assert (change.before_bytes_per_bank, change.after_bytes_per_bank) == (8 * KIB, 10 * KIB)
    assert (change.delta_bytes_per_bank, change.delta_percent, change.unattributed_delta_bytes_per_bank) == (
        2 * KIB,
        25.0,
        0,
    )
    assert list(found.memories) == ["DRAM"]


def test_the_other_way_round_it_shrank() -> None:
    found = diff(chain(32, 64, 96, 32), chain(32, 64, 64, 32))
    assert found.grew == ()
    assert [(change.reason, change.delta_bytes, change.tensor) for change in found.shrank] == [
        ("smaller", -2 * KIB, "%2")
    ]


def test_a_tensor_that_is_not_freed_any_more() -> None:
    found = diff(chain(32, 64, 64, 32), chain(32, 64, 64, 32, keep=True))
    assert [(change.reason, change.tensor, change.operation_index) for change in found.grew] == [
        ("alive longer", "%0", 0),
        ("alive longer", "%3", 3),
    ]
    assert found.memories["DRAM"].delta_bytes_per_bank == 4 * KIB
    assert sum(change.delta_bytes_per_bank for change in found.grew) == 4 * KIB
    assert found.operation_counts == (CountChange("ttnn.deallocate", 4, 1),)


def test_a_new_operation_is_new_although_all_numbers_moved() -> None:
    found = diff(chain(32, 64, 32), chain(32, 64, 32, extra=True))
    assert [(change.reason, change.tensor, change.operation_name) for change in found.grew] == [
        ("new", "%1", "ttnn.exp")
    ]
    assert [(change.reason, change.tensor) for change in found.shrank] == [("freed earlier", "%0")]
    assert found.operation_counts == (CountChange("ttnn.deallocate", 3, 4), CountChange("ttnn.exp", 0, 1))


def test_two_different_moments_with_equal_tensors_are_no_change() -> None:
    # GIVEN runs whose peaks lie at different layers but hold tensors of the same kind
    found = diff(chain(64, 64, 32, 32), chain(32, 32, 64, 64))
    assert (found.grew, found.shrank, found.memories["DRAM"].delta_bytes_per_bank) == ((), (), 0)


def test_regressions_by_percent_and_by_bytes() -> None:
    found = diff(chain(32, 64, 64), chain(32, 64, 96))
    assert found.memories["DRAM"].delta_percent == 25.0
    assert found.grows_over(24.9)
    assert not found.grows_over(25.0)
    assert found.grows_over(2 * KIB - 1, in_percent=False)
    assert not found.grows_over(2 * KIB, in_percent=False)
    assert not diff(chain(32, 64, 96), chain(32, 64, 64)).grows_over(0)


def test_growth_from_nothing_is_growth() -> None:
    def of(dram: int) -> Profile:
        build = ProfileBuilder()
        build.operation("ttnn.add", dram=dram)
        return build.build()

    change = diff(of(0), of(5)).memories["DRAM"]
    assert (change.delta_percent, change.grows_over(1000.0, in_percent=True)) == (None, True)
    assert diff(of(0), of(0)).memories["DRAM"].delta_percent == 0.0


def test_a_memory_that_only_one_profile_shows() -> None:
    build = ProfileBuilder()
    build.operation("ttnn.add", dram=1, l1=7)
    found = diff(chain(32), build.build())
    assert (found.memories["L1"].before_bytes_per_bank, found.memories["L1"].after_bytes_per_bank) == (None, 7)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.booleans())
def test_a_profile_does_not_differ_from_itself(tiles: list[int], keep: bool) -> None:
    rows = [32 * count for count in tiles]
    found = diff(chain(*rows, keep=keep), chain(*rows, keep=keep, hlo=7))
    assert (found.grew, found.shrank, found.operation_counts) == ((), (), ())
    assert all(change.delta_bytes_per_bank == 0 for change in found.memories.values())


@given(st.lists(st.integers(1, 5), min_size=2, max_size=8), st.data())
def test_one_planted_growth_is_the_first_suspect(tiles: list[int], data: st.DataObject) -> None:
    # GIVEN one operation whose result outgrows everything else
    victim = data.draw(st.integers(0, len(tiles) - 1))
    rows = [32 * count for count in tiles]
    grown = [*rows]
    grown[victim] = 32 * 40
    # THEN it is named, wherever the peak was before
    first = diff(chain(*rows), chain(*grown, hlo=3)).grew[0]
    assert (first.reason, first.tensor, first.after) == ("larger", f"%{victim}", tensor(32 * 40, 32))


@pytest.mark.parametrize(
    "options",
    [
        Options(seed=3, runs=3, modules="ttnn"),
        Options(seed=4, runs=2, arch="blackhole", modules="none", jax=True),
        Options(seed=5, unique_ops=True, ops=1500, modules="none"),
        Options(seed=6, runs=3, graphs=2, modules="ttnn", submit=True),
    ],
    ids=["wormhole", "jax", "unique", "two-graphs"],
)
def test_a_planted_regression_in_a_log_is_named(options: Options, tmp_path: Path) -> None:
    from dataclasses import replace

    def profile_of(name: str, chosen: Options) -> tuple[Profile, dict[str, object]]:
        stream = io.BytesIO()
        truth = generate(chosen, stream)
        (tmp_path / name).write_bytes(stream.getvalue())
        return read(tmp_path / name), truth

    before, _ = profile_of("before.log", options)
    after, truth = profile_of("after.log", replace(options, regress_pct=5.0))
    planted = truth["regress"]
    assert isinstance(planted, dict)
    found = diff(before, after)
    first = found.grew[0]
    assert first.after is not None
    assert (first.operation_name, list(first.after.shape)) == (planted["op"], planted["shape"])
    assert planted["loc"] in first.location
    assert found.grows_over(4.0)
