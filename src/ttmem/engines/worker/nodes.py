# SPDX-License-Identifier: Apache-2.0
"""The library's graph nodes, read for memory: what an operation took, gave back and launched, in order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from .account import GIVE, LAUNCH, TAKE, Move

Node = Mapping[str, Any]

_POINTER = re.compile(r"0x[0-9a-f]+")
_RANGE = re.compile(r"\[(\d+)-(\d+) - (\d+)-(\d+)\]")
_PARTS = {
    "circular_buffer_allocate": "circular_buffers",
    "dataflow_buffer_allocate": "dataflow_buffers",
    "scratchpad_allocate": "scratchpads",
}
PARTS = tuple(_PARTS.values())


class ProgramNeeds(NamedTuple):
    """What one program needs in L1, on the core that needs most: bytes by ``PARTS``."""

    program: str
    circular_buffers: int
    dataflow_buffers: int
    scratchpads: int


def moves_of(nodes: Iterable[Node], memory_of: Callable[[int], str], *, raised: bool = False) -> list[Move]:
    """What happened, from a NORMAL capture. A program's launch is told by the clearing of the buffers before it.

    When the call ``raised``, the operation that failed tells no program, and buffers are cleared once more on the way
    out: what is not a program's is no launch then.
    """
    moves: list[Move] = []
    factories: list[str] = []
    for node in nodes:
        kind, params = node["node_type"], node["params"] or {}
        if kind == "function_start":
            factories.append("" if raised and "program_cache_hit" not in params else _factory(params))
        elif kind == "function_end":
            del factories[-1:]
        elif kind == "circular_buffer_deallocate_all":
            if not raised or _innermost(factories):
                moves.append(Move(LAUNCH, program=_innermost(factories)))
        elif kind in ("buffer_allocate", "buffer_deallocate"):
            moves.append(
                Move(
                    TAKE if kind == "buffer_allocate" else GIVE,
                    memory_of(int(params["buffer_type"])),
                    int(params["address"]),
                    int(params["max_size_per_bank"]),
                    int(params["size"]),
                )
            )
    return moves


def needs_of(nodes: Iterable[Node]) -> list[ProgramNeeds]:
    """What the programs of a NO_DISPATCH capture need, one after the other."""
    programs: list[tuple[str, list[tuple[str, int, str]]]] = []
    factories: list[str] = []
    for node in nodes:
        kind, params = node["node_type"], node["params"] or {}
        if kind == "function_start":
            factories.append(_factory(params))
        elif kind == "function_end":
            del factories[-1:]
        elif kind == "circular_buffer_deallocate_all":
            programs.append((_innermost(factories), []))
        elif kind in _PARTS and programs and not _is_borrowed(params):
            programs[-1][1].append((_PARTS[kind], int(params["size"]), params["core_range_set"]))
    return [ProgramNeeds(name, *_worst_core(buffers)) for name, buffers in programs]


def program_key(nodes: Iterable[Node]) -> str:
    """Equal for two captures that ran the same device operations on equally described tensors."""
    digest = hashlib.blake2b(digest_size=16)
    for node in nodes:
        if node["node_type"] == "function_start":
            params = node["params"] or {}
            told = (params.get("name"), params.get("program_factory_type"), node.get("arguments"))
            digest.update(_POINTER.sub("", repr(told)).encode())
    return digest.hexdigest()


def used_cached_programs(nodes: Iterable[Node]) -> bool:
    """Whether every device operation found its program made before."""
    told = ((node["params"] or {}).get("program_cache_hit") for node in nodes if node["node_type"] == "function_start")
    return all(hit is not False for hit in told)


def _factory(params: Mapping[str, Any]) -> str:
    """A device operation is told by its factory; other functions have none. Older releases name only the operation."""
    factory = params.get("program_factory_type")
    if factory is None and "program_cache_hit" not in params and not str(params.get("name", "")).endswith("Operation"):
        return ""
    return f"{params.get('name', '')}/{str(factory or '').rpartition('::')[2]}"


def _innermost(factories: list[str]) -> str:
    return next((name for name in reversed(factories) if name), "")


def _is_borrowed(params: Mapping[str, Any]) -> bool:
    """A buffer laid over a tensor takes nothing of its own."""
    return any(str(params.get(name, "0")) not in ("0", "False") for name in ("globally_allocated", "borrows_memory"))


def _worst_core(buffers: list[tuple[str, int, str]]) -> tuple[int, int, int]:
    per_core: dict[tuple[int, int], dict[str, int]] = {}
    for part, size, text in buffers:
        for core in _cores(text):
            needs = per_core.setdefault(core, dict.fromkeys(PARTS, 0))
            needs[part] += size
    if not per_core:
        return 0, 0, 0
    worst = max(per_core.values(), key=lambda needs: sum(needs.values()))
    return worst["circular_buffers"], worst["dataflow_buffers"], worst["scratchpads"]


@lru_cache(maxsize=256)
def _cores(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(
        (x, y)
        for first_x, first_y, last_x, last_y in _RANGE.findall(text)
        for x in range(int(first_x), int(last_x) + 1)
        for y in range(int(first_y), int(last_y) + 1)
    )
