# SPDX-License-Identifier: Apache-2.0
"""A saved profile comes back exactly, or is refused with one clear line: never a traceback, never another profile."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from support.examples import examples
from ttmem.base.errors import BadInputError
from ttmem.profile import profile_file
from ttmem.profile.model import MEMORIES, CacheLookup, FailureText, GraphArgument, Profile, Program, Source, Timeline
from ttmem.profile.operation_forms import OperationForms
from ttmem.profile.tensor_type import HOST, TensorType

HEADER = struct.Struct("<8sIQQ16s")


def difference(a: Any, b: Any, at: str = "profile") -> str:
    """Where two profiles differ, in types too; empty when they are the same."""
    if type(a) is not type(b):
        return f"{at}: {type(a)} is not {type(b)}"
    if isinstance(a, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
        return "" if same else f"{at}: {a!r} is not {b!r}"
    if dataclasses.is_dataclass(a):
        for field in dataclasses.fields(a):
            if found := difference(getattr(a, field.name), getattr(b, field.name), f"{at}.{field.name}"):
                return found
        return ""
    if isinstance(a, tuple):
        if len(a) != len(b):
            return f"{at}: {len(a)} entries are not {len(b)}"
        return next(
            (found for i, pair in enumerate(zip(a, b, strict=True)) if (found := difference(*pair, f"{at}[{i}]"))), ""
        )
    return "" if a == b else f"{at}: {a!r} is not {b!r}"


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
COUNT = st.integers(0, 2**63 - 1)


def column(dtype: str, low: int, high: int, length: int) -> st.SearchStrategy[Any]:
    return st.lists(st.integers(low, high), min_size=length, max_size=length).map(lambda v: np.array(v, dtype=dtype))


@st.composite
def forms(draw: st.DrawFn, types: int) -> OperationForms:
    count = draw(st.integers(0, 5))
    names = tuple(draw(st.lists(TEXT, min_size=1, max_size=3)))
    kinds = st.lists(st.integers(-1, types - 1), max_size=3).map(tuple)
    signatures = tuple(draw(st.lists(st.tuples(kinds, kinds), min_size=1, max_size=3)))
    notes = (("", False), *draw(st.lists(st.tuples(TEXT, st.booleans()), max_size=2)))
    pools = [draw(st.lists(st.binary(max_size=6), min_size=count, max_size=count)) for _ in range(2)]
    ends = [np.cumsum(np.array([len(part) for part in pool], dtype=np.int64)) for pool in pools]
    return OperationForms(
        name=draw(column("int32", 0, len(names) - 1, count)),
        names=names,
        signature=draw(column("int32", 0, len(signatures) - 1, count)),
        signatures=signatures,
        ssa_end=ends[0],
        ssa_pool=b"".join(pools[0]),
        location_end=ends[1],
        location_pool=b"".join(pools[1]),
        note=draw(column("int32", 0, len(notes) - 1, count)),
        notes=notes,
    )


@st.composite
def timelines(draw: st.DrawFn, form_count: int, views: int) -> Timeline:
    operations = draw(st.integers(0, 6)) if form_count else 0
    blocks = draw(st.integers(0, 6))
    first = draw(st.integers(0, 3))
    end = first + operations
    programs = tuple(
        draw(
            st.lists(
                st.builds(
                    Program,
                    name=TEXT,
                    parent=st.just(-1),
                    run=st.integers(0, 5),
                    caller=st.integers(-1, end),
                    first_operation=st.integers(0, end),
                    end_operation=st.integers(0, end),
                    finished=st.booleans(),
                    line=COUNT,
                    first_state=st.integers(0, blocks),
                    end_state=st.integers(0, blocks),
                ),
                max_size=3,
            )
        )
    )
    return Timeline(
        rank=draw(st.integers(-1, 3)),
        first_index=first,
        form=draw(column("int32", 0, max(0, form_count - 1), operations)),
        line=draw(column("int64", 1, 2**62, operations)),
        program=draw(column("int32", -1, len(programs) - 1, operations)),
        state_kind=draw(column("int8", 0, 3, blocks)),
        state_operation=draw(column("int32", -1, end, blocks)),
        state_cause=draw(column("int32", -1, end, blocks)),
        state_view=draw(column("int32", -1, views - 1, blocks * 4)).reshape(blocks, 4),
        state_line=draw(column("int64", 1, 2**62, blocks)),
        programs=programs,
        lookups=tuple(draw(st.lists(st.builds(CacheLookup, COUNT, TEXT, TEXT, st.booleans()), max_size=2))),
        retained=frozenset(draw(st.sets(st.integers(0, 9)))),
        failures=tuple(draw(st.lists(st.builds(FailureText, TEXT, COUNT, st.integers(-1, 9), COUNT), max_size=2))),
    )


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    shape = st.lists(st.integers(0, 4096), max_size=4).map(tuple)
    places = st.sampled_from(("", HOST, *MEMORIES))
    texts = (TEXT, TEXT, places, TEXT)
    kinds = tuple(draw(st.lists(st.builds(TensorType, shape, *texts, *[COUNT] * 4), max_size=3)))
    view_count = draw(st.integers(0, 4))
    views = draw(column("int64", -(2**63), 2**63 - 1, view_count * 5)).reshape(view_count, 5)
    operation_forms = draw(forms(len(kinds)))
    arguments = st.builds(
        GraphArgument, TEXT, COUNT, TEXT, shape, TEXT, TEXT, COUNT, st.sampled_from([True, False, None]), st.booleans()
    )
    source = st.builds(Source, TEXT, TEXT, COUNT, COUNT, COUNT, st.lists(TEXT, max_size=2).map(tuple), COUNT)
    return Profile(
        name=draw(TEXT),
        source=draw(source),
        tensor_types=kinds,
        forms=operation_forms,
        views=views,
        timelines=tuple(draw(st.lists(timelines(len(operation_forms), view_count), max_size=2))),
        arguments=tuple(draw(st.lists(arguments, max_size=2))),
        facts=draw(st.dictionaries(TEXT, st.one_of(TEXT, COUNT, st.lists(COUNT, max_size=2)), max_size=2)),
    )


def small_profile() -> Profile:
    return Profile(
        name="tiny",
        source=Source(kind="tt-mlir-log", name="tiny.log", bytes=1234, lines=12, warnings=("line 7 is cut",)),
        tensor_types=(TensorType((1, 32), "bfloat16", "tile", "DRAM", "interleaved", 64, 2048, 2048, 0),),
        forms=OperationForms(
            name=np.array([0, 1], np.int32),
            names=("ttnn.matmul", "ttnn.deallocate"),
            signature=np.array([0, 0], np.int32),
            signatures=(((0,), (-1,)),),
            ssa_end=np.array([5, 9], np.int64),
            ssa_pool=b"%1=%0=%1 ",
            location_end=np.array([3, 3], np.int64),
            location_pool=b"loc",
            note=np.array([0, 0], np.int32),
            notes=(("", False),),
        ),
        views=np.array([[12, 1 << 30, 4096, (1 << 30) - 4096, (1 << 30) - 4096]], np.int64),
        timelines=(
            Timeline(
                rank=-1,
                first_index=0,
                form=np.array([0, 1], np.int32),
                line=np.array([1, 6], np.int64),
                program=np.array([0, 0], np.int32),
                state_kind=np.array([0, 0], np.int8),
                state_operation=np.array([0, 1], np.int32),
                state_cause=np.array([-1, 0], np.int32),
                state_view=np.array([[0, -1, -1, -1], [0, -1, -1, -1]], np.int32),
                state_line=np.array([2, 7], np.int64),
                programs=(Program("main", -1, 0, -1, 0, 2, True, 1, 0, 2),),
                lookups=(CacheLookup(0, "const_eval_0", "abc", False),),
                retained=frozenset({1}),
                failures=(FailureText("Out of Memory", 9, 1, 2),),
            ),
        ),
        facts={"grid": [8, 8]},
    )


def sealed(document: bytes, version: int = profile_file.SCHEMA_VERSION) -> bytes:
    """A file whose header, sizes and digest are right, whatever the document says."""
    payload = zstandard.ZstdCompressor().compress(document)
    digest = hashlib.blake2b(payload, digest_size=16).digest()
    return HEADER.pack(b"\x89TTMEM\r\n", version, len(payload), len(document), digest) + payload


def document_of(content: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(content[HEADER.size :])


@pytest.mark.slow
@examples(150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(profiles())
def test_what_was_saved_is_loaded_exactly(profile: Profile) -> None:
    assert difference(profile, profile_file.decode(profile_file.encode(profile))) == ""


def test_a_file_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "tiny_profile.ttmem"
    profile_file.save(small_profile(), path)
    assert difference(small_profile(), profile_file.load(path)) == ""
    assert profile_file.is_saved_profile(path.read_bytes()[:64])
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny_profile.ttmem"], "no temporary file stays behind"


def test_loaded_columns_are_ordinary_arrays() -> None:
    form = profile_file.decode(profile_file.encode(small_profile())).timelines[0].form
    assert form.flags.aligned
    assert form.dtype == np.int32


def test_narrow_strided_and_big_endian_columns_come_back_equal() -> None:
    wide = np.arange(20, dtype=np.int64).reshape(4, 5)
    big_endian = dataclasses.replace(small_profile(), views=wide[::2].astype(">i8"))
    assert profile_file.decode(profile_file.encode(big_endian)).views.tolist() == wide[::2].tolist()


@pytest.mark.parametrize("first_bytes", [b"", b"\x89TTMEM", b"{}", b"\x28\xb5\x2f\xfd", b"RuntimeTTNN |"])
def test_other_files_are_not_saved_profiles(first_bytes: bytes) -> None:
    assert not profile_file.is_saved_profile(first_bytes)
    with pytest.raises(BadInputError, match="not a saved profile"):
        profile_file.decode(first_bytes)


def test_every_cut_is_refused() -> None:
    content = profile_file.encode(small_profile())
    for length in range(8, len(content)):
        with pytest.raises(BadInputError, match="cut short") as caught:
            profile_file.decode(content[:length], where="x.ttmem")
        assert str(caught.value).startswith("x.ttmem: ")
        assert "ttmem profile" in caught.value.hint


def test_a_future_version_asks_for_a_newer_ttmem() -> None:
    content = sealed(document_of(profile_file.encode(small_profile())), version=profile_file.SCHEMA_VERSION + 1)
    with pytest.raises(BadInputError, match="newer ttmem") as caught:
        profile_file.decode(content)
    assert "install a newer ttmem" in caught.value.hint


def test_the_first_version_is_read_under_its_own_names() -> None:
    # GIVEN a file of the version that called memory states blocks
    document = document_of(profile_file.encode(small_profile()))
    for (
        old,
        new,
    ) in profile_file._NAMES_OF_VERSION_1.items():  # names are as long as they were, so the msgpack stays whole
        document = document.replace(new.encode(), old.encode())
    # WHEN it is loaded THEN nothing is lost
    assert difference(small_profile(), profile_file.decode(sealed(document, version=1))) == ""


def test_a_missing_field_with_a_default_is_filled_in() -> None:
    # GIVEN a document written before Profile.arguments existed
    fields = msgspec.msgpack.decode(document_of(profile_file.encode(small_profile())))
    del fields["arguments"]
    # THEN it loads as if nothing was known
    assert profile_file.decode(sealed(msgspec.msgpack.encode(fields))).arguments == ()


@examples(300)
@given(st.data())
def test_any_damage_is_refused(data: st.DataObject) -> None:
    content = bytearray(profile_file.encode(small_profile()))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadInputError):
        profile_file.decode(bytes(content))


@examples(600)
@given(st.data())
def test_damage_under_a_valid_digest_is_a_profile_or_a_clean_error(data: st.DataObject) -> None:
    # GIVEN a document that was changed before it was sealed: only the checks of content can notice
    document = bytearray(document_of(profile_file.encode(small_profile())))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(document) - 1))
        document[at] = data.draw(st.integers(0, 255))
    try:
        profile = profile_file.decode(sealed(bytes(document)))
    except BadInputError:
        return
    # THEN what is accepted can be walked without leaving any table
    for timeline in profile.timelines:
        for form in timeline.form:
            operation = profile.forms[int(form)]
            for kind in (*operation.operand_types, *operation.result_types):
                assert kind == -1 or profile.tensor_types[kind]
        assert profile.views[timeline.state_view[timeline.state_view >= 0]].shape[1] == 5


BROKEN = {
    "form out of range": lambda d: d["timelines"][0].update(form=["<i4", [2], struct.pack("<2i", 0, 7)]),
    "negative view": lambda d: d["timelines"][0].update(state_view=["<i4", [2, 4], struct.pack("<8i", *[-2] * 8)]),
    "lengths differ": lambda d: d["timelines"][0].update(line=["<i8", [1], struct.pack("<q", 1)]),
    "two memories only": lambda d: d["timelines"][0].update(state_view=["<i4", [2, 2], bytes(16)]),
    "pool too short": lambda d: d["forms"].update(ssa_pool=b""),
    "object column": lambda d: d.update(views=["|O8", [0, 5], b""]),
    "float column": lambda d: d.update(views=["<f8", [0, 5], b""]),
    "shape beyond the bytes": lambda d: d.update(views=["<i8", [1 << 40, 5], b""]),
    "shape beyond 64 bits": lambda d: d.update(views=["<i8", [(1 << 64) - 1, 5], b""]),
    "column is a number": lambda d: d.update(views=7),
    "scalar column": lambda d: d.update(views=["<i8", [], bytes(8)]),
    "no timelines": lambda d: d.pop("timelines"),
    "program of nowhere": lambda d: d["timelines"][0]["programs"][0].update(parent=3),
    "program beyond the end": lambda d: d["timelines"][0]["programs"][0].update(end_operation=99),
    "tensor in no memory": lambda d: d["tensor_types"][0].update(memory="L2"),
    "memory state beyond the end": lambda d: d["timelines"][0]["programs"][0].update(end_state=9),
    "tensor type of nowhere": lambda d: d["forms"].update(signatures=[[[5], []]]),
    "text where a number belongs": lambda d: d["source"].update(bytes="many"),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
def test_broken_content_is_refused(change: Any) -> None:
    fields = msgspec.msgpack.decode(document_of(profile_file.encode(small_profile())))
    change(fields)
    with pytest.raises(BadInputError, match="not a usable saved profile"):
        profile_file.decode(sealed(msgspec.msgpack.encode(fields)))


def test_deep_nesting_is_refused() -> None:
    bottomless = b"\x81\xa5facts" + b"\x91" * 200_000
    with pytest.raises(BadInputError):
        profile_file.decode(sealed(bottomless))


def test_file_names_that_are_not_utf8_are_saved_readably() -> None:
    odd = small_profile().rename("model_" + os.fsdecode(b"\xff"))
    loaded = profile_file.decode(profile_file.encode(odd))
    assert loaded.name == "model_�"
    assert difference(odd.timelines, loaded.timelines) == ""


def test_numbers_beyond_64_bits_are_bad_input() -> None:
    huge = dataclasses.replace(small_profile(), facts={"bytes": 1 << 70})
    with pytest.raises(BadInputError, match="64 bits"):
        profile_file.encode(huge)


def test_what_could_not_be_loaded_is_not_saved() -> None:
    broken = dataclasses.replace(small_profile(), views=np.zeros((0, 5), np.int64))
    with pytest.raises(BadInputError, match="contradicts itself"):
        profile_file.encode(broken)


def test_numpy_numbers_among_the_facts_become_plain_ones() -> None:
    profile = dataclasses.replace(small_profile(), facts={"banks": np.int64(12)})
    assert profile_file.decode(profile_file.encode(profile)).facts == {"banks": 12}


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.ttmem"
    path.write_bytes(b"old")
    with pytest.raises(BadInputError):
        profile_file.save(dataclasses.replace(small_profile(), facts={"bytes": 1 << 70}), path)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept.ttmem"]


def test_the_content_does_not_depend_on_the_process() -> None:
    """Two reads of one source must give one file: sets and dictionaries may not leak their order."""
    code = (
        "import hashlib, test_storage; from ttmem.profile import profile_file;"
        "print(hashlib.sha256(profile_file.encode(test_storage.small_profile())).hexdigest())"
    )
    tests = str(Path(__file__).parent)
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([tests, *sys.path])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
