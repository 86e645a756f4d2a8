# SPDX-License-Identifier: Apache-2.0
"""A Profile in one file: saved exactly, checked in full when loaded.

Layout: a fixed header (magic, schema version, sizes, digest), then one zstd frame holding one msgpack document.
Columns are stored as raw little-endian integers, each row as the difference to the one before it: line numbers and
operation indices then compress to almost nothing, and integer wrap-around makes the way back exact.
Nothing in the file is executed on loading.
"""

import hashlib
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, get_origin

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from ttmem.base.atomic_files import write_bytes
from ttmem.base.errors import BadInputError
from ttmem.base.limits import PROFILE_BYTES, PROFILE_FREE_BYTES, PROFILE_RATIO
from ttmem.base.text_safety import replace_half_pairs_in
from ttmem.profile.model import (
    CLOSING,
    GIVE,
    MEMORIES,
    START,
    STATE_NAMES,
    TAKE,
    UNREAD,
    USE,
    VIEW_LARGEST_FREE,
    EventTable,
    Profile,
    Timeline,
)
from ttmem.profile.operation_forms import OperationForms
from ttmem.profile.tensor_type import HOST

SCHEMA_VERSION = 2
"""Raise it when an older ttmem would misread a newer file; a new field with a default needs no raise."""

_MAGIC = b"\x89TTMEM\r\n"
"""The high bit and the line end reveal a file that went through a text-mode transfer, as PNG's signature does."""
_HEADER = struct.Struct("<8sI Q Q 16s")
_COMPRESSION_LEVEL = 1
_READ_AGAIN = "read the original log again: ttmem profile LOG"
_Length = Annotated[int, msgspec.Meta(ge=0)]
_NAMES_OF_VERSION_1 = {
    f"block_{column}": f"state_{column}" for column in ("kind", "operation", "cause", "view", "line")
} | {f"{end}_block": f"{end}_state" for end in ("first", "end", "last")}
"""Names of the columns of memory states in the first version."""
_FACT_TYPES = {"engine": str, "ttnn": str, "board": str, "system": str, "chips": int, "ranks": list, "arguments": list}
_FACT_TYPES |= {UNREAD: dict}
"""Types of the facts that are read; any other may be anything."""
_PLACES = frozenset({"", HOST, *MEMORIES})
"""Memories of tensors."""
_COLUMN_TYPES = frozenset({"|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"})


def is_saved_profile(first_bytes: bytes) -> bool:
    """Return whether a file that begins like this was written by ``save``."""
    return first_bytes.startswith(_MAGIC)


def save(profile: Profile, path: str | Path) -> None:
    write_bytes(Path(path), encode(profile))


def load(path: str | Path) -> Profile:
    """Load the profile saved at ``path``; refuse a file that is cut, damaged or newer, with what to do."""
    return decode(Path(path).read_bytes(), where=str(path))


def encode(profile: Profile) -> bytes:
    try:
        _check_profile(profile)
        document = msgspec.msgpack.encode(profile, enc_hook=_encode_other, order="deterministic")
    except UnicodeEncodeError:
        # A file name that is not UTF-8 or a message has lone surrogates, which no interchange format can hold.
        plain = msgspec.to_builtins(profile, enc_hook=_encode_other, builtin_types=(bytes,))
        document = msgspec.msgpack.encode(replace_half_pairs_in(plain))
    except OverflowError:
        raise BadInputError("a number of the profile needs more than 64 bits", where=profile.name) from None
    except ValueError as error:
        raise BadInputError(f"the profile contradicts itself ({error})", where=profile.name) from None
    payload = zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(document)
    return _HEADER.pack(_MAGIC, SCHEMA_VERSION, len(payload), len(document), _compute_digest(payload)) + payload


def decode(content: bytes, *, where: str = "") -> Profile:
    """Decode the result of ``encode``; ``where`` names the file in errors."""
    version, document = _unseal(content, where)
    try:
        if version == 1:
            document = msgspec.msgpack.encode(_rename_keys(msgspec.msgpack.decode(document)))
        profile = msgspec.msgpack.decode(document, type=Profile, dec_hook=_decode_other)
        _check_profile(profile)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise BadInputError(f"not a usable saved profile ({error})", where=where, hint=_READ_AGAIN) from None
    return profile


def _unseal(content: bytes, where: str) -> tuple[int, bytes]:
    """Return the version and the msgpack document, once header, length and digest agree."""
    if not is_saved_profile(content):
        raise BadInputError("not a saved profile", where=where, hint="it should have been written by ttmem")
    if len(content) < _HEADER.size:
        raise _build_error("is cut short", where)
    _, version, payload_bytes, document_bytes, digest = _HEADER.unpack_from(content)
    if version > SCHEMA_VERSION:
        raise BadInputError(
            f"written by a newer ttmem (schema {version}, this one reads up to {SCHEMA_VERSION})",
            where=where,
            hint="install a newer ttmem, or read the original log again",
        )
    payload = content[_HEADER.size :]
    if len(payload) < payload_bytes:
        raise _build_error(f"is cut short ({len(payload)} of {payload_bytes} bytes)", where)
    if len(payload) > payload_bytes or version < 1 or _compute_digest(payload) != digest:
        raise _build_error("is damaged (its digest does not match)", where)
    if document_bytes > min(PROFILE_BYTES, max(PROFILE_FREE_BYTES, PROFILE_RATIO * payload_bytes)):
        raise _build_error(f"claims to hold {document_bytes:,} bytes, more than can be", where)
    try:
        if zstandard.frame_content_size(payload) != document_bytes:
            raise ValueError("sizes disagree")
        document = zstandard.ZstdDecompressor().decompress(payload)
    except (zstandard.ZstdError, ValueError, MemoryError):
        raise _build_error("is damaged (it cannot be unpacked)", where) from None
    return version, document


def _rename_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_NAMES_OF_VERSION_1.get(key, key): _rename_keys(item) for key, item in value.items()}
    return [_rename_keys(item) for item in value] if isinstance(value, list) else value


def _build_error(what: str, where: str) -> BadInputError:
    return BadInputError(f"the saved profile {what}", where=where, hint=_READ_AGAIN)


def _compute_digest(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=16).digest()


def _encode_other(value: object) -> object:
    """Encode columns, and numbers from a column among the facts; msgspec does the rest."""
    if isinstance(value, np.ndarray):
        little = value.dtype.newbyteorder("<")
        if little.str in _COLUMN_TYPES and value.ndim:
            differences = np.array(value, dtype=little, order="C")
            differences[1:] -= value[:-1]
            return little.str, value.shape, differences.tobytes()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a profile cannot hold a {type(value).__name__}")


def _decode_other(wanted: Any, stored: Any) -> NDArray[Any]:
    """Decode a numpy column, the only type of the model that msgspec does not know."""
    if get_origin(wanted) is not np.ndarray:
        raise ValueError("unknown kind of field")
    dtype, shape, raw = msgspec.convert(stored, type=tuple[str, tuple[_Length, ...], bytes])
    if dtype not in _COLUMN_TYPES or not shape:
        raise ValueError(f"unknown kind of column '{dtype}'")
    differences = np.frombuffer(raw, dtype=dtype).reshape(shape)
    return np.cumsum(differences, axis=0, dtype=differences.dtype)


def _check_profile(profile: Profile) -> None:
    """Raise ``ValueError``, naming the column, for the first one that points outside its table.

    A digest only proves that a file is the one that was written; a bad column would surface much later as an IndexError
    in a report. Saving checks too: what is saved can be loaded.
    """
    if profile.views.shape != (len(profile.views), VIEW_LARGEST_FREE + 1):
        raise ValueError("memory views have the wrong number of columns")
    for fact, kind in _FACT_TYPES.items():
        if not isinstance(profile.facts.get(fact), kind | tuple | None if kind is list else kind | None):
            raise ValueError(f"the fact '{fact}' is of another type")
    if unknown := next((one.memory for one in profile.tensor_types if one.memory not in _PLACES), None):
        raise ValueError(f"a tensor is in '{unknown}', which is not a memory")
    _check_forms(profile.forms, len(profile.tensor_types))
    for timeline in profile.timelines:
        _check_timeline(timeline, forms=len(profile.forms), views=len(profile.views))
        _check_captured(timeline, tensor_types=len(profile.tensor_types))


def _check_forms(forms: OperationForms, tensor_types: int) -> None:
    columns = (forms.name, forms.signature, forms.ssa_end, forms.location_end, forms.note)
    _check_lengths("operation forms", columns)
    _check_range("operation name", forms.name, 0, len(forms.names))
    _check_range("signature", forms.signature, 0, len(forms.signatures))
    _check_range("note", forms.note, 0, len(forms.notes))
    _check_ends("operand text", forms.ssa_end, forms.ssa_pool)
    _check_ends("location", forms.location_end, forms.location_pool)
    for operand_types, result_types in forms.signatures:
        _check_range("tensor type", (*operand_types, *result_types), -1, tensor_types)


def _check_timeline(timeline: Timeline, *, forms: int, views: int) -> None:
    _check_lengths("operations", (timeline.form, timeline.line, timeline.program))
    states = (timeline.state_kind, timeline.state_operation, timeline.state_cause, timeline.state_line)
    _check_lengths("memory states", states)
    if timeline.state_view.shape != (len(timeline.state_kind), len(MEMORIES)):
        raise ValueError("memory states have the wrong number of memories")
    if timeline.first_index < 0:
        raise ValueError("the first index is negative")
    _check_range("operation form", timeline.form, 0, forms)
    _check_range("program", timeline.program, -1, len(timeline.programs))
    _check_range("kind of memory state", timeline.state_kind, 0, len(STATE_NAMES))
    _check_range("memory view", timeline.state_view, -1, views)
    # One past the end: a state may be tied to the operation that the source was cut off before.
    for what, column in (("operation", timeline.state_operation), ("cause", timeline.state_cause)):
        _check_range(f"memory state's {what}", column, -1, timeline.end_index + 1)
    for program in timeline.programs:
        _check_range("parent program", (program.parent,), -1, len(timeline.programs))
        _check_range(
            "program's operations", (program.first_operation, program.end_operation), 0, timeline.end_index + 1
        )
        _check_range("program's caller", (program.caller,), -1, timeline.end_index + 1)
        _check_range(
            "program's memory states", (program.first_state, program.end_state), 0, len(timeline.state_kind) + 1
        )


def _check_captured(timeline: Timeline, *, tensor_types: int) -> None:
    needs, buffers = timeline.programs_l1, timeline.buffers
    if timeline.events is not None:
        _check_events(timeline.events, timeline.end_index, rows=len(buffers) if buffers is not None else 0)
    if needs is not None:
        _check_lengths("L1 needs of programs", (timeline.form, *needs.columns.values()))
    if buffers is None:
        return
    _check_lengths("buffers", buffers.columns.values())
    _check_range("buffer's memory", buffers.memory, 0, len(MEMORIES))
    _check_range("buffer's name", buffers.name, 0, len(buffers.names))
    _check_range("buffer's tensor type", buffers.tensor_type, -1, tensor_types)
    _check_range("buffer's producer", buffers.producer, -1, timeline.end_index)
    _check_range("buffer's last use", buffers.last_use, -1, timeline.end_index)
    for what, column in (("first", buffers.first_state), ("last", buffers.last_state)):
        _check_range(f"buffer's {what} memory state", column, 0, len(timeline.state_kind))
    if bool(np.any(buffers.first_state > buffers.last_state)):
        raise ValueError("a buffer ends before it begins")


def _check_events(events: EventTable, operations: int, *, rows: int) -> None:
    _check_lengths("events", events.columns.values())
    _check_range("kind of event", events.kind, 0, START + 1)
    _check_range("event's operation", events.operation, 0, operations + 1)
    _check_range("place of an event", events.inside, 0, CLOSING + 1)
    _check_range("event's memory", events.memory, 0, len(MEMORIES))
    _check_range("event's row", events.row, -1, rows)
    taken = events.buffer[events.kind == TAKE]
    if not np.array_equal(taken, np.arange(len(taken))):
        raise ValueError("buffers of events are not counted in order")
    _check_range("event's call path", events.buffer[events.kind == START], 0, len(events.call_paths))
    _check_range("event's buffer", events.buffer[(events.kind == GIVE) | (events.kind == USE)], 0, len(taken))
    if events.pools and len(events.pools) != len(MEMORIES):
        raise ValueError("events lack the regions of some memories")


def _check_lengths(what: str, columns: Iterable[NDArray[Any]]) -> None:
    if len({column.shape for column in columns}) != 1 or any(column.ndim != 1 for column in columns):
        raise ValueError(f"columns of {what} differ in length")


def _check_range(what: str, values: NDArray[Any] | tuple[int, ...], low: int, end: int) -> None:
    if not len(values):
        return
    smallest, largest = (values.min(), values.max()) if isinstance(values, np.ndarray) else (min(values), max(values))
    if smallest < low or largest >= end:
        raise ValueError(f"{what} points outside its table")


def _check_ends(what: str, ends: NDArray[Any], pool: bytes) -> None:
    if not len(ends):
        if pool:
            raise ValueError(f"{what} without an owner")
        return
    if int(ends[0]) < 0 or int(ends[-1]) != len(pool) or bool(np.any(ends[1:] < ends[:-1])):
        raise ValueError(f"{what} ends outside its pool")
